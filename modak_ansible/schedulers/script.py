"""The text of a job script; runs where plans are made, never on a target."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

    from modak_ansible.model.plan import PlannedJob

_DIRECTIVE = re.compile(r"[A-Za-z0-9_.:=,+@/{}-]*", re.ASCII)
_RUNTIMES = {"any": ("apptainer", "singularity"), "apptainer": ("apptainer",), "singularity": ("singularity",)}
_DATASET = "{dataset}"


@dataclass(frozen=True)
class ScriptParts:
    """What a script holds besides the job's own fields.

    Paths are below the target's workspace unless they are absolute.
    """

    image: str
    python: str
    script: str
    container_runtime: str | None = None
    container_flags: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    dataset: str | None = None
    staging_path: str | None = None
    arguments: tuple[tuple[str, str | bool], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    gpu_request: str = ""
    launcher: str = ""


def render_script(job: PlannedJob, parts: ScriptParts) -> str:
    """The whole job script, directives first.

    Every text that came from a blueprint is quoted for bash; where quoting does not reach, in directives, anything
    but plain characters is an error.

    Raises:
        ValueError: a directive would hold a space, a quote, a line break or the like.
    """
    container = parts.container_runtime is not None
    text: str = (
        _templates()
        .get_template(f"{job.scheduler.value}.sh.j2")
        .render(
            job=job,
            container=container,
            runtimes=_RUNTIMES.get(parts.container_runtime or "any", ()),
            container_flags=parts.container_flags,
            image=_workspace_path(parts.image),
            python=parts.python if container else '"$image/bin/python"',
            script=parts.script,
            binds=parts.binds,
            modules=parts.modules,
            dataset=parts.dataset,
            staging_path=_node_path(parts.staging_path) if parts.staging_path and parts.dataset else "",
            arguments=[_option(name, value) for name, value in parts.arguments],
            environment=parts.environment,
            gpu_request=parts.gpu_request,
            launcher=f"{parts.launcher} " if parts.launcher else "",
            limit=job.walltime if job.scheduler.value == "none" else 0,
        )
    )
    return text


@cache
def _templates() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - not on targets, and slow to import for commands that need no script

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("modak_ansible.schedulers"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - bash, not HTML: the quote and directive filters do this work
    )
    environment.filters.update(
        quote=shlex.quote, directive=_directive, slurm_time=_slurm_time, torque_time=_torque_time
    )
    return environment


def _directive(text: str) -> str:
    if not _DIRECTIVE.fullmatch(text):
        raise ValueError(f"{text!r} cannot stand in a directive of a job script")
    return text


def _slurm_time(seconds: int) -> str:
    """D-HH:MM:SS."""
    days, rest = divmod(seconds, 86400)
    return f"{days}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _torque_time(seconds: int) -> str:
    """HH:MM:SS, with as many hours as it takes."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _workspace_path(path: str) -> str:
    """A path below the workspace, or an absolute or home-relative one, in double quotes for bash."""
    if path.startswith(("/", "~", "$")):
        return f'"{_node_path(path)}"'
    return f'"$workspace/{path}"'


def _node_path(path: str) -> str:
    """A path with ``~`` and a leading ``$NAME`` as bash expands them inside double quotes.

    Without the variable nothing can be made or found there, and the script goes on without.
    """
    if path == "~" or path.startswith("~/"):
        return "$HOME" + path[1:]
    return re.sub(r"^\$([A-Z_][A-Z0-9_]*)", r"${\1:-/dev/null}", path)


def _option(name: str, value: str | bool) -> str:
    """An option of the training script with its value, quoted for bash; {dataset} becomes the data's folder."""
    option = f"-{name}" if len(name) == 1 else f"--{name}"
    if isinstance(value, bool):
        return option if value else ""
    parts = value.split(_DATASET)
    quoted = '"$dataset"'.join(shlex.quote(part) if part else "" for part in parts) or "''"
    return f"{option} {quoted}"
