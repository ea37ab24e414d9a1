"""Where things are: what ships with the project, and what a user's project keeps."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from modak_ansible.errors import UsageError, nearest
from modak_ansible.store.cache import packages_folder
from modak_ansible.store.testbeds import usual
from modak_ansible.target.core.files import exists, expanded, is_file, is_folder

_PACKAGE = Path(__file__).resolve().parents[1]
STATE_FOLDER = ".modak"
# The mark of a folder that results were copied to, and nothing else: it may lie beside a script, and is no file of it.
COPIED = ".modak-results"
RECORDS = "records"  # the folder in it of what was measured
MODEL = "model.json"  # the model in it that was fitted to that
# Our modules and roles, as Ansible calls them together.
COLLECTION = "modak.hpc"
SUFFIXES = (".csar", ".zip")  # of TOSCA's archives
# What a blueprint, a request, a package or a script alone may end with.
SERVICE_FILES = (".yaml", ".yml", ".json", ".py", *SUFFIXES)
_MARKS = (STATE_FOLDER, ".git", "ansible.cfg")
# How many bytes the path of a socket has (unix(7)), without the two slashes, the name that one has here (12 digits, a
# dash, 40 digits) and the 17 letters behind it under which ssh makes it.
_ROOM_FOR_SOCKETS = 107 - 2 - 53 - 17
_LAUNCHERS = ("python", "python3", "torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "srun", "uv", "bash")
_PYTHONS = ("pyproject.toml", "setup.py")  # of a project that has none of these, as one that was unpacked


def shipped(name: str) -> Path:
    """A folder or file that ships with the project: beside the package in a checkout, in it elsewhere."""
    checkout = _PACKAGE.parent / name
    return (
        checkout if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.exists() else _PACKAGE / "share" / name
    )


def shipped_blueprints() -> list[str]:
    """The names of the blueprints that ship."""
    return sorted(path.parent.name for path in (shipped("tosca") / "blueprints").glob("*/service.yaml"))


def project_root(start: Path) -> Path:
    """The project that a folder belongs to: the nearest one above it with a .modak, a .git or an ansible.cfg, or else
    with a pyproject.toml or a setup.py.

    Without any of them it is the folder itself.
    """
    start = start.resolve()
    for marks in (_MARKS, _PYTHONS):
        for folder in (start, *start.parents):
            if any((folder / mark).exists() for mark in marks):
                return folder
    return start


def state_folder(start: Path) -> Path:
    """Where the project of a folder keeps its deployments and its testbed."""
    return project_root(start) / STATE_FOLDER


def has_unfitted_records(state: Path) -> bool:
    """Whether something was measured since a project's model was fitted."""
    model = state / MODEL
    fitted_at = model.stat().st_mtime if model.exists() else 0.0
    new = (path for path in (state / RECORDS).glob("*.jsonl") if path.stat().st_mtime > fitted_at)
    return any(b'"outcome":"measured"' in path.read_bytes() for path in new)


def moved_with(deployment: Path, state: Path, path: Path) -> Path:
    """A path that a deployment has noted, where its project has been moved or copied to another place since.

    Args:
        deployment: its folder, where that is now.
        state: the project's state folder, as the deployment has noted it.
        path: what else it has noted.
    """
    project = deployment.resolve().parent.parent
    if project.name != STATE_FOLDER or deployment.parent.name != "deployments" or project == state:
        return path
    return project.parent / path.relative_to(state.parent) if path.is_relative_to(state.parent) else path


def blueprint_state(blueprint: Path) -> Path:
    """Where the deployments of a blueprint are kept: by its own project, or by the one that deploys one which is
    shipped or packed."""
    folder = blueprint.resolve().parent
    is_elsewhere = folder.is_relative_to(shipped("tosca").resolve()) or is_packed(blueprint)
    return state_folder(Path.cwd() if is_elsewhere else folder)


def is_packed(blueprint: Path) -> bool:
    return blueprint.resolve().is_relative_to(packages_folder().resolve())


def known_testbed(state: Path) -> Path:
    """The folder of the testbed that a deployment may mean: its project's, or that of the current folder, or else the
    only one of this user that runs."""
    testbed = state_folder(Path.cwd()) / "testbed"
    return testbed if testbed.exists() and not (state / "testbed").exists() else usual(state / "testbed")


