"""Files that ship, and that nearly every plan of a test reads: read once for all tests of a process.

So is what is installed beside them, which every draft asks for.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest
from example_blueprint import ROOT

from modak_ansible.performance import model
from modak_ansible.performance.stored import Stored, read_stored
from modak_ansible.reading.blueprint import reader
from modak_ansible.reading.blueprint.forms.kept_tree import read_kept_yaml
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import read_yaml
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types import definitions
from modak_ansible.reading.drafts import draft
from modak_ansible.reading.drafts.installed import Installed

_TYPES = ROOT / "tosca" / "types"


def share(patch: pytest.MonkeyPatch) -> None:
    """Has our reader take the shipped types, and the planner the shipped model, as read before.

    Any other file is read as ever. Places in the shipped types are those of the checkout, whatever link leads there.
    """
    patch.setattr(definitions, "read_kept_yaml", _read_yaml)
    patch.setattr(reader, "read_kept_yaml", read_yaml)  # each test has a blueprint of its own
    patch.setattr(model, "read_stored", _read_stored)
    own, known = {path for path in sys.path if path}, cache(lambda *paths: Installed([*paths]))
    # some benchmarks' modules that tests import add folders of ours to the path, and leave them there
    patch.setattr(draft, "Installed", lambda paths: known(*paths) if own <= {*paths} else Installed(paths))


def _shipped_type(path: Path) -> Path | None:
    real = path.resolve()
    return real if real.parent == _TYPES else None


def _read_yaml(path: Path, mistakes: Mistakes) -> Item | None:
    real = _shipped_type(path)
    return _type_file(real) if real else read_kept_yaml(path, mistakes)


@cache
def _type_file(path: Path) -> Item | None:
    mistakes = Mistakes()
    tree = read_yaml(path, mistakes)
    mistakes.raise_if_any()
    return tree


def _read_stored(path: Path) -> Stored:
    return _shipped_model() if path == model.SHIPPED else read_stored(path)


@cache
def _shipped_model() -> Stored:
    return read_stored(model.SHIPPED)
