"""New entries: what is asked for, what they are made like, and what comes of an index or of an image."""

from __future__ import annotations

import subprocess

import pytest

from modak_ansible.catalogue import adding, locking
from modak_ansible.catalogue.adding import (
    asked_for,
    framework_in,
    from_image,
    from_index,
    named_like,
    pattern_for,
    released,
)
from modak_ansible.catalogue.locking import File, LockRequest, NotFound, resolved, versions_of
from modak_ansible.catalogue.own import problems_of
from modak_ansible.catalogue.reader import shipped_catalogue
from modak_ansible.errors import UsageError
from modak_ansible.model.measured.seen_image import SeenImage

CATALOGUE = shipped_catalogue()
ENTRIES = {entry.name: entry for entry in CATALOGUE.entries}


def quiet(_):
    pass


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("pytorch==2.14.1", ("pytorch", "2.14.1")),
        ("torch == 2.14", ("pytorch", "2.14")),
        ("TensorFlow", ("tensorflow", "")),
        ("tensorflow-cpu==2.19", ("tensorflow", "2.19")),
        ("keras==3.14.0", ("keras", "3.14.0")),
    ],
)
def test_a_framework_is_known_by_its_name_and_its_package_s(text, meant):
    assert asked_for(text, CATALOGUE) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jax=0.9", "is not a framework with a version"), ("jax>=0.9", "with one version"), ("jax==0.9.*", "with one version"),
        ("jax[cuda]==0.9", "with one version"), ("", "is not a framework"), ("scikit-learn", "no framework scikit-learn"),
        ("python==3.12", "no framework python"), ("native", "no framework native"),
    ],
)  # fmt: skip
def test_anything_else_is_told(text, said):
    with pytest.raises(UsageError, match=said) as raised:
        asked_for(text, CATALOGUE)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("framework", "like", "version", "name"),
    [
        ("pytorch", "", "", "pytorch-2.13-cpu"), ("pytorch", "", "2.14.1", "pytorch-2.13-cpu"),
        ("tensorflow", "", "2.18", "tensorflow-2.19-cpu"), ("mxnet", "", "1.5", "mxnet-1.6-pip"),
        ("jax", "", "0.9.9", "jax-0.9-cpu"), ("jax", "", "0.1", "jax-0.8-cpu"),
        ("pytorch", "pytorch-2.13-cuda", "2.14", "pytorch-2.13-cuda"),
    ],
)  # fmt: skip
def test_an_entry_is_made_like_the_release_before_it(framework, like, version, name):
    assert pattern_for(framework, like, version, CATALOGUE).name == name


@pytest.mark.parametrize(
    ("framework", "like", "said"),
    [
        ("pytorch", "pytorch-2.13-gpu", "no entry"),
        ("jax", "pytorch-2.13-cpu", "not of jax"),
        ("python", "jax-0.10-cpu", "not of python"),
    ],
)
def test_a_pattern_that_is_none_is_told(framework, like, said):
    with pytest.raises(UsageError, match=said):
        pattern_for(framework, like, "", CATALOGUE)


@pytest.mark.parametrize(
    ("pattern", "version", "name"),
    [
        ("pytorch-2.13-cpu-opt", "2.14.1+cpu", "pytorch-2.14-cpu-opt"),
        ("keras-3.15-tensorflow-cpu", "3.14.1", "keras-3.14-tensorflow-cpu"),
        ("jax-0.10-cpu", "1", "jax-1-cpu"),
    ],
)
def test_a_name_follows_from_the_pattern_s(pattern, version, name):
    assert named_like(ENTRIES[pattern], ENTRIES[pattern].framework, version) == name


# --- of an index


@pytest.fixture
def index(monkeypatch):
    """What an index has, by package and Python."""
    there = {}
    monkeypatch.setattr(adding, "versions_of", lambda package, python, _index: there.get((package, python), []))
    return there


def test_the_newest_of_a_release_is_taken_for_the_first_python_that_has_it(index):
    index |= {
        ("tensorflow-cpu", "3.13"): ["2.20.0"],
        ("tensorflow-cpu", "3.11"): ["2.20.0", "2.19.0", "2.19.10", "2.19.9"],
    }
    pattern = ENTRIES["tensorflow-2.21-cpu"]
    assert released("2.19", pattern, CATALOGUE, quiet) == ("debian-bookworm", "2.19.10")
    assert released("", pattern, CATALOGUE, quiet) == ("debian-trixie", "2.20.0")


def test_wheels_are_of_the_pattern_s_kind(index):
    index[("torch", "3.11")] = ["2.14.1", "2.14.0+cpu", "2.13.0+cpu", "2.13.0"]
    assert released("2.14", ENTRIES["pytorch-2.13-cpu"], CATALOGUE, quiet)[1] == "2.14.0+cpu"
    assert released("2.14", ENTRIES["pytorch-2.13-cuda"], CATALOGUE, quiet)[1] == "2.14.1"
    with pytest.raises(UsageError, match=r"no torch 2.14.1 as \+cpu for Python 3.11 or 3.13") as raised:
        released("2.14.1", ENTRIES["pytorch-2.13-cpu"], CATALOGUE, quiet)
    assert "it has 2.14.0+cpu, 2.13.0+cpu" in raised.value.hint
    assert "--like" in raised.value.hint


