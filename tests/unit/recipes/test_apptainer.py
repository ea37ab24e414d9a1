"""Definitions: golden files, and what every one of them must hold."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from golden import assert_golden
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.catalogue import load_catalogue
from modak_ansible.recipes import apptainer

CATALOGUE = load_catalogue()
BASE = CATALOGUE.bases["debian-trixie"]
ENTRIES = {entry.name: entry for entry in CATALOGUE.entries}


def sections(text):
    """The lines of each section of a definition, several sections of one name joined."""
    found = {}
    lines = []
    for line in text.splitlines():
        if re.match(r"%\w+$", line):
            lines = found.setdefault(line, [])
        else:
            lines.append(line)
    return found


def labels(text):
    return {line.split()[0] for line in sections(text)["%labels"] if line.strip()}


@pytest.mark.parametrize("bootstrap", ["debootstrap", "docker"])
def test_base(bootstrap):
    text = apptainer.base_definition(BASE, bootstrap, "zen5")
    assert_golden(f"definitions/base-{bootstrap}.def", text)
    assert labels(text) == {"modak.target", "modak.licence", "modak.definition-digest", "modak.build-date"}
    assert "/opt/venv/bin/python" in "".join(sections(text)["%test"])


def test_a_base_for_python_2():
    text = apptainer.base_definition(CATALOGUE.bases["debian-bullseye-python2.7"], "debootstrap", "x86_64")
    assert_golden("definitions/base-python2.7.def", text)
    assert "virtualenv" in "".join(sections(text)["%post"])


def without_sources(text):
    """A golden file need not hold what lies beside the recipe."""
    return re.sub(r"printf '%s\\n' \\\n(?:.*\\\n)+ +> (\S+/operators/\S+)", r"(the lines of \1)", text)


@pytest.mark.parametrize("name", sorted(name for name, entry in ENTRIES.items() if entry.base))
def test_framework(name):
    # what is compiled needs a processor with a name of its own
    text = apptainer.framework_definition(ENTRIES[name], "zen5" if ENTRIES[name].libraries else "x86_64", "base0123")
    assert_golden(f"definitions/{name}.def", without_sources(text))
    assert ENTRIES[name].probe.splitlines()[0] in "".join(sections(text)["%test"])
    assert labels(text) == {
        f"modak.{each}"
        for each in (
            "framework",
            "version",
            "compiler",
            "target",
            "definition-digest",
            "build-date",
            "base-digest",
            "licence",
        )
    }


def test_a_library_is_compiled_for_the_target():
    entry = ENTRIES["pytorch-2.13-cpu-opt"]
    text = apptainer.framework_definition(entry, "skylake_avx512", "base0123")
    assert_golden("definitions/pytorch-2.13-cpu-opt-skylake_avx512.def", text)
    assert "-march=skylake-avx512" in text
    assert "export LD_PRELOAD=/opt/modak/lib/libopenblas.so.0" in "\n".join(sections(text)["%environment"])


@pytest.mark.component
@pytest.mark.parametrize("name", sorted(name for name, entry in ENTRIES.items() if entry.base))
def test_what_runs_in_a_build_is_sound_shell(name, shellcheck):
    entry = ENTRIES[name]
    found = sections(apptainer.framework_definition(entry, "zen5", "base0123"))
    for section in ("%setup", "%post", "%test"):
        shellcheck("#!/bin/sh -e\n" + "\n".join(found[section]))


@pytest.mark.parametrize("name", sorted(name for name, entry in ENTRIES.items() if entry.base))
def test_no_section_is_longer_than_apptainer_reads(name):
    text = apptainer.framework_definition(ENTRIES[name], "zen5", "base0123")
    assert max(len(word.encode()) for word in re.split(r"^%", text, flags=re.MULTILINE)) < 64 * 1024


@pytest.mark.component
@pytest.mark.parametrize("base", CATALOGUE.bases.values(), ids=lambda base: base.name)
def test_what_runs_in_a_base_s_build_is_sound_shell(base, shellcheck):
    found = sections(apptainer.base_definition(base, "debootstrap", "x86_64"))
    for section in ("%setup", "%post"):
        shellcheck("#!/bin/sh -e\n" + "\n".join(found.get(section, [])))


def test_requirements():
    text = apptainer.requirements_definition(["pandas>=2,<3", "rich"], "below0123")
    assert_golden("definitions/requirements.def", text)
    assert "'pandas>=2,<3'" in text


def test_requirements_with_hashes():
    hashes = [f"--hash=sha256:{digit * 64}" for digit in "ab"]
    text = apptainer.requirements_definition([f"six==1.17.0 {' '.join(hashes)}", "rich"], "below0123")
    assert_golden("definitions/requirements-hashes.def", text)
    many = [f"package-{number}==1 {' '.join(hashes * 20)}" for number in range(60)]
    assert all(len(word) < 65536 for word in re.split(r"(?m)^%post", apptainer.requirements_definition(many, "below")))


@pytest.mark.component
def test_what_tries_the_users_packages_is_sound_shell(shellcheck):
    text = apptainer.requirements_definition(["rich"], "below0123", entry=ENTRIES["pytorch-2.13-cpu"])
    assert_golden("definitions/requirements-pytorch-2.13-cpu.def", text)
    shellcheck("#!/bin/sh\n" + "\n".join(sections(text)["%test"]))
    hub = apptainer.requirements_definition(["rich"], "below0123", "python3", ENTRIES["pytorch-1.4-hub"])
    assert sections(hub)["%test"][1].strip().startswith("python3 -c 'import torch")


@pytest.mark.component
@pytest.mark.parametrize(
    ("installed", "tried"),
    [
        ("numpy==2.4.6\ntorch==2.13.0+cpu\n", "imported"),
        ("numpy==2.4.6\nrich==14\ntorch==2.13.0+cpu\n", "imported"),
        ("numpy==2.4.5\nrich==14\ntorch==2.13.0+cpu\n", "probed"),
        ("numpy==2.4.6\n", "probed"),
        ("", "probed"),
        (None, "probed"),
    ],
)
def test_the_whole_probe_runs_where_the_frameworks_packages_were_touched(installed, tried, tmp_path):
    there = tmp_path / "requirements.txt"
    there.write_text("numpy==2.4.6\ntorch==2.13.0+cpu\n")
    python = tmp_path / "python"
    pip = "exit 1" if installed is None else f"printf %s {shlex.quote(installed)}"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in "-m pip freeze") {pip} ;; *try_requirements*) ;; *compile*) echo probed ;; *) echo imported ;; esac\n'
    )
    python.chmod(0o755)
    text = apptainer.requirements_definition(["rich"], "below", str(python), ENTRIES["pytorch-2.13-cpu"])
    script = "\n".join(sections(text)["%test"]).replace("/opt/venv/requirements.txt", str(there))
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [tried]


def test_no_build_asks_for_more_than_it_is_given():
    """What only the building machine knows stands in braces, and nothing else does."""
    texts = [
        apptainer.base_definition(BASE, "debootstrap", "x86_64"),
        apptainer.framework_definition(ENTRIES["pytorch-2.13-cpu"], "x86_64", "base"),
    ]
    names = set(re.findall(r"\{\{ (\w+) \}\}", "".join(texts)))
    assert names == {"base", "apt_mirror", "definition_digest", "build_date"}


def test_given_images():
    assert (
        apptainer.pulled_definition("docker://pytorch/pytorch:2.8") == "Bootstrap: docker\nFrom: pytorch/pytorch:2.8\n"
    )
    assert apptainer.pulled_definition("images/a.sif") == "Bootstrap: localimage\nFrom: images/a.sif\n"


def test_the_same_layers_are_containerfiles():
    """What Podman builds of them: each stands on the one below, and has the site's settings while it is built."""
    entry = ENTRIES["pytorch-2.13-cpu"]
    layers = {
        "base": apptainer.base_definition(BASE, "debootstrap", "zen5", "docker"),
        "base-of-a-hub": apptainer.base_definition(BASE, "docker", "zen5", "docker"),
        "framework": apptainer.framework_definition(entry, "x86_64", "base0123", "docker"),
        "requirements": apptainer.requirements_definition(["rich"], "below0123", entry=entry, form="docker"),
    }
    for name, text in layers.items():
        assert_golden(f"containerfiles/{name}", text)
        assert "modak-site" in text.partition("\nRUN ")[0]
        assert "rm -rf /.modak-site" not in text, "it is mounted there"


@given(st.text())
def test_a_label_of_a_containerfile_says_what_it_is_given(value):
    quoted = apptainer.quoted(value)
    assert quoted[0] == quoted[-1] == '"'
    assert re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) == value
    assert not re.search(r"(?<!\\)(\\\\)*[$]", quoted), "a variable's"
