"""Definition files for Apptainer and Singularity, written by hpccm.

Two values are known only where an image is built, and stand in braces, as Apptainer's --build-arg fills them:
``{{ base }}``, the file of the layer below, and ``{{ apt_mirror }}``. The labels ``{{ definition_digest }}`` and
``{{ build_date }}`` are filled in the same way.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Sequence

import hpccm
import hpccm.config
from hpccm.building_blocks import apt_get
from hpccm.primitives import baseimage, environment, label, raw, shell

from modak_ansible.catalogue import Base, Entry
from modak_ansible.recipes import site
from modak_ansible.recipes.steps import (
    ENVIRONMENT,
    INSTALLED,
    KEPT,
    PYTHON,
    environment_commands,
    framework_commands,
    keeping,
    kept_commands,
    own_pip_install,
    try_commands,
)

# A user's packages with hashes, while they are installed.
_OWN = "/.modak-requirements.txt"
# Bytes of a section at most; Apptainer and Singularity read no more than 64 KiB at once (Go's bufio.Scanner).
_SECTION = 48 * 1024

__all__ = ["PYTHON", "base_definition", "framework_definition", "pulled_definition", "requirements_definition"]


def base_definition(base: Base, bootstrap: str, architecture: str) -> str:
    """A distribution with a virtual environment in /opt/venv, to which the other layers add.

    Args:
        base: which distribution.
        bootstrap: ``debootstrap`` builds it from Debian packages, ``docker`` takes it from a hub.
        architecture: archspec name, for the label.
    """
    stage = _stage()
    if bootstrap == "debootstrap":
        header = f"Bootstrap: debootstrap\nOSVersion: {base.suite}\nMirrorURL: {{{{ apt_mirror }}}}\n"
        stage += raw(singularity=header + f"Include: {' '.join(base.packages)}")
    else:
        stage += baseimage(image=base.docker, _bootstrap="docker", _distro="ubuntu22", _arch="x86_64")
    stage += raw(singularity=site.SETUP)
    stage += shell(commands=[site.ENTER], chdir=False)
    if bootstrap != "debootstrap":
        stage += apt_get(ospackages=list(base.packages))
    stage += shell(commands=[*environment_commands(base), site.LEAVE])
    stage += environment(variables={"PATH": f"{ENVIRONMENT}/bin:$PATH", "LC_ALL": "C.UTF-8"})
    stage += label(metadata=_labels(target=architecture, licence=base.licence))
    stage += shell(commands=[f"{PYTHON} -c 'import pip, ssl'"], _test=True, chdir=False)
    return _text(stage)


def framework_definition(entry: Entry, architecture: str, base_digest: str) -> str:
    """A framework on top of a base image, tried by the entry's probe.

    Raises:
        ModakError: one of its libraries cannot be compiled for that architecture.
    """
    stage = _on_top(site.ENTER)
    if entry.packages:
        stage += apt_get(ospackages=list(entry.packages))
    for commands in framework_commands(entry, architecture):
        _add(stage, commands)
    stage += shell(commands=[site.LEAVE], chdir=False)
    if entry.environment:
        stage += environment(variables=entry.environment, _export=False)
    stage += label(
        metadata=_labels(
            framework=entry.framework,
            version=entry.version,
            compiler=" ".join(entry.compilers) or "none",
            target=architecture,
            base_digest=base_digest,
            licence=entry.licence,
        )
    )
    stage += shell(commands=[f"{PYTHON} -c {shlex.quote(entry.probe)}"], _test=True, chdir=False)
    return _text(stage)


def requirements_definition(
    requirements: Sequence[str],
    base_digest: str,
    python: str = PYTHON,
    entry: Entry | None = None,
    locked: Sequence[str] = (),
) -> str:
    """The user's own Python packages on top of the image that has the framework.

    Args:
        requirements: what pip installs.
        base_digest: of the layer below.
        python: the interpreter in the image.
        entry: the framework, whose probe tries the image again; None for a user's own image.
        locked: what the plan itself needs besides, as lines of a lock.
    """
    stage = _on_top(site.ENTER)
    kept: tuple[str, ...] = ()
    stage += shell(commands=[f"mkdir -p {KEPT}"], chdir=False)
    if entry:
        kept = keeping(KEPT)
        stage += shell(commands=kept_commands(entry, python, KEPT))
    index = entry.index if entry else ""
    _add(stage, own_pip_install(requirements, python, _OWN, "--no-cache-dir", locked, kept, index))
    written, tries = try_commands(entry, requirements, python, KEPT)
    stage += shell(commands=[f"{python} -m pip check", *written, f"rm -f {_OWN}", site.LEAVE])
    names = " ".join(each.partition(" --hash=")[0] for each in (*locked, *requirements))
    stage += label(metadata=_labels(requirements=names, base_digest=base_digest))
    probe = [_probe_again(entry, python)] if entry else []
    stage += shell(commands=["set -e", *probe, tries], _test=True, chdir=False)
    return _text(stage)


def _probe_again(entry: Entry, python: str) -> str:
    """The whole probe only where pip has touched the framework's own packages: compiling takes most of its time."""
    probe = f"{python} -c {shlex.quote(entry.probe)}"
    if entry.origin == "hub":  # no list tells what was in it
        return probe
    imports = [each for each in ast.parse(entry.probe).body if isinstance(each, ast.Import | ast.ImportFrom)]
    lines = (
        f"if [ -f {INSTALLED} ] && ! {python} -m pip freeze | grep -qvxFf - {INSTALLED}; then",
        f"        {python} -c {shlex.quote('; '.join(map(ast.unparse, imports)))}",
        "    else",
        f"        {probe}",
        "    fi",
    )
    return "\n".join(lines)


