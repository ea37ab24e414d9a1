"""docs/architecture.md: the table of rooms, from their docstrings, and the picture of floors, from the imports."""

from __future__ import annotations

import importlib
from functools import cache
from html import escape

import grimp

from generate import Writers, table, with_section

PACKAGE = "modak_ansible"
_BOX, _GAP, _RISE = (150, 34), 18, 72
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    'font-family="system-ui, sans-serif" font-size="14" text-anchor="middle" fill="#1f2328">'
    "\n<title>The rooms of modak_ansible: each stands above all that it imports</title>"
    '\n<rect width="{width}" height="{height}" fill="#ffffff"/>'
)


@cache
def _imports() -> dict[str, frozenset[str]]:
    """Which rooms each room imports; what only types are taken from is left out."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True)
    rooms = sorted(name for name in graph.find_children(PACKAGE) if not name.endswith("__main__"))
    return {
        room.rpartition(".")[2]: frozenset(
            other.rpartition(".")[2]
            for other in rooms
            if other != room and graph.direct_import_exists(importer=room, imported=other, as_packages=True)
        )
        for room in rooms
    }


@cache
def _floor(room: str) -> int:
    return 1 + max((_floor(other) for other in _imports()[room]), default=0)


@cache
def _reached(room: str) -> frozenset[str]:
    """All that a room stands on, directly or not."""
    return frozenset().union(*({other, *_reached(other)} for other in _imports()[room]))


def _floors() -> list[list[str]]:
    """The rooms of each floor, the highest first."""
    return [
        sorted(room for room in _imports() if _floor(room) == number)
        for number in range(max(map(_floor, _imports())), 0, -1)
    ]


def _rooms() -> str:
    rows = []
    for room in (room for floor in _floors() for room in floor):
        said = (importlib.import_module(f"{PACKAGE}.{room}").__doc__ or "").strip().splitlines()[0]
        rows.append((f"`{room}`", said, ", ".join(sorted(_imports()[room])) or "nothing of ours"))
    return table(("room", "holds", "imports"), *rows)


def _picture() -> str:
    floors = _floors()
    width = 40 + max(len(floor) for floor in floors) * (_BOX[0] + _GAP) + 120
    height = 30 + len(floors) * _RISE
    places = {
        room: (width / 2 + (index - (len(floor) - 1) / 2) * (_BOX[0] + _GAP), 30 + row * _RISE + _BOX[1] / 2)
        for row, floor in enumerate(floors)
        for index, room in enumerate(floor)
    }
    parts = [_HEAD.format(width=width, height=height)]
    for room, others in sorted(_imports().items()):
        for other in sorted(others - frozenset().union(*(_reached(each) for each in others))):
            (x, y), (to_x, to_y) = places[room], places[other]
            y, to_y = y + _BOX[1] / 2, to_y - _BOX[1] / 2
            bend = f"C{x:.0f} {y + 24:.0f} {to_x:.0f} {to_y - 24:.0f} {to_x:.0f} {to_y:.0f}"
            parts.append(f'<path d="M{x:.0f} {y:.0f} {bend}" fill="none" stroke="#8c959f" stroke-width="1.2"/>')
    for room, (x, y) in places.items():
        colour = "#ddf4ff" if room in ("target", "schedulers", "errors") else "#f6f8fa"
        parts.append(
            f'<rect x="{x - _BOX[0] / 2:.0f}" y="{y - _BOX[1] / 2:.0f}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6" '
            f'fill="{colour}" stroke="#57606a"/>\n'
            f'<text x="{x:.0f}" y="{y + 5:.0f}">{escape(room)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


FILES: Writers = {
    "docs/architecture.md": lambda text: with_section(text, "rooms", _rooms()),
    "docs/architecture.svg": lambda _: _picture(),
}
