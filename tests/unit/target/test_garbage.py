"""What is garbage in a workspace, and that nothing else ever is."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workspaces import BASE, DATA, DAY, DEPLOYMENT, OTHER, TOP, dataset, deploy, image, old, plan

from modak_ansible.target.core.files import Lock, write_json
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.garbage.garbage import Garbage
from modak_ansible.target.garbage.uses import RESERVED, Uses


@pytest.fixture
def workspace(tmp_path):
    made = Workspace(str(tmp_path / "w"))
    made.create()
    return made


def garbage(workspace, older_than=DAY):
    return {each.name: each for each in Garbage(workspace, older_than).survey() if not each.keep}


def kept(workspace, older_than=DAY):
    return {each.name: each.keep for each in Garbage(workspace, older_than).survey() if each.keep}


def test_nothing_is_garbage_where_nothing_is(tmp_path):
    workspace = Workspace(str(tmp_path / "none"))
    assert Garbage(workspace, 0).survey() == []
    assert Garbage(workspace, 0).remove() == []
    assert not workspace.path.exists()


def test_what_no_deployment_uses_goes_with_all_that_belongs_to_it(workspace):
    image(workspace, TOP)
    dataset(workspace)
    assert set(garbage(workspace)) == {f"pytorch ({TOP[:12]})", DATA}
    removed = Garbage(workspace, DAY).remove()
    assert {each["kind"] for each in removed} == {"image", "dataset"}
    assert sum(each["size"] for each in removed) > 150
    assert list(workspace.images.iterdir()) == []
    assert list(workspace.datasets.iterdir()) == []
    assert list(workspace.path.glob(".trash-*")) == []


def test_folders_of_a_workspace_may_lie_on_other_file_systems(workspace, tmp_path, monkeypatch):
    """As where a user has put images where there is room, and a link in their place."""
    (tmp_path / "scratch").mkdir()
    workspace.images.rmdir()
    workspace.images.symlink_to(tmp_path / "scratch")
    image(workspace, TOP)
    rename = Path.rename

    def within_one(self, target):
        if (workspace.images in self.parents) != (workspace.images in target.parents):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", within_one)
    assert [each["kind"] for each in Garbage(workspace, DAY).remove()] == ["image"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_variable_that_has_no_value_any_more_keeps_nobody_from_the_rest(workspace, monkeypatch):
    monkeypatch.setattr("modak_ansible.target.core.workspace._of_login_shell", lambda name: "")
    folder = deploy(workspace)
    write_json(folder / "plan.json", {"image": {"layers": [{"path": "$GONE/own.sif"}]}, "dataset": None})
    image(workspace, OTHER)
    assert OTHER[:12] in next(iter(garbage(workspace)))


def test_a_deployment_keeps_its_layers_and_its_data_whoever_it_belongs_to(workspace):
    for digest, name in ((BASE, "base"), (TOP, "pytorch"), (OTHER, "tensorflow")):
        image(workspace, digest, name)
    dataset(workspace)
    deploy(workspace)
    removed = Garbage(workspace, DAY).remove()
    assert [each["name"] for each in removed if each["kind"] == "image"] == [f"tensorflow ({OTHER[:12]})"]
    assert (workspace.images / f"{BASE}.sif").exists()
    assert (workspace.images / f"{TOP}.json").exists()
    assert (workspace.datasets / DATA / "a.gz").exists()
    assert kept(workspace)[DATA] == f"used by {DEPLOYMENT}"


def test_old_logs_of_images_that_stay_go(workspace):
    image(workspace, TOP)
    deploy(workspace)
    (removed,) = Garbage(workspace, DAY).remove()
    assert removed["kind"] == "log"
    assert not (workspace.images / f"{TOP}.log").exists()
    assert (workspace.images / f"{TOP}.sif").exists()


@pytest.mark.parametrize("damage", ["", '{"image": ', "[1]", '{"image": {"layers": 3}}'])
def test_a_damaged_plan_keeps_what_the_files_still_name(workspace, damage):
    image(workspace, TOP)
    image(workspace, OTHER)
    dataset(workspace)
    folder = deploy(workspace)
    (folder / "plan.json").write_text(damage)
    assert [each["path"] for each in Garbage(workspace, DAY).remove() if each["kind"] == "image"] == [
        str(workspace.images / f"{OTHER}.sif")
    ]
    assert (workspace.datasets / DATA).exists()


def test_where_a_deployment_tells_nothing_all_stays(workspace):
    image(workspace, TOP)
    dataset(workspace)
    folder = deploy(workspace)
    (folder / "plan.json").unlink()
    (folder / "job.sh").unlink()
    assert not [each for each in Garbage(workspace, 0).remove() if each["kind"] in ("image", "dataset")]
    assert set(kept(workspace).values()) == {f"it is not known what {folder} uses"}


def test_what_was_used_lately_stays(workspace):
    image(workspace, TOP, days=0.5)
    dataset(workspace, days=0.5)
    assert garbage(workspace) == {}
    assert set(kept(workspace).values()) == {"used lately"}
    assert len(garbage(workspace, 3600)) == 2


def test_a_deployment_that_is_under_way_keeps_what_it_found_and_what_it_will_make(workspace):
    """Between the first look and the job's folder nothing but the reservation speaks for it."""
    image(workspace, BASE)
    dataset(workspace)
    uses = Uses(workspace)
    uses.reserve(DEPLOYMENT, [f"images/{BASE}.sif", f"images/{TOP}.sif"])
    uses.reserve(DEPLOYMENT, [f"datasets/{DATA}"])
    part = workspace.images / f".{TOP}.part"
    part.mkdir()
    old(part)
    assert [each for each in Garbage(workspace, 0).remove() if each["kind"] != "log"] == []
    assert kept(workspace, 0)[DATA] == f"used by {DEPLOYMENT}"
    assert part.exists()


