"""Definition files for Apptainer and Singularity, and of the same parts Containerfiles, written by hpccm.

Two values are known only where an image is built, and stand in braces, as Apptainer's --build-arg fills them:
``{{ base }}``, the file of the layer below, and ``{{ apt_mirror }}``. The labels ``{{ definition_digest }}`` and
``{{ build_date }}`` are filled in the same way.

A function's ``form`` is hpccm's name of the format. What in a definition is the ``%test``, the layer of a Containerfile
has for its probe.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from modak_ansible.catalogue import Base, Entry
from modak_ansible.recipes import site
from modak_ansible.recipes.libraries.place import ENVIRONMENT, PYTHON
from modak_ansible.recipes.steps import (
    INSTALLED,
    KEPT,
    environment_commands,
    framework_commands,
    keeping,
    kept_commands,
    own_pip_install,
    try_commands,
)
from modak_ansible.store.cache import kept_text, version_of

# A user's packages with hashes, while they are installed.
_OWN = "/.modak-requirements.txt"
BASE_PROBE = (PYTHON, "-c", "import pip, ssl")
# Bytes of a section at most; Apptainer and Singularity read no more than 64 KiB at once (Go's bufio.Scanner).
_SECTION = 48 * 1024
Form = Literal["singularity", "docker"]
# How the line of a Containerfile begins that is run before it is read.
ROOTFS = "# mmdebstrap --mode=unshare --variant=minbase"
_FORMAT = "3.8"  # of Singularity: what hpccm writes for it, later ones and Apptainer read, too


def base_definition(base: Base, bootstrap: str, architecture: str, form: Form = "singularity") -> str:
    """A distribution with a virtual environment in /opt/venv, to which the other layers add.

    Args:
        bootstrap: ``debootstrap`` builds it from Debian packages, ``docker`` takes it from a hub.
        architecture: archspec name, for the label.
    """
    stage = _Stage(form)
    if bootstrap == "debootstrap":
        header = f"Bootstrap: debootstrap\nOSVersion: {base.suite}\nMirrorURL: {{{{ apt_mirror }}}}\n"
        # whoever builds it makes the file system by that command beside it
        command = f"{ROOTFS} --include={','.join(base.packages)} {base.suite} rootfs.tar {{{{ apt_mirror }}}}"
        stage.add(
            "raw",
            singularity=header + f"Include: {' '.join(base.packages)}",
            docker=f"{command}\nFROM scratch\nADD rootfs.tar /",
        )
    else:
        stage.add("baseimage", image=base.docker, _bootstrap="docker", _distro="ubuntu22", _arch="x86_64")
    stage.add("raw", singularity=site.SETUP, docker=site.SHELL)
    stage.add("shell", commands=[site.ENTER], chdir=False)
    if bootstrap != "debootstrap":
        stage.add("apt_get", ospackages=list(base.packages))
    stage.add("shell", commands=[*environment_commands(base), site.LEAVE])
    stage.add("environment", variables={"PATH": f"{ENVIRONMENT}/bin:$PATH", "LC_ALL": "C.UTF-8"})
    stage.add("label", metadata=_labels(target=architecture, licence=base.licence))
    stage.add("shell", commands=[shlex.join(BASE_PROBE)], _test=True, chdir=False)
    return stage.text()


def framework_definition(entry: Entry, architecture: str, base_digest: str, form: Form = "singularity") -> str:
    """A framework on top of a base image, tried by the entry's probe.

    Raises:
        ModakError: one of its libraries cannot be compiled for that architecture.
    """
    stage = _on_top(form)
    if entry.packages:
        stage.add("apt_get", ospackages=list(entry.packages))
    for commands in framework_commands(entry, architecture):
        _add(stage, commands)
    stage.add("shell", commands=[site.LEAVE], chdir=False)
    if entry.environment:
        stage.add("environment", variables=entry.environment, _export=False)
    stage.add(
        "label",
        metadata=_labels(
            framework=entry.framework,
            version=entry.version,
            compiler=" ".join(entry.compilers) or "none",
            target=architecture,
            base_digest=base_digest,
            licence=entry.licence,
        ),
    )
    stage.add("shell", commands=[f"{PYTHON} -c {shlex.quote(entry.probe)}"], _test=True, chdir=False)
    return stage.text()


def requirements_definition(
    requirements: Sequence[str],
    base_digest: str,
    python: str = PYTHON,
    entry: Entry | None = None,
    locked: Sequence[str] = (),
    form: Form = "singularity",
) -> str:
    """The user's own Python packages on top of the image that has the framework.

    Args:
        entry: the framework, whose probe tries the image again; None for a user's own image.
        locked: what the plan itself needs besides, as lines of a lock.
    """
    stage = _on_top(form)
    stage.add("shell", commands=[f"mkdir -p {KEPT}"], chdir=False)
    if entry:
        stage.add("shell", commands=kept_commands(entry, python, KEPT))
    constraints, index = (keeping(KEPT), entry.index) if entry else ((), "")
    _add(stage, own_pip_install(requirements, python, _OWN, "--no-cache-dir", locked, constraints, index))
    commands, _ = try_commands(entry, requirements, python, KEPT)
    stage.add("shell", commands=[f"{python} -m pip check", *commands, f"rm -f {_OWN}", site.LEAVE])
    names = " ".join(requirement.partition(" --hash=")[0] for requirement in (*locked, *requirements))
    stage.add("label", metadata=_labels(requirements=names, base_digest=base_digest))
    stage.add("shell", commands=requirements_test(requirements, python, entry), _test=True, chdir=False)
    return stage.text()


def requirements_test(requirements: Sequence[str], python: str, entry: Entry | None) -> list[str]:
    """The commands that try an image with the user's packages."""
    probe = [_probe_again(entry, python)] if entry else []
    return ["set -e", *probe, try_commands(entry, requirements, python, KEPT)[1]]


