"""tosca-parser's own judgement of a blueprint, with a place for each of its messages."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modak_ansible.blueprint.mistakes import Mistakes
from modak_ansible.blueprint.yaml_tree import Item, read_yaml
from modak_ansible.errors import Location

RULE = "tosca-parser"


def check_with_tosca_parser(path: Path, inputs: dict[str, Any], mistakes: Mistakes) -> None:
    """Notes what tosca-parser has against a service template.

    It gives no places; the one noted is that of the last name in its message that the file holds.

    Args:
        path: the service template.
        inputs: the values of its inputs.
        mistakes: collects what it says.
    """
    from toscaparser.common.exception import ExceptionCollector, TOSCAException  # noqa: PLC0415 - slow to import
    from toscaparser.tosca_template import ToscaTemplate  # noqa: PLC0415

    tree = read_yaml(path, Mistakes()) or Item(Location(str(path)), None)
    logging.getLogger("tosca").setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            ToscaTemplate(str(path), parsed_params=inputs or None)
    except TOSCAException as error:
        said = [str(each) for each in ExceptionCollector.getExceptions()] or [str(error)]
        for message in said:
            mistakes.add(_place(message, tree), RULE, " ".join(message.split()))
    except Exception as error:  # noqa: BLE001 - it lets any error of its own out where a template is odd
        mistakes.add(tree.location, RULE, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _place(message: str, tree: Item) -> Location:
    """The place of the last of the names in a message, the most special one, that stands in the file."""
    names = re.findall(r'"([^"]+)"', message)
    places = dict(_names(tree))
    return next((places[name] for name in reversed(names) if name in places), tree.location)


def _names(item: Item) -> Iterator[tuple[str, Location]]:
    for each in item.walk():
        for name in each.entries:
            yield name, each.key_location(name)
        if isinstance(each.value, str):
            yield each.value, each.location
