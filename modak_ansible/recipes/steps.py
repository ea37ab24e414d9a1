"""The commands of a build that every kind of image has: Apptainer's, Docker's, and environments without one. Pure."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Sequence

from modak_ansible.catalogue import Base, Entry
from modak_ansible.catalogue.locks import lock_of, package_of, pin_of
from modak_ansible.recipes.libraries import library_commands
from modak_ansible.recipes.libraries.place import ENVIRONMENT, FOLDER, PYTHON, printing
from modak_ansible.runtime import STUB, TRY_REQUIREMENTS

# What the framework's layer has, as pip lists it, and what was to be installed.
INSTALLED = f"{ENVIRONMENT}/requirements.txt"
LOCK = f"{ENVIRONMENT}/locked.txt"
# Where an image keeps what its framework must not lose.
KEPT = "/opt/modak"
# What was there before a user's packages, and what belongs to it.
_INSTALLED, _COMPANIONS = "installed.txt", "companions.txt"
_BY_LOCK = "--no-deps --no-build-isolation --require-hashes"


def environment_commands(base: Base) -> list[str]:
    """Makes the virtual environment that the framework goes into."""
    if base.python.startswith("2."):
        # offline: the wheels of pip and setuptools lie in Debian's own packages
        return [f"virtualenv --no-download -p python{base.python} {ENVIRONMENT}"]
    return [f"python3 -m venv {ENVIRONMENT}"]


def framework_commands(entry: Entry, architecture: str) -> list[list[str]]:
    """What makes a framework of a base image, step by step: the pinned packages, libraries, and further names.

    Args:
        architecture: archspec name of the processor that its libraries are compiled for.
    """
    steps = []
    if entry.requirements:
        steps.append(pip_install(entry, PYTHON, LOCK))
    steps += [library_commands(name, architecture) for name in entry.libraries]
    if entry.links:
        links = [f"ln -s {shlex.quote(target)} {FOLDER}/{shlex.quote(name)}" for name, target in entry.links.items()]
        steps.append([f"mkdir -p {FOLDER}", *links])
    return [*steps, [f"{PYTHON} -m pip freeze > {INSTALLED}"], [stub_command(PYTHON)]]


def stub_command(python: str) -> str:
    """Puts the module into site-packages that lets a script call prepare outside of a plan.

    Its text is part of every image's digest: a change of it builds all of them anew.
    """
    lines = STUB.read_text(encoding="utf-8").splitlines()
    return printing(lines, f'> "{_packages_folder(python)}/{STUB.name}"')


def _packages_folder(python: str) -> str:
    return f"$({python} -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"


def pip_install(entry: Entry, python: str, lock: str, options: str = "--no-cache-dir --prefer-binary") -> list[str]:
    """Installs what the entry's lock has, and nothing that differs from its hashes.

    What pip is configured to ask comes first, then the framework's own index too. Nothing else is downloaded: what has
    sources only is built with what is there.

    Args:
        python: the interpreter, as a word of the shell.
        lock: where the lock is written to, as a word of the shell.
        options: for ``pip install``.
    """
    install = f"{python} -m pip install {options}"
    return [printing(lock_of(entry.name).lines, f"> {lock}"), _attempts(install, f"{_BY_LOCK} -r {lock}", entry.index)]


def _attempts(install: str, words: str, index: str, options: str = "") -> str:
    """What pip is configured to ask comes first, then the framework's own index, too."""
    if not index:
        return f"{install} {words}"
    return f"{{ {install} {words} || {install} --extra-index-url {shlex.quote(index)}{options} {words}; }}"


def kept_commands(entry: Entry, python: str, folder: str) -> list[str]:
    """Notes what is installed, and what belongs to it, for :func:`keeping` them.

    A framework whose package has another name is known to pip under its first one, too: what asks for tensorflow is
    content with tensorflow-cpu, and pip would put the other in its place.

    Args:
        python: the interpreter, as a word of the shell.
        folder: where the lists are written, as a word of the shell without quotes.
    """
    from modak_ansible.catalogue.companions import aliases_of, constraints_of  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    commands = []
    for name, version in aliases_of(entry).items():
        info_folder = f'"{_packages_folder(python)}/{name.replace("-", "_")}-{version}.dist-info"'
        lines = f"'Metadata-Version: 2.1' {shlex.quote(f'Name: {name}')} {shlex.quote(f'Version: {version}')}"
        commands.append(f"mkdir -p {info_folder} && printf '%s\\n' {lines} > {info_folder}/METADATA")
    companions = " ".join(map(shlex.quote, constraints_of(entry))) or "''"
    return [
        *commands,
        f'{python} -m pip list --format=freeze > "{folder}/{_INSTALLED}"',
        f"printf '%s\\n' {companions} > \"{folder}/{_COMPANIONS}\"",
    ]


