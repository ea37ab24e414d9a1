"""Scripts that make a virtual environment, for targets where a training runs without a container."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.locks import lock_of
from modak_ansible.recipes.steps import own_pip_install, pip_install, stub_command, unlocked_pip_install
from modak_ansible.target.image_probe import PROBE_FAILED


def environment_script(entry: Entry, requirements: Sequence[str], python: str) -> str:
    """A script whose first argument is the folder to make.

    Args:
        entry: the framework.
        requirements: the user's own packages.
        python: the version of Python that the entry's wheels are for, as major.minor; another one is a mistake only
            when pip finds no wheel for it.
    """
    options, made = "--disable-pip-version-check --no-cache-dir", '"$1/bin/python"'
    own = "".join(f"\n{each}" for each in own_pip_install(requirements, made, '"$1/requirements.txt"', options))
    return f"""#!/bin/sh
# {entry.name}: {entry.provenance}
set -eu
# one that starts: pyenv has commands for versions that it does not run
for interpreter in python{python} python3; do
    if "$interpreter" -c "" 2> /dev/null; then break; fi
done
"$interpreter" -m venv "$1"
{_installing(entry, made, options) if entry.requirements else ""}{own}
{stub_command('"$1/bin/python"')}
"$1/bin/python" -m pip check
"$1/bin/python" -c {shlex.quote(entry.probe)} || exit {PROBE_FAILED}
"""


def _installing(entry: Entry, python: str, options: str) -> str:
    """Installs by the lock, where that knows the interpreter's version."""
    locked = "\n    ".join(pip_install(entry, python, '"$1/locked.txt"', options))
    return f"""version=$({python} -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case "$version" in
{" | ".join(lock_of(entry.name).pythons)})
    {locked}
    ;;
*)
    echo "the hashes of what is installed are not known for Python $version"
    {unlocked_pip_install(entry, python, options)}
    ;;
esac"""