def test_what_no_index_has_is_told(index):
    with pytest.raises(UsageError, match="the package index has no jax for Python 3.13 or 3.11"):
        released("0.9", ENTRIES["jax-0.10-cpu"], CATALOGUE, quiet)
    with pytest.raises(UsageError, match="not a build that can take another release"):
        released("1.15", ENTRIES["tensorflow-1.14-pip"], CATALOGUE, quiet)


def test_an_entry_of_an_index_pins_and_locks_all_that_it_installs(monkeypatch):
    asked = []

    def answered(wanted, known, say, preferred):
        asked.append((wanted, [*preferred]))
        files = [File("jax", "0.11.2", "a" * 64), File("jaxlib", "0.11.2", "b" * 64), File("numpy", "2.5.0", "c" * 64)]
        return {"3.13": files}

    monkeypatch.setattr(adding, "resolved", answered)
    pattern = ENTRIES["jax-0.10-cpu"]
    entry, lock = from_index("0.11.2", "debian-trixie", pattern, "jax-0.11-cpu", CATALOGUE, quiet)
    assert entry.requirements == ("jax==0.11.2", "jaxlib==0.11.2", "numpy==2.5.0")
    assert (entry.version, entry.probe, entry.untried) == ("0.11.2", pattern.probe, "")
    assert list(problems_of(entry, CATALOGUE)) == []
    assert lock.splitlines()[:2] == [
        "# written by modak catalogue add for Python 3.13",
        f"jax==0.11.2 --hash=sha256:{'a' * 64}",
    ]
    ((wanted, preferred),) = asked
    assert wanted.requirements == ("jax==0.11.2", "jaxlib", "numpy")
    assert "numpy==2.4.6" in preferred


# --- what pip and uv say


@pytest.fixture
def answers(monkeypatch):
    """What commands answer, in turn: exit code, output and error output."""
    given = []

    def run(command, **_):
        code, out, err = given.pop(0)
        return subprocess.CompletedProcess(command, code, out, err)

    monkeypatch.setattr(locking.subprocess, "run", run)
    monkeypatch.setattr(locking, "_uv", lambda: "uv")
    return given


def test_releases_are_read_of_pip(answers):
    answers += [(0, "jax (0.12.0)\nAvailable versions: 0.12.0, 0.11.2\n  INSTALLED: 0.1\n", "WARNING: experimental")]
    assert versions_of("jax", "3.13") == ["0.12.0", "0.11.2"]
    answers += [(1, "", "ERROR: No matching distribution found for jx\n")]
    assert versions_of("jx", "3.13") == []
    answers += [(1, "", "WARNING: Retrying\nERROR: Could not fetch URL\n")]
    with pytest.raises(NotFound, match="pip cannot ask for jax: ERROR: Could not fetch URL"):
        versions_of("jax", "3.13")


def test_what_does_not_go_together_is_told_in_uv_s_words(answers):
    said = "  × No solution found when resolving dependencies:\n  ╰─▶ Because a==1 depends on b<2, it\n      cannot be used.\n"
    answers += [(1, "", said)] * 2
    with pytest.raises(NotFound) as raised:
        resolved(LockRequest("a", ("a==1",), "3.13", "https://index.example"), (), quiet)
    assert (
        str(raised.value)
        == "No solution found when resolving dependencies: Because a==1 depends on b<2, it cannot be used."
    )
    assert answers == []


# --- of an image


def seen(frameworks, source="docker://some/torch:2.13"):
    return SeenImage(
        source=source, address="frontend.example", python="python3", sha256="a" * 64, version="3.11", glibc="2.36",
        frameworks={**frameworks, "python": "3.11"}, compilers=("inductor",),
    )  # fmt: skip


def test_an_image_is_for_the_framework_that_it_has():
    assert framework_in(seen({"pytorch": "2.13.0+cpu"}), "") == "pytorch"
    assert framework_in(seen({"tensorflow": "2.20.0", "keras": "3.12"}), "") == "tensorflow"
    assert framework_in(seen({"tensorflow": "2.20.0", "keras": "3.12"}), "keras") == "keras"
    assert framework_in(seen({}), "") == "python"
    with pytest.raises(UsageError, match="has pytorch 2, jax 1, python 3.11"):
        framework_in(seen({"pytorch": "2", "jax": "1"}), "")
    with pytest.raises(UsageError, match="has no jax: it has pytorch 2"):
        framework_in(seen({"pytorch": "2"}), "jax")


@pytest.mark.parametrize(
    ("source", "origin", "address", "checksum"),
    [("docker://some/torch:2.13", "hub", "", ""), ("/images/torch.sif", "given", "frontend.example", "a" * 64)],
)
def test_what_was_found_in_an_image_is_its_entry(source, origin, address, checksum):
    entry = from_image(seen({"pytorch": "2.13.0+cpu"}, source), "pytorch", ENTRIES["pytorch-2.13-cpu"], "torch")
    assert (entry.origin, entry.address, entry.checksum) == (origin, address, checksum)
    assert (entry.version, entry.compilers, entry.allocators) == ("2.13.0+cpu", ("inductor",), ())
    assert list(problems_of(entry, CATALOGUE)) == []
