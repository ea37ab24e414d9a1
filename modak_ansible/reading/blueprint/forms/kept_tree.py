"""Trees of YAML files, kept in the user's cache: to parse one takes twice as long, and needs PyYAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.secret_rules import note_secrets
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml, read_text
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.store.cache import kept_text

_FORM = "1"  # of what is kept; another one where it, or what is read of a text, changes


def read_kept_yaml(path: Path, mistakes: Mistakes) -> Item | None:
    """As ``read_yaml``; the tree of a text in which nothing was wrong is kept, whatever the file's path is.

    What may hold a secret is not kept.
    """
    text = read_text(path, mistakes)
    if text is None:
        return None
    parsed: list[Item | None] = []

    def parse() -> str | None:
        before, secrets = len(mistakes), Mistakes()
        parsed.append(parse_yaml(text, str(path), mistakes))
        if parsed[0] is None or len(mistakes) > before:
            return None
        try:
            note_secrets(parsed[0], secrets)
            return None if secrets else json.dumps(_flat(parsed[0]))
        except RecursionError:
            return None

    cached = kept_text("yaml", f"{_FORM} {text}", parse)
    return parsed[0] if parsed else _item(json.loads(cached or "null"), str(path))


def _flat(item: Item) -> list[Any]:
    """Line and column, and behind them a mapping's members, each with line and column of its name, a list's elements,
    or a scalar's text, with its value where that is another."""
    place = [item.location.line, item.location.column]
    if item.is_map:
        places = item.keys
        return [
            *place,
            {name: [places[name].line, places[name].column, _flat(entry)] for name, entry in item.entries.items()},
        ]
    if item.is_list:
        return [*place, [_flat(element) for element in item.elements]]
    return [*place, item.text, *([] if item.value == item.text else [item.value])]


def _item(flat: list[Any], path: str) -> Item:
    line, column, content = flat[:3]
    location = Location(path, line, column)
    if isinstance(content, dict):
        return Item(
            location,
            {name: _item(entry, path) for name, (_, _, entry) in content.items()},
            keys={name: Location(path, line, column) for name, (line, column, _) in content.items()},
        )
    if isinstance(content, list):
        return Item(location, [_item(element, path) for element in content])
    return Item(location, flat[-1], content)
