"""Every entry renders as a Dockerfile too."""

from __future__ import annotations

import re
import shlex

import pytest
from golden import assert_golden

from modak_ansible.catalogue import load_catalogue
from modak_ansible.recipes.docker import dockerfile

CATALOGUE = load_catalogue()
ENTRIES = {entry.name: entry for entry in CATALOGUE.entries}
INSTRUCTIONS = {"FROM", "RUN", "ENV", "LABEL"}


def render(name):
    entry = ENTRIES[name]
    return dockerfile(entry, CATALOGUE.bases.get(entry.base), "zen5")


@pytest.mark.parametrize("name", ["cntk-2.7-pip", "pytorch-1.4-hub", "pytorch-2.13-cpu-opt"])
def test_as_a_person_has_read_it(name):
    assert_golden(f"dockerfiles/{name}", render(name))


@pytest.mark.component
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_entry_renders(name, shellcheck):
    entry, text = ENTRIES[name], render(name)
    instructions = re.split(r"\n(?! )", re.sub(r"\\\n", "", text).strip())
    steps = [step.split(maxsplit=1) for step in instructions if step]
    assert {word for word, _ in steps} <= INSTRUCTIONS
    assert text.startswith(f"FROM {entry.source.removeprefix('docker://') or CATALOGUE.bases[entry.base].docker}\n")
    for word, what in steps:
        assert word not in {"LABEL", "ENV"} or all("=" in pair for pair in shlex.split(what)), what
    shellcheck("#!/bin/sh\n" + "\n".join(what for word, what in steps if word == "RUN"))
    assert ("import" in steps[-1][1]) == (not entry.accelerator), "the probe, where docker build can run it"


@pytest.mark.component
def test_the_probe_arrives_whole(tmp_path):
    """Its lines pass a Dockerfile's and a shell's quotes."""
    import subprocess
    import sys

    entry = ENTRIES["pytorch-2.13-cpu"].model_copy(update={"probe": "a = 'it\\'s $HOME'\nif a:\n    print(a)\n"})
    text = dockerfile(entry.model_copy(update={"python": sys.executable}), CATALOGUE.bases["debian-trixie"], "x86_64")
    run = text[text.rindex("RUN ") + 4 :]
    said = subprocess.run(["sh", "-c", run], capture_output=True, text=True, check=True).stdout
    assert said == "it's $HOME\n"
