"""Images: made once, whole or absent; a program that takes Apptainer's place writes what it was asked to do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from image_builds import BASE, OTHER, TOP, calls, layer, make, runtime, store_of, wait

from modak_ansible.errors import ModakError
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.images import image as image_module
from modak_ansible.target.images import probe as image_probe
from modak_ansible.target.images.registry import NoDigest

__all__ = ["runtime"]

RECORDED = Path(__file__).resolve().parents[1] / "recorded"


@pytest.fixture
def refusing(monkeypatch):
    """Has the probe of any image but a base say what a real one said."""
    monkeypatch.setenv("SAYS", str(RECORDED / "apptainer-1.4.5-test-illegal.txt"))
    monkeypatch.setenv("CODE", "132")
    monkeypatch.setattr(image_probe, "processor_name", lambda: "Acme 9000")


@pytest.mark.component
def test_layers_are_built_from_the_base_upwards(runtime):
    store = store_of(runtime, BASE, TOP)
    assert [each["name"] for each in store.missing()] == ["base", "top"]
    assert make(store)["state"] == "done"
    assert store.missing() == []
    base = runtime / "w" / "images" / "base.sif"
    assert calls(runtime) == ["build OSVersion: bookworm", f"build From: {base}"]
    assert "MirrorURL: http://mirror.example/debian/" in base.read_text()
    top = (runtime / "w" / "images" / "top.sif").read_text()
    assert "d top 20" in top
    assert "{{" not in top
    assert store.describe()["size"] == len(top)


@pytest.mark.component
def test_a_base_is_shared(runtime):
    make(store_of(runtime, BASE, TOP))
    make(store_of(runtime, BASE, OTHER))
    assert len(calls(runtime)) == 3


@pytest.mark.component
def test_two_builds_at_once_make_one_image(runtime, monkeypatch):
    monkeypatch.setenv("PAUSE", "0.5")
    first, second = store_of(runtime, BASE, TOP), store_of(runtime, BASE, TOP)
    first._workspace.create()
    assert first.start()
    assert not second.start()
    assert wait(second)["state"] == "done"
    assert len(calls(runtime)) == 2


@pytest.mark.component
def test_two_images_at_once_make_one_base(runtime, monkeypatch):
    monkeypatch.setenv("PAUSE", "0.5")
    first, second = store_of(runtime, BASE, TOP), store_of(runtime, BASE, OTHER)
    first._workspace.create()
    assert first.start()
    assert second.start()
    assert (wait(first)["state"], wait(second)["state"]) == ("done", "done")
    assert len(calls(runtime)) == 3
    assert calls(runtime).count("build OSVersion: bookworm") == 1


@pytest.mark.component
def test_a_killed_build_leaves_nothing_that_looks_finished(runtime, monkeypatch):
    monkeypatch.setenv("PAUSE", "30")
    store = store_of(runtime, BASE, TOP)
    store._workspace.create()
    store.start()
    while not (runtime / "calls").exists():
        time.sleep(0.02)
    os.killpg(os.getpgid(store.activity.status()["pid"]), signal.SIGKILL)
    assert wait(store)["state"] == "killed"
    assert [each["name"] for each in store.missing()] == ["base", "top"]
    assert not list((runtime / "w" / "images").glob("*.sif"))
    monkeypatch.setenv("PAUSE", "0")
    assert make(store)["state"] == "done"
    assert not list((runtime / "w" / "images").glob(".*.part"))


@pytest.mark.component
def test_a_failed_build_tells_its_reason(runtime, monkeypatch):
    monkeypatch.setenv("BREAK", "no matching distribution for torch")
    store = store_of(runtime, BASE, TOP)
    status = make(store)
    assert status["state"] == "failed"
    assert "no matching distribution for torch" in status["message"]
    assert "the whole log is" in status["hint"]
    assert len(store.missing()) == 2


@pytest.mark.component
def test_a_full_disk_is_called_so(runtime, monkeypatch):
    monkeypatch.setenv("BREAK", "write: no space left on device")
    status = make(store_of(runtime, BASE, TOP))
    assert (status["message"], "~/.apptainer/cache" in status["hint"]) == ("the disk is full", True)


@pytest.mark.component
def test_a_damaged_image_is_made_again(runtime):
    store = store_of(runtime, BASE, TOP)
    make(store)
    (runtime / "w" / "images" / "top.sif").write_text("cut")
    assert [each["name"] for each in store.missing()] == ["top"]


@pytest.mark.component
def test_an_image_is_pulled(runtime):
    store = store_of(runtime, layer("hub", "", kind="pull", source="docker://acme/torch:1"))
    assert make(store)["state"] == "done"
    assert calls(runtime) == ["pull docker://acme/torch:1"]


@pytest.mark.component
def test_an_image_is_pulled_by_the_digest_of_its_tag_where_the_registry_tells_it(runtime, monkeypatch):
    hub = layer("hub", "", kind="pull", source="docker://r.example:5000/team/torch:1")
    oci = f"sha256:{'7' * 64}"
    monkeypatch.setattr(image_module, "digest_of_tag", lambda *_: oci)
    store = store_of(runtime, hub)
    assert make(store)["state"] == "done"
    assert calls(runtime) == [f"pull docker://r.example:5000/team/torch@{oci}"]
    assert store.describe()["oci"] == oci


@pytest.mark.component
def test_a_registry_that_tells_no_digest_stops_no_pull(runtime, monkeypatch):
    def digest_of_tag(*_):
        raise NoDigest("it answers 500")

    monkeypatch.setattr(image_module, "digest_of_tag", digest_of_tag)
    store = store_of(runtime, layer("hub", "", kind="pull", source="docker://acme/torch:1"))
    assert make(store)["state"] == "done"
    assert calls(runtime) == ["pull docker://acme/torch:1"]
    assert store.describe()["oci_problem"] == "it answers 500"


def test_a_given_file_is_taken_and_checked(runtime):
    store = store_of(runtime, layer("mine", "", kind="file", path=str(runtime / "my.sif"), checksum="0" * 64))
    with pytest.raises(ModakError, match=r"my.sif is not there"):
        store.check()
    (runtime / "my.sif").write_text("x")
    with pytest.raises(ModakError, match="has the SHA-256"):
        store.check()
    store = store_of(runtime, layer("mine", "", kind="file", path=str(runtime / "my.sif")))
    store.check()
    assert store.missing() == []


@pytest.mark.component
def test_an_environment_is_whole_or_absent(runtime):
    good = layer("env", 'mkdir -p "$1/bin"\n', kind="venv", path="images/env.venv")
    store = store_of(runtime, good, container_runtime="none")
    assert make(store)["state"] == "done"
    assert store.missing() == []
    bad = layer("bad", 'mkdir -p "$1/bin"; echo "ERROR: no wheel"; exit 1\n', kind="venv", path="images/bad.venv")
    store = store_of(runtime, bad, container_runtime="none")
    assert "ERROR: no wheel" in make(store)["message"]
    assert not (runtime / "w" / "images" / "bad.venv").exists()


@pytest.mark.component
def test_images_are_compressed_by_zstd_where_the_target_can(runtime):
    make(store_of(runtime, BASE))
    (runtime / "bin" / "mksquashfs").write_text("#!/bin/sh\necho gzip lzo xz >&2\n")
    make(store_of(runtime, TOP))
    with_zstd, without = (runtime / "calls.options").read_text().splitlines()
    assert "--mksquashfs-args -comp zstd" in with_zstd
    assert "mksquashfs" not in without


# --- probes


@pytest.mark.component
def test_every_layer_is_probed_after_its_build(runtime):
    store = store_of(runtime, BASE, TOP)
    assert make(store)["state"] == "done"
    assert all("--notest" in line for line in (runtime / "calls.options").read_text().splitlines())
    assert (runtime / "calls.probes").read_text().count("test ") == 2
    assert store.refusal() is None


@pytest.mark.component
def test_a_pulled_image_is_probed_with_the_command_of_its_layer(runtime):
    hub = layer("hub", "", kind="pull", source="docker://acme/torch:1", probe=["python3", "-c", "import torch"])
    store = store_of(runtime, hub)
    assert make(store)["state"] == "done"
    assert (runtime / "calls.probes").read_text().endswith("image.sif python3 -c import torch\n")


@pytest.mark.component
def test_a_refused_image_is_not_kept_and_not_built_again(runtime, refusing):
    store = store_of(runtime, BASE, TOP)
    status = make(store)
    assert status["message"] == "top was refused by its probe on Acme 9000: Illegal instruction"
    assert store.refusal()["refused"] == "Illegal instruction"
    assert [path.name for path in (runtime / "w" / "images").glob("*.sif")] == ["base.sif"]
    assert not list((runtime / "w" / "images").glob(".*.part"))
    assert make(store_of(runtime, BASE, TOP))["message"] == status["message"]
    assert len(calls(runtime)) == 2


@pytest.mark.component
def test_a_refused_image_is_tried_again_when_that_is_asked_for(runtime, refusing, monkeypatch):
    store = store_of(runtime, BASE, TOP)
    make(store)
    monkeypatch.delenv("SAYS")
    store.forget_refusals()
    assert store.refusal() is None
    assert make(store)["state"] == "done"
    assert store.missing() == []


@pytest.mark.component
def test_another_processor_tries_for_itself(runtime, refusing, monkeypatch):
    store = store_of(runtime, BASE, TOP)
    make(store)
    monkeypatch.setattr(image_probe, "processor_name", lambda: "Acme 9001")
    assert store.refusal() is None
    monkeypatch.delenv("SAYS")
    assert make(store)["state"] == "done"


@pytest.mark.component
def test_an_environment_that_its_probe_refuses(runtime, monkeypatch):
    monkeypatch.setattr(image_probe, "processor_name", lambda: "Acme 9000")
    script = f'mkdir -p "$1/bin"; echo "AssertionError: no"; exit {image_probe.PROBE_FAILED}\n'
    store = store_of(runtime, layer("env", script, kind="venv", path="images/env.venv"), container_runtime="none")
    assert make(store)["message"] == "env was refused by its probe on Acme 9000: AssertionError: no"
    assert store.refusal()["processor"] == "Acme 9000"
    assert not (runtime / "w" / "images" / "env.venv").exists()


def test_without_debootstrap_or_mirror(runtime, monkeypatch):
    store = store_of(runtime, BASE, TOP)
    store._workspace.create()
    real = image_module.find_program
    monkeypatch.setattr(
        image_module, "find_program", lambda *names: None if names == ("debootstrap",) else real(*names)
    )
    with pytest.raises(ModakError, match="debootstrap is not on the target"):
        store.check()


# --- an image is what it was when it was made


@pytest.mark.component
def test_a_changed_image_is_made_anew(runtime):
    store = store_of(runtime, BASE, TOP)
    make(store)
    top = runtime / "w" / "images" / "top.sif"
    whole = top.read_text()
    top.write_text(whole.replace("top", "pot"))  # of the same size
    store = store_of(runtime, BASE, TOP)
    assert [each["name"] for each in store.missing()] == ["top"]
    assert store.changed() == [str(top)]
    assert make(store)["state"] == "done"
    assert (store_of(runtime, BASE, TOP).missing(), "pot" in top.read_text()) == ([], False)


@pytest.mark.component
def test_a_changed_base_is_not_built_upon(runtime):
    make(store_of(runtime, BASE, TOP))
    (runtime / "w" / "images" / "base.sif").write_text("something else")
    make(store_of(runtime, BASE, OTHER))
    assert calls(runtime).count("build OSVersion: bookworm") == 2


@pytest.mark.component
def test_an_image_of_before_seals_gets_one(runtime):
    make(store_of(runtime, BASE, TOP))
    seal = runtime / "w" / "images" / "top.seal"
    before = seal.read_text()
    seal.unlink()
    assert store_of(runtime, BASE, TOP).missing() == []
    assert seal.read_text() == before


@pytest.mark.component
def test_a_pulled_image_is_compared_with_its_checksum(runtime):
    hub = layer("hub", "", kind="pull", source="oras://registry.example/a:1", checksum="0" * 64)
    assert "oras://registry.example/a:1 has the SHA-256 " in make(store_of(runtime, hub))["message"]
    assert not (runtime / "w" / "images" / "hub.sif").exists()


def test_a_given_image_is_compared_with_its_checksum_and_kept_in_mind(runtime):
    image = runtime / "mine.sif"
    image.write_text("mine")
    digest = sha256_of(image)
    given = layer("given", "", kind="file", path=str(image), checksum=digest)
    store_of(runtime, given).check_given(keep=True)
    assert (runtime / "w" / "images" / "given.seal").read_text().split()[0] == digest
    image.write_text("nime")
    with pytest.raises(ModakError, match=f"not {digest}"):
        store_of(runtime, given).check_given(keep=True)
    free = {**given, "checksum": ""}
    store_of(runtime, free).check_given(keep=True)
    assert (runtime / "w" / "images" / "given.seal").read_text().split()[0] == sha256_of(image)


# --- secrets

SECRETS = {
    "logins": [{"registry": "docker.io", "username": "alice", "password": "planted-word"}],
    "pip": {"index-url": "https://bob:planted-token@index.example/simple"},
}


@pytest.mark.component
def test_a_pull_is_told_its_login_by_the_environment_alone(runtime, monkeypatch):
    told = runtime / "bin" / "apptainer"
    told.write_text(told.read_text().replace("pull) ", 'pull) env > "$CALLS.env"; env; echo "$*" >> "$CALLS.words"; '))
    hub = layer("hub", "", kind="pull", source="docker://acme/torch:1")
    store = store_of(runtime, hub)
    store._secrets = SECRETS
    assert make(store)["state"] == "done"
    environment = (runtime / "calls.env").read_text()
    assert "APPTAINER_DOCKER_PASSWORD=planted-word" in environment
    assert "planted" not in (runtime / "calls.words").read_text()
    log = store.activity.log.read_text()
    assert "APPTAINER_DOCKER_PASSWORD=********" in log
    for path in (runtime / "w").rglob("*"):
        assert not path.is_file() or b"planted" not in path.read_bytes(), path


@pytest.mark.component
def test_a_token_of_an_index_reaches_the_build_and_is_gone_after(runtime):
    seen = runtime / "bin" / "apptainer"
    seen.write_text(seen.read_text().replace("sleep", 'cat "$MODAK_SITE/environment" >> "$CALLS.site"; sleep'))
    store = store_of(runtime, BASE, TOP)
    store._secrets = SECRETS
    assert make(store)["state"] == "done"
    assert "export PIP_INDEX_URL=https://bob:planted-token@index.example/simple" in (runtime / "calls.site").read_text()
    for path in (runtime / "w").rglob("*"):
        assert not path.is_file() or b"planted" not in path.read_bytes(), path
