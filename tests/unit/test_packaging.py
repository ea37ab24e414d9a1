"""A blueprint as one file: what it holds, what it never holds, and that it means the same."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from pathlib import Path

import pytest
import yaml
from example_blueprint import ROOT

from modak_ansible.commands.plan import packaging
from modak_ansible.commands.plan.package import command
from modak_ansible.commands.plan.packaging import package
from modak_ansible.errors import InvalidBlueprint, ModakError, UsageError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.csar import unpack
from modak_ansible.store.project import blueprint_state, find_blueprint

COLLECTION = "playbooks/collections/ansible_collections/modak/hpc"
SHIPPED = ROOT / "tosca" / "blueprints" / "mnist-pytorch-slurm" / "service.yaml"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def names(content):
    return set(zipfile.ZipFile(io.BytesIO(content)).namelist())


def test_all_that_is_needed_elsewhere_and_nothing_else(blueprint):
    for junk in (".git/config", ".modak/x", "train/__pycache__/a.pyc", "train/.env", "notes.txt"):
        path = blueprint.path / junk
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("junk")
    content, listed, left = package(blueprint.service, Inputs(), "modak")
    found = names(content)
    assert found == {*listed, "TOSCA-Metadata/TOSCA.meta"}
    assert {"service.yaml", "train/train.py", "types/modak.yaml", "types/capabilities.yaml"} <= found
    assert not any("__pycache__" in each or "/." in each or each.startswith(".") for each in found)
    assert "notes.txt" not in found
    assert left == []


def test_what_is_imported_under_a_name_comes_along(blueprint):
    blueprint.replace("  - types/modak.yaml\n", "  - modak: types/modak.yaml\n  - mine: { file: own/mine.yaml }\n")
    (blueprint.path / "own").mkdir()
    (blueprint.path / "own/mine.yaml").write_text("tosca_definitions_version: tosca_simple_yaml_1_3\n")
    content, _, _ = package(blueprint.service, Inputs(), "modak")
    assert {"types/modak.yaml", "types/capabilities.yaml", "own/mine.yaml"} <= names(content)


@pytest.mark.parametrize("links", [("types", "playbooks"), ("types",)])
def test_operas_playbooks_and_roles_come_along_without_links(blueprint, links):
    for name in {"types", "playbooks"} - {*links}:
        (blueprint.path / name).unlink()
    content, _, _ = package(blueprint.service, Inputs(), "modak")
    found = names(content)
    for each in ("playbooks/job.yml", "playbooks/callback_plugins/modak_errors.py",
                 f"{COLLECTION}/roles/plan/tasks/main.yml", f"{COLLECTION}/plugins/modules/modak_job.py",
                 f"{COLLECTION}/plugins/module_utils/target/jobs/job.py"):  # fmt: skip
        assert each in found
    assert not any("/planning/" in each for each in found)
    assert len(content) < 500_000


def test_types_that_lie_deeper_have_their_playbooks_beside_them(blueprint, tmp_path):
    (blueprint.path / "playbooks").unlink()
    (blueprint.path / "lib").mkdir()
    (blueprint.path / "types").rename(blueprint.path / "lib" / "types")
    blueprint.replace("types/modak.yaml", "lib/types/modak.yaml")
    path = tmp_path / "mine.csar"
    path.write_bytes(package(blueprint.service, Inputs(), "modak")[0])
    folder = unpack(path).parent
    assert {path.name for path in (folder / "lib").iterdir()} == {"types", "playbooks"}
    named = [(file, each) for file in (folder / "lib" / "types").iterdir() for each in operas_files(file)]
    assert len(named) > 10
    assert all((file.parent / each).exists() for file, each in named)


def operas_files(file):
    """The playbook and the dependencies of each operation in a file of types."""
    for line in file.read_text().splitlines():
        text = line.strip().removeprefix("primary: ").removeprefix("- ")
        if text.startswith("../"):
            yield text


def test_the_same_blueprint_is_the_same_bytes(blueprint):
    first = package(blueprint.service, Inputs(), "modak")[0]
    for path in blueprint.path.rglob("*"):
        path.touch()
    assert package(blueprint.service, Inputs(), "modak")[0] == first


def test_a_package_gives_the_plan_that_the_blueprint_and_its_inputs_give(blueprint, tmp_path, monkeypatch):
    inputs = Inputs(None, (("epochs", "7"),))
    path = tmp_path / "mine.csar"
    path.write_bytes(package(blueprint.service, inputs, "modak")[0])
    meant = plan_blueprint(blueprint.service, inputs).plan
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".modak").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    template = find_blueprint(str(path))
    assert plan_blueprint(template, Inputs()).plan.digest == meant.digest
    assert blueprint_state(template) == elsewhere / ".modak"
    other = plan_blueprint(template, Inputs(None, (("epochs", "8"),))).plan
    assert other.digest != meant.digest
    assert other.name == meant.name


def test_a_blueprint_without_a_name_keeps_that_of_its_folder(blueprint, tmp_path):
    blueprint.replace("template_name: example", "template_author: me")
    path = tmp_path / "mine.csar"
    path.write_bytes(package(blueprint.service, Inputs(), "modak")[0])
    assert plan_blueprint(unpack(path), Inputs()).plan.name == plan_blueprint(blueprint.service, Inputs()).plan.name


def test_values_become_defaults_in_their_own_type(blueprint):
    inputs = Inputs(None, (("epochs", "7"), ("walltime", '"01:00:00"')))
    declared = yaml.safe_load(SHIPPED.read_text())["topology_template"]["inputs"]
    content = package(SHIPPED, inputs, "modak")[0]
    packed = yaml.safe_load(zipfile.ZipFile(io.BytesIO(content)).read("service.yaml"))["topology_template"]["inputs"]
    assert packed["epochs"]["default"] == 7
    assert packed["walltime"]["default"] == "01:00:00"
    assert packed["partitions"] == declared["partitions"]


def test_without_values_the_template_travels_as_it_is():
    content = package(SHIPPED, Inputs(), "modak")[0]
    assert zipfile.ZipFile(io.BytesIO(content)).read("service.yaml") == SHIPPED.read_bytes()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train/key.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"),
        ("train/server.pem", "# mine\n-----BEGIN RSA PRIVATE KEY-----\nx"),
        ("train/id_ed25519", "x"),
        ("train/site.key", "x"),
    ],
)
def test_keys_do_not_travel(blueprint, name, text):
    (blueprint.path / name).write_text(text)
    with pytest.raises(ModakError, match=f"{name} looks like a private key") as caught:
        package(blueprint.service, Inputs(), "modak")
    assert "move it away" in caught.value.hint


def test_an_input_that_is_a_secret_does_not_travel(blueprint):
    text = blueprint.service.read_text()
    data = yaml.safe_load(text)
    data["topology_template"]["inputs"]["hub_token"] = {"type": "string", "default": ""}
    blueprint.service.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ModakError, match="the input hub_token looks like a secret") as caught:
        package(blueprint.service, Inputs(None, (("hub_token", "abc"),)), "modak")
    assert "abc" not in str(caught.value)


def test_what_is_too_large_is_told(blueprint, monkeypatch):
    monkeypatch.setattr(packaging, "MAX_BYTES", 1000)
    with pytest.raises(ModakError, match="more than a package can hold") as caught:
        package(blueprint.service, Inputs(), "modak")
    assert "the largest is" in caught.value.hint


def test_a_link_that_leads_back_is_told_and_not_followed_for_ever(blueprint):
    (blueprint.path / "train" / "again").symlink_to(".")
    (blueprint.path / "train" / "twice").symlink_to("..")
    with pytest.raises(ModakError) as caught:
        package(blueprint.service, Inputs(), "modak")
    assert "again" in str(caught.value)


def test_a_blueprint_that_is_wrong_is_not_packed(blueprint):
    with pytest.raises(InvalidBlueprint):
        package(blueprint.replace("numerics: same", "numerics: exact").service, Inputs(), "modak")


def test_a_request_is_one_file_already(tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"optimisation": {}, "job": {}}))
    with pytest.raises(UsageError, match="is a request"):
        package(path, Inputs(), "modak")


def with_implementation(blueprint, named):
    blueprint.replace(
        "  type: modak.nodes.Training\n",
        "  type: modak.nodes.Training\n"
        f"      interfaces: {{ Standard: {{ operations: {{ create: {{ implementation: {named} }} }} }} }}\n",
    )


@pytest.mark.parametrize("folder", [False, True])
def test_what_is_named_by_its_path_here_does_not_travel(blueprint, tmp_path, folder):
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "own.yml").write_text("- hosts: all\n")
    with_implementation(blueprint, place if folder else place / "own.yml")
    with pytest.raises(ModakError, match="own.yml' is not a valid name for a file in a package"):
        package(blueprint.service, Inputs(), "modak")


@pytest.mark.parametrize("name", [b"a\nb", b"Gr\xfc\xdfe", b"a\\b"])
def test_a_name_that_nothing_unpacks_is_told_when_it_is_packed(blueprint, name):
    (blueprint.path / "own").mkdir()
    (blueprint.path / "own" / os.fsdecode(name)).write_text("")
    with_implementation(blueprint, "own")
    with pytest.raises(ModakError, match="is not a valid name for a file in a package"):
        package(blueprint.service, Inputs(), "modak")


@pytest.mark.parametrize("name", ["mine.txt", "mine", "mine.CSAR"])
def test_a_name_that_is_no_archives_is_refused(blueprint, tmp_path, name):
    """As modak deploy would not know the file for one."""
    place = tmp_path / name
    with pytest.raises(UsageError) as told:
        command(blueprint=str(blueprint.path), output=str(place))
    assert str(told.value) == f"{place} is not an archive's name\n  {place}.csar; or for a folder: {place}/"
    assert not place.exists()


def test_what_is_said_of_an_archive_may_be_typed_as_it_stands(blueprint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, opera in (
        ("my own.zip", "opera deploy 'my own.zip'"),
        ("my own/", "in 'my own/': opera deploy service.yaml"),
    ):
        command(blueprint=str(blueprint.path), output=name)
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == f"to deploy it elsewhere: modak deploy '{name}', or {opera}"


def test_a_folder_that_cannot_be_finished_is_not_begun(blueprint, tmp_path, monkeypatch):
    """Or the same command would find it there, and not empty."""
    write, written = Path.write_bytes, []

    def full(path, content):
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    found, _ = packaging.contents(blueprint.service, Inputs())
    monkeypatch.setattr(Path, "write_bytes", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space left"):
        packaging.lay_out(found, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
    packaging.lay_out(found, tmp_path / "out")
    assert {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()} == {
        *found
    }
