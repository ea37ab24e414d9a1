"""Whether a file holds a request, a blueprint, or a script."""

from __future__ import annotations

import re
from pathlib import Path

from modak_ansible.reading.blueprint.script.starting import is_of_shell

_TOSCA = re.compile(r"^[\s{]*['\"]?tosca_definitions_version", re.MULTILINE)
_REQUEST = re.compile(r"""(^|\A\s*\{\s*)['"]?(job|optimisation|optimization)['"]?\s*:""", re.MULTILINE)
_HEAD = 100_000


_SCRIPTS = (".py", ".ipynb")


def is_script(path: Path) -> bool:
    """Whether a file is a script rather than a blueprint or a request, by its name or its first line."""
    return path.suffix in _SCRIPTS or is_of_shell(path)


def is_request(path: Path) -> bool:
    """Whether a file holds a request rather than a blueprint; by its content, where it can be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", errors="replace").removeprefix("\ufeff")
    except OSError:
        return False
    if _TOSCA.search(head):
        return False
    return path.suffix == ".json" or _REQUEST.search(head) is not None
