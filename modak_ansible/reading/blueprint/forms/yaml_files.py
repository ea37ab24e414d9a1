"""Files and texts of YAML, read into trees; what is wrong is collected, and nothing is raised."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from typing import TYPE_CHECKING

from modak_ansible.errors import Location

if TYPE_CHECKING:
    from pathlib import Path

    from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
    from modak_ansible.reading.blueprint.forms.yaml_tree import Item

_MAX_BYTES = 8 * 2**20


def read_yaml(path: Path, mistakes: Mistakes) -> Item | None:
    """The tree of a YAML file, or None (and a mistake) when it cannot be read or is not YAML.

    Args:
        mistakes: collects what is wrong: syntax, duplicate keys, merge keys, unknown tags.
    """
    text = read_text(path, mistakes)
    return parse_yaml(text, str(path), mistakes) if text is not None else None


def read_text(path: Path, mistakes: Mistakes) -> str | None:
    """The text of a file, or None (and a mistake) when it cannot be read, is not UTF-8, or is larger than 8 MiB."""
    place = Location(str(path))
    try:
        if path.stat().st_size > _MAX_BYTES:
            mistakes.add(place, "file-unreadable", "the file is larger than 8 MiB")
            return None
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        lines = error.object[: error.start].decode("utf-8", errors="replace").split("\n")
        place = Location(str(path), len(lines), len(lines[-1]) + 1)
        is_text = b"\0" not in error.object or error.object.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        hint = "save the file as UTF-8" if is_text else ""
        mistakes.add(place, "yaml-syntax", f"not UTF-8 text at byte {error.start}", hint)
    except OSError as error:
        mistakes.add(place, "file-unreadable", f"cannot be read: {error.strerror}")
    return None


def parse_yaml(text: str, name: str, mistakes: Mistakes) -> Item | None:
    """As :func:`read_yaml`, for text; ``name`` is the path shown in messages."""
    from modak_ansible.reading.blueprint.forms.yaml_parser import parse  # noqa: PLC0415 - PyYAML is slow to import

    return parse(text, name, mistakes)
