"""Scripts that make a virtual environment, for targets where a training runs without a container."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.locks import pythons_of
from modak_ansible.recipes.steps import (
    keeping,
    kept_commands,
    own_pip_install,
    pip_install,
    stub_command,
    try_commands,
)
from modak_ansible.target.images.probe import PROBE_FAILED


def environment_script(entry: Entry, requirements: Sequence[str], python: str, locked: Sequence[str] = ()) -> str:
    """A script whose first argument is the folder to make.

    Args:
        python: the version of Python that is taken first, as major.minor; then python3, and then whatever else the
            entry's lock knows. What it does not know is never taken; what installs nothing takes any that is
            maintained.
        locked: what the plan itself needs besides, as lines of a lock.
    """
    options, interpreter = "--disable-pip-version-check --no-cache-dir", '"$1/bin/python"'
    commands = pip_install(entry, interpreter, '"$1/locked.txt"', options) if entry.requirements else []
    tries = ""
    if requirements or locked:
        commands += kept_commands(entry, interpreter, "$1")
        commands += own_pip_install(
            requirements, interpreter, '"$1/requirements.txt"', options, locked, keeping("$1"), entry.index
        )
        writing, tries = try_commands(entry, requirements, interpreter, "$1")
        commands += writing
        tries += f" || exit {PROBE_FAILED}\n"
    install = "".join(f"{command}\n" for command in (*commands, stub_command(interpreter)))
    pythons = pythons_of(entry)
    names = dict.fromkeys([f"python{python}", "python3", *(f"python{python}" for python in pythons)])
    alternatives = " | ".join(pythons)
    message = f"error: {entry.name} needs Python {' or '.join(pythons)} in PATH, and there is none that starts"
    return f"""#!/bin/sh
# {entry.name}: {entry.provenance}
set -eu
interpreter=""
for each in {" ".join(names)}; do
    # one that starts: pyenv has commands for versions that it does not run
    version=$("$each" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
    case "$version" in
    {alternatives})
        interpreter=$each
        break
        ;;
    esac
done
if [ -z "$interpreter" ]; then
    echo {shlex.quote(message)} >&2
    exit 1
fi
"$interpreter" -m venv "$1"
{install}"$1/bin/python" -m pip check
{tries}"$1/bin/python" -c {shlex.quote(entry.probe)} || exit {PROBE_FAILED}
"""