def test_a_reservation_ends(workspace):
    image(workspace, TOP)
    Uses(workspace).reserve(DEPLOYMENT, [f"images/{TOP}.sif"])
    reservation = workspace.deployments / f".{DEPLOYMENT}.uses.json"
    old(reservation, days=RESERVED / DAY + 0.1)
    assert {each["kind"] for each in Garbage(workspace, 0).remove()} == {"image", "reservation"}
    Uses(workspace).reserve(DEPLOYMENT, [f"images/{TOP}.sif"])
    Uses(workspace).forget(DEPLOYMENT)
    Uses(workspace).forget(DEPLOYMENT)
    assert not reservation.exists()


def test_looking_at_an_image_makes_it_used_lately(workspace):
    image(workspace, TOP)
    dataset(workspace)
    uses = Uses(workspace)
    uses.reserve(DEPLOYMENT, [f"images/{TOP}.sif", f"datasets/{DATA}"])
    uses.forget(DEPLOYMENT)
    assert [each for each in garbage(workspace).values() if each.kind != "log"] == []


def test_an_environment_is_an_image_too(workspace):
    path = workspace.images / f"{TOP}.venv"
    (path / "bin").mkdir(parents=True)
    (path / ".complete").touch()
    (workspace.images / f"{TOP}.sh").write_text("x")
    old(path)
    assert list(garbage(workspace)) == [TOP[:12]]
    Garbage(workspace, DAY).remove()
    assert list(workspace.images.iterdir()) == []


HOLD = (
    "import sys, time; from pathlib import Path; from modak_ansible.target.core.files import Lock;"
    "Lock(Path(sys.argv[1])).take(wait=True); print('held', flush=True); time.sleep(60)"
)


@pytest.mark.component
@pytest.mark.parametrize("name", [f".{TOP}.lock", f"{TOP}.lock"])
def test_what_is_being_made_stays(workspace, name):
    image(workspace, TOP)
    part = workspace.images / f".{TOP}.part"
    part.mkdir()
    old(part)
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(workspace.images / name)], stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == b"held\n"
        assert Garbage(workspace, 0).remove() == []
        assert part.exists()
    finally:
        owner.kill()
        owner.communicate()
    assert {each["kind"] for each in Garbage(workspace, 0).remove()} == {"image"}
    assert list(workspace.images.iterdir()) == []


