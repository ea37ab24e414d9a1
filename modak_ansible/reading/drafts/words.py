"""The words of a script's command line, as a blueprint has them: arguments by name, or the words as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modak_ansible.reading.blueprint.forms.text_rules import option_problem
from modak_ansible.reading.blueprint.script.option import Option


def arguments_of(words: Sequence[str], declared: Sequence[Option]) -> tuple[dict[str, Any], list[str]]:
    """Arguments by name, as a blueprint gives them; where one cannot be told from the words, all words as they are."""
    options = {name: option for option in declared for name in option.names}
    arguments: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, is_given, value = word.partition("=")
        bare = name[2:] if name.startswith("--") else name[1:] if len(name) == 2 and name[0] == "-" else ""
        if not bare or (len(bare) == 1 and name.startswith("--")) or bare[0] == "-" or option_problem(bare):
            return {}, list(words)
        option = options.get(name)
        if is_given:
            if len(bare) == 1:  # of which = is the value's first letter
                return {}, list(words)
            _add(arguments, bare, value, option)
            continue
        takes = option.takes_value if option else None
        follows = bool(left) and (not left[0].startswith("-") or _is_number(left[0]))
        if takes is False or (takes is None and not follows):
            _add(arguments, bare, True, option)
        elif follows:
            _add(arguments, bare, left.pop(0), option)
        else:
            return {}, list(words)
    if any(isinstance(value, list) and True in value for value in arguments.values()):
        return {}, list(words)
    return arguments, []


def given_as(name: str, value: str = "") -> list[str]:
    """The words that give what a script does not start without; without a value what stands for one.

    Args:
        name: of an option, with its dashes; of one of hydra's, with = behind it; or of what is given by its place.
    """
    if name.startswith("-"):
        return [name, value or "..."]
    return [f"{name}{value or '...'}"] if name.endswith("=") else [value or name.upper()]


def _add(arguments: dict[str, Any], name: str, value: Any, option: Option | None) -> None:
    if name not in arguments or (option and option.keeps_last):
        arguments[name] = value
    else:
        before = arguments[name]
        arguments[name] = [*before, value] if isinstance(before, list) else [before, value]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