def read_origin(plan_file: Path) -> dict[str, Path]:
    """Where a saved plan comes from: ``blueprint``, ``state`` and ``testbed``, as planning.Planned has them.

    Raises:
        KeyError, TypeError: the file beside the plan is missing or damaged.
    """
    from modak_ansible.store.deployment import DeploymentStore  # noqa: PLC0415 - of a plan alone nothing is kept

    folder = plan_file.parent
    origin = DeploymentStore(folder).origin
    state = Path(origin["state"])
    return {name: moved_with(folder, state, Path(origin[name])) for name in ("blueprint", "state", "testbed")}


def find_blueprint(text: str) -> Path:
    """The service template that a user means: a file, a folder or an archive that holds one, or the name of one that
    ships.

    Raises:
        UsageError: there is none.
        InvalidPackage: the archive cannot be unpacked.
    """
    check_name(text)
    path = expanded(text)
    if path.suffix in SUFFIXES and is_file(path):
        from modak_ansible.store.csar import unpack  # noqa: PLC0415 - few blueprints come in an archive

        return unpack(path)
    if exists(path):
        return path / "service.yaml" if is_folder(path) else path
    shipped_one = shipped("tosca") / "blueprints" / text / "service.yaml"
    if is_file(shipped_one) and "/" not in text:
        return shipped_one
    if path.suffix == ".py":
        raise no_script(path)
    names = [file.name for file in path.parent.glob("*.[yj]*") if path.suffix] if is_folder(path.parent) else []
    hint = nearest(path.name, [*names, *shipped_blueprints()])
    raise UsageError(f"there is no blueprint {text}", hint=hint or "give the folder of a blueprint or its service.yaml")


def check_name(text: str, hint: str = "the blueprint of this folder is written as .") -> None:
    """Lets every name pass that names something.

    Raises:
        UsageError: it is empty, as a variable that nobody has set is, and would mean the current folder.
    """
    if not text:
        raise UsageError("the name is empty", hint=hint)


def node_names(template: Path) -> set[str] | None:
    """The names of a service template's nodes, be there mistakes in it; None where they cannot be told."""
    import yaml  # noqa: PLC0415 - of what is not asked for by a blueprint none is read

    try:  # no value is made of it: what looks like a date need not be one
        node: Any = yaml.compose(template.read_bytes(), Loader=yaml.SafeLoader)
        for key in ("topology_template", "node_templates"):
            node = next(value for name, value in node.value if name.value == key)
        return {name.value for name, _ in node.value}
    except (OSError, yaml.YAMLError, AttributeError, StopIteration, TypeError, ValueError):
        return None


def no_script(path: Path) -> UsageError:
    """That a script is not there, with the name of one in its place or beside that may be meant."""
    if is_folder(path):
        scripts = ", ".join(sorted(_scripts_in(path))[:5]) or "it has none in it"
        return UsageError(f"{path} is a folder, not a script", hint=f"give the script: {scripts}")
    if os.path.islink(path):  # noqa: PTH114 - a name may be too long for pathlib
        message = f"{path} is a link to {path.readlink()}, which does not exist"
        return UsageError(message, hint="give the path of a Python file")
    if path.name in _LAUNCHERS:
        hint = "give the script alone, which a job starts by itself"
    elif path.parts[:1] in (("https:",), ("http:",)):
        hint = "git clone it first, and give the path of its script"
    else:
        hint = nearest(path.name, _scripts_in(path.parent)) or "give the path of a Python file"
    return UsageError(f"there is no script {path}", hint=hint)


def _scripts_in(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.py") if path.is_file()] if is_folder(folder) else []


def control_folder() -> Path:
    """A private folder for the sockets of shared SSH connections; their paths must stay short."""
    name = f"modak-{os.getuid()}"
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.access(base, os.W_OK | os.X_OK):  # gone when the user logged out, or another's behind su
        base = tempfile.gettempdir()
    if len(os.fsencode(base)) + len(name) > _ROOM_FOR_SOCKETS:
        base = "/tmp"  # noqa: S108 - made private below
    folder = Path(base) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()  # in /tmp anybody may have put a link there
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UsageError(f"{folder} is not private to you", hint="remove it, or set XDG_RUNTIME_DIR")
    return folder