def test_left_overs_of_what_was_killed(workspace):
    (workspace.images / f".{TOP}.part").mkdir()
    (workspace.images / f".{TOP}.lock").touch()
    (workspace.images / f".{OTHER}.json.123.part").touch()
    (workspace.datasets / f".{DATA}.part").mkdir()
    (workspace.datasets / f".{DATA}.unpacked.login1_example.part").mkdir()
    (workspace.deployments / f".{DEPLOYMENT}.4711.part").mkdir()
    (workspace.deployments / f".{DEPLOYMENT}.{'a' * 32}.tar.gz").touch()
    (workspace.deployments / f".incoming-{'b' * 32}").mkdir()
    (workspace.deployments / f".{DEPLOYMENT}.lock").touch()
    trash = workspace.path / ".trash-1"
    trash.mkdir()
    (trash / "x").touch()
    for each in (workspace.images, workspace.datasets, workspace.deployments):
        for path in each.iterdir():
            old(path, days=0.01)
    assert {each.kind for each in Garbage(workspace, DAY).survey()} == {"trash"}
    for each in (workspace.images, workspace.datasets, workspace.deployments):
        for path in each.iterdir():
            old(path)
    kinds = sorted(each["kind"] for each in Garbage(workspace, DAY).remove())
    assert kinds == ["lock", "lock", "trash", *["unfinished"] * 6]
    left = [path.name for path in workspace.path.rglob("*")]
    assert sorted(left) == [".uses.lock", "datasets", "deployments", "images"]


def test_an_archive_on_its_way_stays_for_an_hour_whatever_is_asked(workspace):
    path = workspace.deployments / f".{DEPLOYMENT}.{'a' * 32}.tar.gz"
    path.touch()
    assert Garbage(workspace, 0).remove() == []
    assert path.exists()


def test_a_deployments_lock_stays_with_its_folder(workspace):
    deploy(workspace)
    lock = workspace.deployments / f".{DEPLOYMENT}.lock"
    lock.touch()
    old(lock)
    Garbage(workspace, 0).remove()
    assert lock.exists()


def test_a_refusal_is_remembered(workspace):
    path = workspace.images / f"{TOP}.json"
    write_json(path, {"name": "glow", "refused": "Illegal instruction", "processor": "Acme"})
    old(path)
    log = workspace.images / f"{TOP}.log"
    log.touch()
    old(log)
    assert [each["kind"] for each in Garbage(workspace, DAY).remove()] == ["log"]
    assert path.exists()


def test_other_peoples_files_are_left_alone(workspace):
    mine = [workspace.images / "mine.sif", workspace.images / "notes.part", workspace.datasets / "imagenet"]
    mine += [workspace.deployments / "notes.txt", workspace.path / "README"]
    for path in mine:
        path.mkdir() if path.name == "imagenet" else path.write_text("mine")
        old(path)
    assert Garbage(workspace, 0).remove() == []
    assert all(path.exists() for path in mine)


def test_only_what_was_shown_goes(workspace):
    for digest in (TOP, OTHER):
        image(workspace, digest)
    removed = Garbage(workspace, DAY).remove([str(workspace.images / f"{TOP}.sif")])
    assert len(removed) == 1
    assert (workspace.images / f"{OTHER}.sif").exists()


def test_what_came_into_use_since_it_was_shown_stays(workspace):
    path = image(workspace, TOP)
    (shown,) = Garbage(workspace, DAY).survey()
    deploy(workspace)
    Garbage(workspace, DAY).remove([str(shown.paths[0])])
    assert path.exists()


