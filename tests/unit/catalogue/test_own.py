"""Entries of users and centres: read with each mistake's place, written whole, planned with like those that ship."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.catalogue import load_catalogue, own
from modak_ansible.catalogue.locks import FOLDER, lock_of
from modak_ansible.catalogue.own import problems_of, read_entry, remove_entry, text_of_entry, write_entry
from modak_ansible.catalogue.reader import CatalogueWarning, shipped_catalogue
from modak_ansible.commands.plan.packaging import package
from modak_ansible.errors import CannotPlan, InvalidBlueprint, ModakError, UsageError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs

SHIPPED = shipped_catalogue()
ENTRIES = {entry.name: entry for entry in SHIPPED.entries}
NEWER = ENTRIES["pytorch-2.13-cpu"].model_copy(update={"name": "pytorch-2.99-cpu", "version": "2.99.0"})
LOCK = (FOLDER / "pytorch-2.13-cpu.txt").read_text(encoding="utf-8").replace("torch==2.13.0", "torch==2.99.0")
IMAGE = ENTRIES["pytorch-1.4-hub"].model_copy(
    update={
        "name": "centre", "origin": "given", "source": "/images/centre.sif", "python": "python3", "version": "2.99.0",
        "address": "frontend.example", "checksum": "a" * 64, "untried": "",
    }
)  # fmt: skip


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "everybody"))
    return tmp_path / "config" / "modak" / "catalogue"


@pytest.mark.parametrize("entry", SHIPPED.entries, ids=ENTRIES)
def test_what_is_written_is_read_again(entry, tmp_path):
    path = tmp_path / f"{entry.name}.yaml"
    path.write_text(text_of_entry(entry), encoding="utf-8")
    assert read_entry(path, SHIPPED) == entry
    assert list(problems_of(entry, SHIPPED)) == []


def test_an_added_entry_is_planned_with_like_one_that_ships(config, blueprint):
    before = plan_blueprint(blueprint.service, Inputs()).plan
    path = write_entry(NEWER, LOCK)
    assert path == config / "pytorch-2.99-cpu.yaml"
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    assert (before.image.entry, plan.image.entry) == ("pytorch-2.13-cpu", "pytorch-2.99-cpu")
    assert "torch==2.99.0+cpu --hash=sha256:" in plan.image.definition
    _, _, left = package(blueprint.service, Inputs(), "me")
    assert left == [f"the entry of the catalogue in {path}, which modak catalogue add takes there"]
    remove_entry("pytorch-2.99-cpu")
    assert not list(config.glob("[!.]*"))
    assert plan_blueprint(blueprint.service, Inputs()).plan == before


def test_one_of_the_machine_is_known_to_all_and_a_user_s_own_comes_before_it(config, tmp_path, monkeypatch):
    everybody = tmp_path / "everybody" / "modak" / "catalogue"
    everybody.mkdir(parents=True)
    for folder, remark in ((everybody, "theirs"), (config, "mine")):
        folder.mkdir(parents=True, exist_ok=True)
        entry = NEWER.model_copy(update={"provenance": remark})
        (folder / "pytorch-2.99-cpu.yaml").write_text(text_of_entry(entry), encoding="utf-8")
        (found,) = (each for each in load_catalogue().entries if each.name == entry.name)
        assert found.provenance == remark
    remove_entry("pytorch-2.99-cpu")
    with pytest.raises(UsageError, match="no entry pytorch-2.99-cpu of yours"):
        remove_entry("pytorch-2.99-cpu")


def test_a_link_to_nothing_among_them_is_left_out(config):
    config.mkdir(parents=True)
    (config / "gone.yaml").symlink_to(config / "elsewhere.yaml")
    with pytest.warns(CatalogueWarning, match=r"gone\.yaml: .*cannot be read: No such file or directory"):
        assert load_catalogue().broken.keys() == {"gone"}


def test_an_entry_is_known_whole_or_not_at_all(config, monkeypatch):
    writing = own.write_whole

    def full(path, text):
        if path.suffix == ".yaml":
            raise OSError(28, "No space left on device", str(path))
        writing(path, text)

    monkeypatch.setattr(own, "write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        write_entry(NEWER, LOCK)
    assert NEWER.name not in {entry.name for entry in load_catalogue().entries}


def test_an_entry_without_its_lock_is_told(config):
    write_entry(NEWER, "")
    with pytest.raises(ModakError, match="no lock file of the packages that pytorch-2.99-cpu installs") as raised:
        lock_of(NEWER.name)
    assert raised.value.hint == f"modak catalogue add {config / 'pytorch-2.99-cpu.yaml'} --replace"


def test_an_image_on_a_target_is_taken_there_and_nowhere_else(config, blueprint):
    write_entry(IMAGE, "")
    blueprint.replace("optimisation: { numerics: same }", "optimisation: { entry: centre }")
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    (layer,) = plan.image.layers
    assert (layer.kind, layer.path, layer.checksum) == ("file", "/images/centre.sif", "a" * 64)
    assert plan.image.python == "python3"
    blueprint.replace("frontend.example", "elsewhere.example")
    with pytest.raises(
        (CannotPlan, InvalidBlueprint), match="centre cannot be taken: its image is on frontend.example"
    ):
        plan_blueprint(blueprint.service, Inputs(strict=True))


GOOD = text_of_entry(NEWER)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", ":1:1", "not a mapping"),
        ("- a\n", ":1:1", "not a mapping"),
        ("name: [\n", ":2:1", "not YAML"),
        (GOOD + "colour: red\n", ":LAST:1", "colour: extra inputs"),
        (GOOD + "x: !!bool maybe\n", ":1:1", "cannot be read"),
        ("[\n" * 1000, ":1:1", "cannot be read"),
        (GOOD.replace("version: 2.99.0", f"version: '{'2' * 5000}'"), ":3:1", "is not a version"),
        (GOOD.replace("torch==2.13.0+cpu", "torch==2.*"), "", "torch==2.* comes first and is not pinned"),
        (GOOD.replace("framework: pytorch", "framework: torch"), ":2:1", "torch is not one of the frameworks that run scripts"),
        (GOOD.replace("version: 2.99.0", "version: newest"), ":3:1", "newest is not a version"),
        (GOOD.replace("version: 2.99.0", "version: 2.99"), ":3:1", "version: input should be a valid string"),
        (GOOD.replace("origin: pip", "origin: conda"), ":4:1", "origin: input should be 'pip'"),
        (GOOD.replace("origin: pip", "origin: hub"), "", "the origin here is hub"),
        (GOOD.replace("debian-bookworm", "ubuntu"), "", "ubuntu is not one of debian-bookworm"),
        (GOOD.replace("x86_64", "z80"), "", "z80 is not a processor"),
        (GOOD.replace("torch==2.13.0+cpu", "torch"), "", "torch comes first and is not pinned"),
        (GOOD.replace("torch==2.13.0+cpu", "torch=2"), "", "torch=2 is not a line of requirements.txt"),
        (GOOD.replace("name: pytorch-2.99-cpu", "name: other"), ":1:1", "other is not the file's, pytorch-2.99-cpu"),
        (GOOD.replace("name: pytorch-2.99-cpu", "name: ../x"), ":1:1", "is not a name of small letters"),
        (GOOD.replace("import torch", "import torch torch", 1), "", "probe: not Python"),
        (GOOD.replace("licence:", "licenze:"), "", "licence: field required"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_with_its_place(tmp_path, text, place, said):
    path = tmp_path / "pytorch-2.99-cpu.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidBlueprint) as raised:
        read_entry(path, SHIPPED)
    message = str(raised.value)
    assert said in message
    assert f"{path}{place.replace('LAST', str(text.count(chr(10))))}" in message or place == ":1:1"


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode), st.lists(
    st.tuples(st.sampled_from(["name", "framework", "version", "probe", "requirements", "origin", "x"]), st.sampled_from(["1", "[a]", "{a: b}", "!!x y", "&a b", "*a", "2001-01-01", "~"])),
    max_size=6).map(lambda pairs: "".join(f"{name}: {value}\n" for name, value in pairs).encode())))  # fmt: skip
def test_whatever_a_file_holds_is_an_entry_or_a_mistake(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "anything.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidBlueprint):
        read_entry(path, SHIPPED)


def test_an_entry_with_mistakes_stops_only_who_needs_it(config, blueprint):
    before = plan_blueprint(blueprint.service, Inputs()).plan
    write_entry(NEWER, LOCK)
    path = config / "pytorch-2.99-cpu.yaml"
    path.write_text(path.read_text().replace("framework:", "framewrk:"))
    with pytest.warns(CatalogueWarning, match="the entry pytorch-2.99-cpu is left out") as warned:
        assert plan_blueprint(blueprint.service, Inputs()).plan == before
        load_catalogue()
    assert len(warned) == 1
    blueprint.replace("numerics: same", "entry: pytorch-2.99-cpu")
    with pytest.raises(InvalidBlueprint, match=r"(?s)the entry pytorch-2.99-cpu has mistakes \(.*framewrk"):
        plan_blueprint(blueprint.service, Inputs())
    with pytest.raises(UsageError, match=r"(?s)the entry pytorch-2.99-cpu has mistakes\n.*framewrk"):
        load_catalogue().entry("pytorch-2.99-cpu")
