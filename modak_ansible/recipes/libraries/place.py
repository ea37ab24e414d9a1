"""Where what is compiled goes, and how sources and compiler flags are come by."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import archspec.cpu

from modak_ansible.errors import ModakError, nearest

FOLDER = "/opt/modak/lib"
SOURCES = "/opt/modak/source"
COPYRIGHT = "/opt/modak/copyright"
ENVIRONMENT = "/opt/venv"
PYTHON = f"{ENVIRONMENT}/bin/python"


def processor(architecture: str) -> archspec.cpu.Microarchitecture:
    """
    Raises:
        ModakError: archspec does not know it.
    """
    targets = archspec.cpu.TARGETS
    if architecture not in targets:
        raise ModakError(f"{architecture} is not a processor that archspec knows", hint=nearest(architecture, targets))
    return targets[architecture]


def compiler_flags(architecture: str, compiler: str, version: str, feature: str = "") -> str:
    """What tells a compiler to use all that a processor has, such as ``-march=znver5 -mtune=znver5``.

    A compiler that is older than the processor gets the newest of its ancestors that the compiler knows, and that has
    the feature, where one is named.

    Raises:
        ModakError: archspec does not know the processor, or the compiler none of its ancestors.
    """
    microarchitecture = processor(architecture)
    for candidate in (microarchitecture, *microarchitecture.ancestors):
        if feature and feature not in candidate:
            continue
        try:
            flags: str = candidate.optimization_flags(compiler, version)
        except archspec.cpu.UnsupportedMicroarchitecture:
            continue
        return flags
    raise ModakError(f"{compiler} {version} cannot compile for {architecture}", hint="take a pip build")


def printing(lines: Iterable[str], place: str, indent: int = 8) -> str:
    """A command that prints a text; each line is a word of its own, as in a Dockerfile no quotes hold a line's end.

    Args:
        place: where to, as the shell has it, such as ``> file``.
    """
    words = [*map(shlex.quote, lines), place]
    return "printf '%s\\n'" + "".join(f" \\\n{' ' * indent}{word}" for word in words)


def debian_source(package: str, tools: str) -> list[str]:
    """Unpacks a source package of the image's own Debian release, and enters its folder.

    The image's list of packages, whichever way it is written, is asked for sources too.

    Args:
        tools: Debian packages that compile it.
    """
    sources = "/etc/apt/sources.list"
    return [
        f"if [ -f {sources} ]; then sed -n 's/^deb /deb-src /p' {sources} > {sources}.d/modak.list; fi",
        f"for each in {sources}.d/*.sources; do "
        'if [ -f "$each" ]; then sed -i \'s/^Types: deb$/Types: deb deb-src/\' "$each"; fi; done',
        "apt-get update -y",
        f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dpkg-dev {tools}",
        f"mkdir -p {FOLDER} {SOURCES} {COPYRIGHT}",
        f"cd {SOURCES}",
        f"apt-get source --only-source {package}",
        f"cd {package}-*",
        f"cp debian/copyright {COPYRIGHT}/{package}",
    ]


def leave_source() -> list[str]:
    """Nothing but what was installed stays in the image."""
    return ["cd /", f"rm -rf {SOURCES} /etc/apt/sources.list.d/modak.list /var/lib/apt/lists/*"]