def keeping(folder: str) -> tuple[str, ...]:
    """The files of constraints that keep a framework as it is, and its companions of the release made for it."""
    return f"{folder}/{_INSTALLED}", f"{folder}/{_COMPANIONS}"


def try_commands(entry: Entry | None, requirements: Sequence[str], python: str, folder: str) -> tuple[list[str], str]:
    """What writes the script that tries the user's packages, and the command that runs it.

    Args:
        entry: the framework; None for a user's own image, of which nobody knows what was in it.
        requirements: lines of requirements.txt.
        python: the interpreter, as a word of the shell.
        folder: of the script and of the lists, as a word of the shell without quotes.
    """
    from modak_ansible.catalogue.companions import tries_of  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    options = {
        "asked": sorted({package_of(requirement) for requirement in requirements}),
        "modules": _imported(entry.probe) if entry else [],
        "tries": tries_of(entry) if entry else {},
        "accelerated": bool(entry is None or entry.accelerator),
    }
    script = f'"{folder}/{TRY_REQUIREMENTS.name}"'
    lines = TRY_REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    installed = f'"{folder}/{_INSTALLED}"' if entry else "''"
    return (
        [printing(lines, f"> {script}")],
        f"{python} {script} {installed} {shlex.quote(json.dumps(options, sort_keys=True))}",
    )


def _imported(probe: str) -> list[str]:
    imports = [statement for statement in ast.parse(probe).body if isinstance(statement, ast.Import)]
    return [alias.name for statement in imports for alias in statement.names]


def own_pip_install(
    requirements: Sequence[str],
    python: str,
    file: str,
    options: str,
    locked: Sequence[str] = (),
    constraints: Sequence[str] = (),
    index: str = "",
) -> list[str]:
    """Installs a user's packages; of those whose hashes are given, pip takes nothing else, nor puts it in their place.

    Args:
        requirements: lines of requirements.txt. What those with hashes bring along must be among them, with hashes.
        python: the interpreter, as a word of the shell.
        file: where those with hashes are written to, as a word of the shell.
        locked: lines of a lock of ours, which come first.
        constraints: files, as words of the shell without quotes.
        index: the framework's own, which is asked for its companions when pip's configured ones have not got them.
    """
    install = f"{python} -m pip install {options}"
    keep = "".join(f'-c "{path}" ' for path in constraints)

    def attempts(words: str) -> str:
        return _attempts(install, keep + words, index, " --retries 1")

    commands = []
    if locked:
        commands += [*_write(locked, file), f"{install} {_BY_LOCK} -r {file}"]
    if hashed := [requirement for requirement in requirements if " --hash=" in requirement]:
        commands += [*_write(hashed, file), attempts(f"--require-hashes -r {file}")]
    if unhashed := [requirement for requirement in requirements if requirement not in hashed]:
        pinned = list(map(pin_of, [*_not_named(locked, requirements), *hashed]))
        words = " ".join(map(shlex.quote, unhashed))
        commands += [*_write(pinned, file), attempts(f"-c {file} {words}" if pinned else words)]
    return commands


def _not_named(locked: Sequence[str], requirements: Sequence[str]) -> list[str]:
    """The lines of a lock for what the user asks for no release of."""
    named = {package_of(requirement) for requirement in requirements}
    return [line for line in locked if package_of(line) not in named]


def _write(lines: Sequence[str], file: str) -> list[str]:
    """A command for each line: Apptainer reads no command of any length."""
    return [f"printf '%s\\n' {shlex.quote(line)} {'>>' if number else '>'} {file}" for number, line in enumerate(lines)]
