"""docs/architecture.md: the table of subpackages, from their docstrings, and the picture of their imports."""

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
    "\n<title>The subpackages of modak_ansible, each above all that it imports</title>"
    '\n<rect width="{width}" height="{height}" fill="#ffffff"/>'
)


@cache
def _imports() -> dict[str, frozenset[str]]:
    """Which subpackages each one imports, without imports that serve type checking only."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True)
    packages = sorted(name for name in graph.find_children(PACKAGE) if not name.endswith("__main__"))
    return {
        package.rpartition(".")[2]: frozenset(
            other.rpartition(".")[2]
            for other in packages
            if other != package and graph.direct_import_exists(importer=package, imported=other, as_packages=True)
        )
        for package in packages
    }


@cache
def _layer(package: str) -> int:
    return 1 + max((_layer(other) for other in _imports()[package]), default=0)


@cache
def _reached(package: str) -> frozenset[str]:
    """All that a package imports, directly or not."""
    return frozenset().union(*({other, *_reached(other)} for other in _imports()[package]))


def _layers() -> list[list[str]]:
    """The packages of each layer, the highest first."""
    return [
        sorted(package for package in _imports() if _layer(package) == number)
        for number in range(max(map(_layer, _imports())), 0, -1)
    ]


def _packages() -> str:
    rows = []
    for package in (package for layer in _layers() for package in layer):
        summary = (importlib.import_module(f"{PACKAGE}.{package}").__doc__ or "").strip().splitlines()[0]
        rows.append((f"`{package}`", summary, ", ".join(sorted(_imports()[package])) or "no other package"))
    return table(("subpackage", "holds", "imports"), *rows)


def _picture() -> str:
    layers = _layers()
    width = 40 + max(len(layer) for layer in layers) * (_BOX[0] + _GAP) + 120
    height = 30 + len(layers) * _RISE
    places = {
        package: (width / 2 + (index - (len(layer) - 1) / 2) * (_BOX[0] + _GAP), 30 + row * _RISE + _BOX[1] / 2)
        for row, layer in enumerate(layers)
        for index, package in enumerate(layer)
    }
    parts = [_HEAD.format(width=width, height=height)]
    for package, imported in sorted(_imports().items()):
        for target in sorted(imported - frozenset().union(*(_reached(package_below) for package_below in imported))):
            (x, y), (to_x, to_y) = places[package], places[target]
            y, to_y = y + _BOX[1] / 2, to_y - _BOX[1] / 2
            bend = f"C{x:.0f} {y + 24:.0f} {to_x:.0f} {to_y - 24:.0f} {to_x:.0f} {to_y:.0f}"
            parts.append(f'<path d="M{x:.0f} {y:.0f} {bend}" fill="none" stroke="#8c959f" stroke-width="1.2"/>')
    for package, (x, y) in places.items():
        colour = "#ddf4ff" if package in ("target", "schedulers", "errors") else "#f6f8fa"
        parts.append(
            f'<rect x="{x - _BOX[0] / 2:.0f}" y="{y - _BOX[1] / 2:.0f}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6" '
            f'fill="{colour}" stroke="#57606a"/>\n'
            f'<text x="{x:.0f}" y="{y + 5:.0f}">{escape(package)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


FILES: Writers = {
    "docs/architecture.md": lambda text: with_section(text, "subpackages", _packages()),
    "docs/architecture.svg": lambda _: _picture(),
}
