"""The tree of a YAML text, by PyYAML."""

from __future__ import annotations

import re
from typing import Any, cast

import yaml

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item

_MAX_ITEMS = 200_000
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The indentation of a line with a tab in it, which may stand behind the - of a list.
_INDENTING_TABS = re.compile(r"^(?:[ \t]|-(?=[ \t]))*\t[ \t]*", re.MULTILINE)
_UNREADABLE = yaml.reader.Reader.NON_PRINTABLE
# What PyYAML finds wrong, and what to do about it.
_CURES = {
    "mapping values are not allowed in this context": "quote a text with a colon in it, or mend the indentation",
    "found character that cannot start any token": "quote a text that begins with it",
    "but found another document": "a file holds one document: leave out what begins with ---",
}
_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "timestamp", "seq", "map")


def parse(text: str, name: str, mistakes: Mistakes) -> Item | None:
    """As ``yaml_files.parse_yaml``, which everybody else asks."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                mistakes.add(Location(name), "yaml-syntax", "the file is empty")
                return None
            return _Converter(name, loader, mistakes).convert(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        place, rule, message = _syntax_mistake(error, text, name)
        mistakes.add(place, rule, message, _CURES.get(message.removeprefix("not YAML: "), ""))
    except yaml.reader.ReaderError as error:
        match = _UNREADABLE.search(text)
        place = _place_of(match.start(), text, name) if match else Location(name)
        sign = repr(match[0]) if match else error.reason
        mistakes.add(place, "yaml-syntax", f"not YAML: {sign} is not a character of a text", "take it out")
    except yaml.YAMLError as error:
        mistakes.add(Location(name), "yaml-syntax", f"not YAML: {' '.join(str(error).split())}")
    except RecursionError:
        mistakes.add(Location(name), "yaml-syntax", "nested too deeply")
    return None


def _place_of(position: int, text: str, name: str) -> Location:
    return Location(name, text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


def _syntax_mistake(error: yaml.MarkedYAMLError, text: str, name: str) -> tuple[Location, str, str]:
    """Where YAML broke, and of what; a tab in the indentation is named as the cause where it is one."""
    mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
    if mark is None:
        return Location(name), "yaml-syntax", f"not YAML: {problem}"
    end = text.find("\n", mark.index)
    tabs = list(_INDENTING_TABS.finditer(text, 0, end if end >= 0 else len(text)))
    if tabs and not _breaks_in(_INDENTING_TABS.sub(lambda match: match[0].expandtabs(2), text), mark.line, problem):
        place = _place_of(tabs[-1].start() + tabs[-1][0].index("\t"), text, name)
        return place, "yaml-syntax", "YAML does not allow tabs for indentation: use spaces"
    place = Location(name, mark.line + 1, mark.column + 1)
    return place, "yaml-syntax", f"not YAML: {problem}"


def _breaks_in(text: str, line: int, problem: str | None) -> bool:
    """Whether a text is no YAML for the same reason in the same line."""
    try:
        yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return mark is not None and mark.line == line and (error.problem or error.context) == problem
    except (yaml.YAMLError, RecursionError):
        return False
    return False


class _Converter:
    """Turns PyYAML's nodes into items."""

    def __init__(self, name: str, loader: Any, mistakes: Mistakes) -> None:
        self._name = name
        self._loader = loader
        self._mistakes = mistakes
        self._count = 0
        self._open: set[int] = set()

    def convert(self, node: yaml.Node) -> Item:
        location = Location(self._name, node.start_mark.line + 1, node.start_mark.column + 1)
        self._count += 1
        if self._count > _MAX_ITEMS or id(node) in self._open:
            raise yaml.YAMLError("an alias repeats itself without end")
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind == "value":  # a plain "=", which YAML 1.1 gives a type of its own
            kind = "str"
        if kind not in _PLAIN_TAGS:
            self._mistakes.add(location, "yaml-tag", f"the tag {node.tag} is not allowed in a blueprint")
            return Item(location, None)
        if isinstance(node, yaml.ScalarNode):
            return Item(location, self._scalar(node, kind, location), node.value)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return Item(location, [self.convert(child) for child in node.value])
            return self._mapping(cast("yaml.MappingNode", node), location)
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode, kind: str, location: Location) -> Any:
        if kind in ("str", "timestamp"):
            return node.value
        try:
            value = self._loader.construct_object(node)
            str(value)  # Python writes no whole number of thousands of digits, though it reads a hexadecimal one
        except (ValueError, LookupError, yaml.YAMLError):  # lookups of PyYAML's own fail behind a tag: !!bool maybe
            self._mistakes.add(location, "yaml-syntax", f"{node.value[:60]!r} cannot be read as {kind}")
            return None
        return value

    def _mapping(self, node: yaml.MappingNode, location: Location) -> Item:
        entries: dict[str, Item] = {}
        keys: dict[str, Location] = {}
        merged: dict[str, Item] = {}
        for key_node, value_node in node.value:
            place = Location(self._name, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                self._mistakes.add(place, "yaml-syntax", "a name must be plain text")
                continue
            key = key_node.value
            if key_node.tag.endswith(":merge"):
                self._mistakes.add(place, "yaml-merge", "merge keys (<<) are not TOSCA", "write the entries out")
                merged_item = self.convert(value_node)
                for mapping in reversed(merged_item.elements or [merged_item]):  # of several the first goes before
                    merged |= mapping.entries  # read all the same: that they are missing is no mistake of its own
                continue
            if key in entries:
                first = keys[key].line
                self._mistakes.add(place, "duplicate-key", f"{key} is given twice, first in line {first}")
                continue
            keys[key] = place
            entries[key] = self.convert(value_node)
        return Item(location, {**merged, **entries}, keys=keys)