def _probe_again(entry: Entry, python: str) -> str:
    """The whole probe only where pip has touched the framework's own packages: compiling takes most of its time."""
    probe = f"{python} -c {shlex.quote(entry.probe)}"
    if entry.source:  # no list tells what was in it
        return probe
    imports = [
        statement for statement in ast.parse(entry.probe).body if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
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


def _add(stage: _Stage, commands: Sequence[str]) -> None:
    for number, part in enumerate(_parts(commands)):
        stage.add("shell", commands=part, chdir=number == 0)


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


class _Stage:
    """Parts of a definition, by hpccm's names; their text is kept, because hpccm is slow to import."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._parts: list[tuple[str, dict[str, Any]]] = []

    def add(self, part: str, **settings: Any) -> None:
        """Adds a primitive or a building block of hpccm."""
        if self._form == "docker" and part == "shell":
            # each has the site's settings by the SHELL, which are mounted, and no test of its own
            commands = [command for command in settings["commands"] if command not in (site.ENTER, site.LEAVE)]
            if settings.pop("_test", False) or not commands:
                return
            settings["commands"] = commands
        elif self._form == "docker" and part == "label":
            settings["metadata"] = {name: quoted(value) for name, value in settings["metadata"].items()}
        self._parts.append((part, settings))

    def text(self) -> str:
        made_from = json.dumps([version_of("hpccm"), self._form, _FORMAT, self._parts])
        return kept_text("definitions", made_from, self._generate) or ""

    def _generate(self) -> str:
        import hpccm.config  # noqa: PLC0415
        from hpccm import building_blocks, primitives  # noqa: PLC0415

        # hpccm's settings are global; nothing else in this project touches them
        hpccm.config.set_container_format(self._form)
        hpccm.config.set_singularity_version(_FORMAT)
        stage = hpccm.Stage()
        for part, settings in self._parts:
            stage += getattr(building_blocks if part == "apt_get" else primitives, part)(**settings)
        lines = [line.rstrip() for line in str(stage).splitlines()]
        return "\n".join(lines).strip("\n") + "\n"


def _on_top(form: Form) -> _Stage:
    stage = _Stage(form)
    stage.add(
        "baseimage", image="{{ base }}", _bootstrap="localimage", _distro="ubuntu22", _arch="x86_64", _docker_env=False
    )
    stage.add("raw", singularity=site.SETUP, docker=site.SHELL)
    stage.add("shell", commands=[site.ENTER], chdir=False)
    return stage


def _labels(**values: str) -> dict[str, str]:
    named = {f"modak.{key.replace('_', '-')}": value for key, value in values.items()}
    return named | {"modak.definition-digest": "{{ definition_digest }}", "modak.build-date": "{{ build_date }}"}


def quoted(text: str) -> str:
    """A value as a Dockerfile has it, where a dollar would be a variable's."""
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'