def pulled_definition(source: str) -> str:
    """What a given image amounts to as a definition file; it is pulled, not built."""
    scheme, separator, name = source.partition("://")
    return f"Bootstrap: {scheme if separator else 'localimage'}\nFrom: {name if separator else source}\n"


def _add(stage: hpccm.Stage, commands: Sequence[str]) -> None:
    for number, part in enumerate(_parts(commands)):
        stage += shell(commands=part, chdir=number == 0)


def _parts(commands: Sequence[str]) -> list[list[str]]:
    """Commands for sections that Apptainer can read; it puts those of one name together again."""
    parts: list[list[str]] = [[]]
    for command in commands:
        if parts[-1] and sum(map(_length, parts[-1])) + _length(command) > _SECTION:
            parts.append([])
        parts[-1].append(command)
    return parts


def _length(command: str) -> int:
    """Bytes that hpccm writes of a command: every line of it may be set in."""
    return len(command.encode()) + 8 * (command.count("\n") + 1)


def _stage() -> hpccm.Stage:
    # hpccm's settings are global; nothing else in this project touches them
    hpccm.config.set_container_format("singularity")
    hpccm.config.set_singularity_version("3.8")
    return hpccm.Stage()


def _on_top(first: str) -> hpccm.Stage:
    stage = _stage()
    stage += baseimage(
        image="{{ base }}", _bootstrap="localimage", _distro="ubuntu22", _arch="x86_64", _docker_env=False
    )
    stage += raw(singularity=site.SETUP)
    stage += shell(commands=[first], chdir=False)
    return stage


def _labels(**values: str) -> dict[str, str]:
    named = {f"modak.{key.replace('_', '-')}": value for key, value in values.items()}
    return named | {"modak.definition-digest": "{{ definition_digest }}", "modak.build-date": "{{ build_date }}"}


def _text(stage: hpccm.Stage) -> str:
    lines = [line.rstrip() for line in str(stage).splitlines()]
    return "\n".join(lines).strip("\n") + "\n"
