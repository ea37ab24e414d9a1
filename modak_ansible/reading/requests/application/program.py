"""What a request runs: the words of executable and arguments, as a script with options or as a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem

_PYTHON = re.compile(r"python(\d(\.\d+)?)?", re.ASCII)
_OPERATORS = "();<>|&"
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)
_LONG = re.compile(r"--([A-Za-z0-9][A-Za-z0-9_.-]+)(?:=(.+))?", re.ASCII | re.DOTALL)
_SHORT = re.compile(r"-([A-Za-z])", re.ASCII)
_SHELL_HINT = "put it into a script, or into pre-execution"


@dataclass(frozen=True)
class Program:
    """What runs: a Python script below the request's folder with its options, or the words of a command."""

    script: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str | bool], ...] = ()
    words: tuple[str, ...] = ()
    # a relative path that is not beside the request, and is taken to be below the user's home there
    on_target: str = ""


def program_of(
    executable: str, arguments: str | tuple[str, ...] | None, is_file: Callable[[str], bool], *, builds: bool = False
) -> Program:
    """What executable and arguments say together.

    Args:
        arguments: a text as in a shell, or a list of words.
        is_file: whether a path below the request's folder is a file.
        builds: whether something is built first, which a path may lead to.

    Raises:
        FieldProblem: it cannot be read as a shell would, or leads out of its folder.
    """
    first = words_of(executable)
    if not first:
        raise FieldProblem("missing-field", "nothing is named")
    if re.match(r"[A-Za-z_]\w*=", first[0]):
        reason = f"{rules.quote(first[0])} sets a variable, but no shell reads this"
        raise FieldProblem("shell", reason, "pre-execution: export ...")
    rest = words_of(arguments) if isinstance(arguments, str) else _plain(arguments or ())
    python, words = ("python3", first)
    if _PYTHON.fullmatch(first[0]) and len(first) > 1 and first[1].endswith(".py"):
        python, words = first[0], first[1:]
    path, is_script = words[0], words[0].endswith(".py")
    _check_path(path)
    relative = path.removeprefix("./")
    if is_script and not _VARIABLE.search(path) and not path.startswith(("/", "~")) and is_file(relative):
        return _script(relative, (*words[1:], *rest))
    is_named = "/" in path or is_script  # any other word is a command on the PATH
    is_beside = builds or path.startswith(("/", "~", "$")) or (is_file(relative) and not is_script)
    on_target = relative if is_named and not is_beside else ""
    target_path = f"$HOME/{on_target}" if on_target else f"$HOME{path[1:]}" if path.startswith("~/") else path
    program = _command((*((python,) if is_script else ()), target_path, *words[1:], *rest))
    return replace(program, on_target=on_target)


def _check_path(path: str) -> None:
    if ".." in PurePosixPath(path).parts or path.startswith("-"):
        raise FieldProblem("script-path", f"{rules.quote(path)} is not below the request's folder")


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, as a shell splits them; a backslash at the end of a line joins the lines.

    Raises:
        FieldProblem: a quote is open, or it holds what only a shell can do.
    """
    text = text.replace("\\\n", " ")
    if "`" in text or "$(" in text:
        raise FieldProblem("shell", "another command in it is not run", _SHELL_HINT)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = _plain(tuple(lexer))
    except ValueError as error:
        raise FieldProblem("shell", f"{rules.quote(text)}: {str(error).lower()}") from error
    for word in words:
        if word and set(word) <= set(_OPERATORS):
            raise FieldProblem("shell", f"{word} is for a shell, but no shell reads this", _SHELL_HINT)
    return words


def options_of(words: tuple[str, ...]) -> tuple[tuple[str, str | bool], ...] | None:
    """Options with their values, where the words are nothing else and mean the same when written as pairs."""
    options: list[tuple[str, str | bool]] = []
    for word in words:
        option = _LONG.fullmatch(word) or _SHORT.fullmatch(word)
        if option:
            value = option[2] if option.re is _LONG else None
            if value is not None and (value.startswith("-") or value.lower() in ("true", "false")):
                return None
            options.append((option[1], value if value is not None else True))
        elif word.startswith("-") or not options or options[-1][1] is not True:
            return None
        else:
            options[-1] = (options[-1][0], word)
    return tuple(options)


def _plain(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        problem = rules.value_problem(word)
        if problem:
            raise FieldProblem("unsafe-value", problem)
    return words


def _script(script: str, words: tuple[str, ...]) -> Program:
    for word in words:
        match = _VARIABLE.search(word)
        if match:
            hint = "write the value itself, or read the variable in the script"
            raise FieldProblem("shell", f"{match[0]} is not expanded in a script's arguments", hint)
    options = options_of(words)
    return Program(script, arguments=options) if options is not None else Program(script, words=words)


def _command(words: tuple[str, ...]) -> Program:
    """A command; where it names variables, bash replaces them on the node."""
    if not any(_VARIABLE.search(word) for word in words):
        return Program(command=words)
    return Program(command=("bash", "-c", "exec " + " ".join(_with_variables(word) for word in words)))


def _with_variables(word: str) -> str:
    parts: list[str] = []
    end = 0
    for match in _VARIABLE.finditer(word):
        literal = word[end : match.start()]
        parts += [shlex.quote(literal)] if literal else []
        parts.append(f'"{match[0]}"')
        end = match.end()
    rest = word[end:]
    return "".join([*parts, shlex.quote(rest) if rest or not parts else ""])