@pytest.mark.component
def test_a_deployment_that_reserves_waits_for_a_removal_and_finds_nothing_half(workspace):
    """Many deployments race a removal: each finds its image whole, or not at all."""
    code = (
        "import sys; from modak_ansible.target.garbage.uses import Uses; from modak_ansible.target.core.workspace import Workspace;"
        "w = Workspace(sys.argv[1]); d = sys.argv[2]; Uses(w).reserve('race-0123456789ab', [f'images/{d}.sif']);"
        "s = w.images / f'{d}.sif'; print(s.exists(), s.with_suffix('.json').exists())"
    )
    digests = [f"{number:064x}" for number in range(30)]
    for digest in digests:
        image(workspace, digest)
    racing = [
        subprocess.Popen([sys.executable, "-c", code, str(workspace.path), digest], stdout=subprocess.PIPE, text=True)
        for digest in digests[::6]
    ]
    time.sleep(0.1)
    Garbage(workspace, DAY).remove()
    for digest, each in zip(digests[::6], racing, strict=True):
        said = each.communicate(timeout=60)[0].split()
        assert said in (["True", "True"], ["False", "False"])
        assert (workspace.images / f"{digest}.sif").exists() == (said[0] == "True")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    deployed=st.lists(st.sets(st.integers(0, 5)), max_size=3),
    reserved=st.sets(st.integers(0, 5)),
    lately=st.sets(st.integers(0, 5)),
)
def test_exactly_what_nobody_uses_goes(tmp_path_factory, deployed, reserved, lately):
    workspace = Workspace(str(tmp_path_factory.mktemp("w")))
    workspace.create()
    digests = [f"{number:064x}" for number in range(6)]
    for number, used in enumerate(deployed):
        folder = workspace.deployments / f"d{number}-0123456789ab"
        folder.mkdir()
        write_json(folder / "plan.json", plan(*(digests[each] for each in used), data=None))
    for number, digest in enumerate(digests):
        image(workspace, digest, days=0 if number in lately else 30)
    Uses(workspace).reserve("other-0123456789ab", [f"images/{digests[each]}.sif" for each in reserved])
    Garbage(workspace, DAY).remove()
    there = {number for number, digest in enumerate(digests) if (workspace.images / f"{digest}.sif").exists()}
    assert there == set().union(*deployed) | reserved | lately
    assert all((workspace.images / f"{digests[number]}.json").exists() for number in there)


@pytest.mark.component
def test_a_removed_lock_is_no_lock_for_those_who_waited(workspace):
    path = workspace.path / "lock"
    mine = Lock(path)
    mine.take(wait=True)
    code = (
        "import sys; from pathlib import Path; from modak_ansible.target.core.files import Lock;"
        "lock = Lock(Path(sys.argv[1])); print('begins', flush=True); lock.take(wait=True);"
        "print(Path(sys.argv[1]).exists(), Lock(Path(sys.argv[1])).is_taken(), flush=True)"
    )
    waiting = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "begins\n"
    time.sleep(0.3)
    mine.remove()
    assert waiting.communicate(timeout=20)[0] == "True True\n"


def test_a_survey_is_json(workspace):
    image(workspace, TOP)
    (each,) = json.loads(json.dumps([found.as_dict() for found in Garbage(workspace, DAY).survey()]))
    assert each["path"].endswith(f"{TOP}.sif")
    assert each["size"] > 100
    assert each["idle"] == pytest.approx(30 * DAY, abs=60)


def test_the_image_of_a_dataset_stays_while_a_deployment_reads_it_and_its_folder_need_not(workspace):
    image_of = workspace.datasets / f"{DATA}.sqsh"
    image_of.write_bytes(b"x" * 70)
    for name in (".json", ".seal", ".log", ".status.json"):
        image_of.with_name(image_of.name + name).write_text("{}")
    for each in workspace.datasets.glob(f"{DATA}.sqsh*"):
        old(each)
    dataset(workspace)
    made = plan(TOP)
    made["dataset"] = {"path": f"datasets/{DATA}", "pack": "squashfs"}
    folder = workspace.deployments / DEPLOYMENT
    folder.mkdir()
    write_json(folder / "plan.json", made)
    found = {each.name: each.keep for each in Garbage(workspace, DAY).survey() if each.kind == "dataset"}
    assert found == {DATA: "", f"{DATA}.sqsh": f"used by {DEPLOYMENT}"}
    (folder / "plan.json").unlink()
    folder.rmdir()
    Garbage(workspace, DAY).remove()
    assert list(workspace.datasets.iterdir()) == []
