"""Dockerfiles, written by hpccm: the same steps as Apptainer's definitions, for sites that run Docker."""

from __future__ import annotations

import hpccm
import hpccm.config
from hpccm.building_blocks import apt_get
from hpccm.primitives import baseimage, environment, label, shell

from modak_ansible.catalogue import Base, Entry
from modak_ansible.recipes.apptainer import quoted
from modak_ansible.recipes.libraries.place import ENVIRONMENT, PYTHON, printing
from modak_ansible.recipes.steps import KEPT, environment_commands, framework_commands, keeping, kept_commands


def dockerfile(entry: Entry, base: Base | None, architecture: str) -> str:
    """A framework's image from the ground up; the entry's probe is the last step, where it needs no accelerator.

    Args:
        base: what it sits on; None for an image of a hub.
        architecture: archspec name of the processor that its libraries are compiled for.

    Raises:
        ModakError: one of its libraries cannot be compiled for that architecture.
    """
    hpccm.config.set_container_format("docker")
    stage = hpccm.Stage()
    if base is None:
        stage += baseimage(image=entry.source.removeprefix("docker://"), _distro="ubuntu22", _arch="x86_64")
    else:
        stage += baseimage(image=base.docker, _distro="ubuntu22", _arch="x86_64")
        stage += apt_get(ospackages=sorted({*base.packages, *entry.packages}))
        stage += shell(commands=environment_commands(base))
        stage += environment(variables={"PATH": f"{ENVIRONMENT}/bin:$PATH", "LC_ALL": "C.UTF-8"})
        for commands in framework_commands(entry, architecture):
            stage += shell(commands=commands)
    # whoever installs more on top of it keeps the framework as it is
    stage += shell(commands=[f"mkdir -p {KEPT}", *kept_commands(entry, entry.python or PYTHON, KEPT)])
    stage += environment(variables={**entry.environment, "PIP_CONSTRAINT": quoted(" ".join(keeping(KEPT)))})
    licence = quoted(entry.licence) if " " in entry.licence else entry.licence
    labels = {"framework": entry.framework, "version": entry.version, "target": architecture, "licence": licence}
    stage += label(metadata={f"modak.{name}": value for name, value in labels.items()})
    if not entry.accelerator:  # which docker build does not let in
        stage += shell(commands=[printing(entry.probe.splitlines(), f"| {entry.python or PYTHON} -")])
    return str(stage).strip("\n") + "\n"
