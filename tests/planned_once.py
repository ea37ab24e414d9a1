"""Plans that tests begin with, and that are not what they test: each is made once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.planning.service import Planned, plan_blueprint
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.project import blueprint_state, known_testbed

_PLANNED: dict[object, Planned] = {}


def planned_once(service: Path, inputs: Inputs | None = None) -> Planned:
    """The only plan of a blueprint: as it was made for one with the same files, wherever that lies, with its own places.

    Nothing but these files and the inputs may be other than usual: no entry of the catalogue, and no variable.
    """
    inputs = inputs or Inputs()
    key = (inputs, *_files(service.parent))
    if key not in _PLANNED:
        _PLANNED[key] = plan_blueprint(service, inputs)
    state = blueprint_state(service)
    return _PLANNED[key]._replace(blueprint=service, state=state, testbed=known_testbed(state))


def _files(folder: Path) -> list[tuple[str, bytes]]:
    """What lies in a folder; the types in it are a link to those that ship, and deployments change no plan."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    found = [(str(path.relative_to(folder)), path) for path in paths]
    return [(name, path.read_bytes()) for name, path in found if not name.startswith(".modak/deployments/")]
