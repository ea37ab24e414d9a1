"""What a training script's command line takes, as far as its source says it; nothing of the script is run."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from modak_ansible.errors import nearest
from modak_ansible.reading.blueprint.script.option import EPOCHS, Option, whole_number
from modak_ansible.reading.blueprint.script.source import ScriptSource, source_of
from modak_ansible.reading.blueprint.script.syntax import syntax_of

_MAX_BYTES = 2**20
_MOST_FILES = 100
_OF_OPTIONS = re.compile(rb"ArgumentParser|add_argument")
_SLIP = 0.85  # of two names that are alike
_OF_FIELDS = re.compile(rb"ArgumentParser|add_argument|dataclass")
_CONVERTERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
}


class Options(NamedTuple):
    declared: tuple[Option, ...]  # all that are seen
    are_all: bool  # whether there can be no others; where this is false, there may be
    abbreviates: bool = True  # whether the beginning of a name stands for it
    has_more: bool = False  # whether there are others for certain, which a library declares
    places: tuple[str, ...] = ()  # what the script does not start without, and is given by no name
    has_commands: bool = False  # whether each option may be one of another command

    def problem(self, name: str, value: str | bool) -> tuple[str, str]:
        """What the script does not do with an argument, and a hint; empty where nothing is known against it.

        Args:
            value: what it is given; with True it stands alone, and with False it is left out.
        """
        if value is False:
            return "", ""
        written = _flag(name)
        options = self.meant(name)
        if not options:
            return self.unknown(name)
        if len(options) > 1 and self.has_commands:
            return "", ""
        # what both arms of an if declare, or two files, has one name
        matching = [{full for full in option.names if full.startswith(written)} for option in options]
        if not set.intersection(*matching):
            names = sorted(set.union(*matching))
            return f"cannot tell whether {written} is {' or '.join(names)}", "write it in full"
        problems = [_value_problem(option, written, value) for option in options]
        return next((problem for problem in problems if not problem[0]), problems[0])

    def repeated(self, name: str, values: Sequence[str | bool]) -> tuple[str, str]:
        """What becomes of several values of one name, and a hint; empty where the script takes them all, or may."""
        options = self.meant(name)
        if len(values) == 1 or not options or not all(option.keeps_last for option in options):
            return "", ""
        problem = f"keeps only the last of {len(values)} values for {_flag(name)}"
        if options[0].nargs in (None, "?"):
            return problem, f"give it one; sweep: {{ {name}: [ ... ] }} trains with each"
        words = ", ".join(f'"{value}"' for value in values)
        return problem, f"words: [ {_flag(name)}, {words} ]"

    def unknown(self, name: str) -> tuple[str, str]:
        """What is to be said of a name that no option has, and a hint; empty where one has it, or may have it."""
        if self.meant(name):
            return "", ""
        if self.has_more and not self._is_slip(name):
            return "", ""
        return f"has no option {_flag(name)}", self._nearest(name)

    def missing(self, names: Iterable[str]) -> Iterator[str]:
        """What the script does not start without: the options that none of these names is, and, without dashes, its
        places."""
        if self.has_commands:
            return
        given_options = [option for name in names for option in self.meant(name)]
        required = [
            max(option.names, key=len) for option in self.declared if option.is_required and option not in given_options
        ]
        yield from dict.fromkeys((*required, *self.places))

    def meant(self, name: str) -> list[Option]:
        """The options of a name without dashes, or all that it is the beginning of."""
        written = _flag(name)
        exact = [option for option in self.declared if written in option.names]
        if exact or not self.abbreviates or not written.startswith("--"):
            return exact
        return [option for option in self.declared if any(full.startswith(written) for full in option.names)]

    def _is_slip(self, name: str) -> bool:
        """Whether a name is as good as one that is declared: others have their options in libraries."""
        names = {full.lstrip("-") for option in self.declared for full in option.names}
        return bool(difflib.get_close_matches(name, names, n=1, cutoff=_SLIP))

    def _nearest(self, name: str) -> str:
        names = {
            full.lstrip("-"): full for option in self.declared for full in option.names if full not in ("-h", "--help")
        }
        if name in names:  # argparse takes -lr and --n
            return f'it declares {names[name]}, and is given {_flag(name)}: have it declare "{_flag(name)}", too'
        return nearest(name, names)


def options_of(script: Path, switches: Iterable[str] | None = None) -> Options | None:
    """The options of a script; None where its source, and that of the files which it imports, leaves them open.

    Args:
        switches: options that its workload.yaml names, with _ for -; None where it has none.
    """
    sources = _sources(script)
    if not sources or any(script_source.is_dynamic for script_source in sources.values()):
        return None
    if any(not name or name not in sources for script_source in sources.values() for name in script_source.handed_to):
        return None
    library = library_options(sources.values())
    if library:
        parser_options = _combined_options([*sources.values()])
        abbreviates = any(source.parsed for source in sources.values())  # its parser is one of argparse's
        return Options((*library, *parser_options, Option(("-h", "--help"), False)), False, abbreviates, has_more=True)
    makes_names = any(script_source.makes_names for script_source in sources.values())
    if makes_names and switches is None:
        return None
    first, *imported = sources.values()
    is_alone = not any(source.makes_parsers or source.options for source in imported)
    if first.command is not None:
        certain = is_alone and not (first.makes_parsers or first.is_doubtful or first.has_commands)
        declared = (*first.command, Option(("--help",), False))
        return Options(declared, certain, False, places=_required_places(first), has_commands=first.has_commands)
    if not any(script_source.makes_parsers for script_source in sources.values()):
        return None
    workload_options = (
        [Option((f"--{switch.replace('_', '-')}",)) for switch in (switches or ())] if makes_names else []
    )
    declared = (*_combined_options([*sources.values()]), *workload_options, Option(("-h", "--help"), False))
    certain = is_alone and not makes_names and first.makes_parsers == 1 and first.parses and not first.is_doubtful
    abbreviates = all(script_source.abbreviates for script_source in sources.values())
    has_commands = any(script_source.has_commands for script_source in sources.values())
    return Options(declared, certain, abbreviates, places=_required_places(first), has_commands=has_commands)


# Epochs that are none of their own: of those that train, or of what is done in every so many.
_AMONG_EPOCHS = re.compile(r"warm|decay|patience|freez|frozen|save|eval|val|log|every|interval|check")


def default_epochs(script: Path) -> int | None:
    """The default of the option of a script that says how many epochs it trains; None where it has no number, or where
    another option says how many another loop trains."""
    options = options_of(script)
    by_name = {name: option for option in (options.declared if options else ()) for name in option.plain_names}
    epoch_options = [option for name, option in by_name.items() if name in EPOCHS]
    other_names = [name for name in by_name if name.endswith("epochs") and name not in EPOCHS]
    if not epoch_options or any(not _AMONG_EPOCHS.search(name) for name in other_names):
        return None
    return whole_number(epoch_options[0].default)


def _combined_options(sources: Sequence[ScriptSource]) -> Iterator[Option]:
    """The options of a script and of the files that it imports.

    A file that is a script, too, needs its own where it is started itself; so does any other where the script has a
    parser of its own, and hands it to nobody.
    """
    first, *imported = sources
    has_own = first.makes_parsers and first.parses and not first.handed_to
    yield from first.options
    for source in imported:
        is_needed = not (has_own or source.is_script)
        yield from (option._replace(is_required=option.is_required and is_needed) for option in source.options)


def _required_places(source: ScriptSource) -> tuple[str, ...]:
    return tuple(place.names[0] for place in source.places if place.is_required)


def library_options(sources: Iterable[ScriptSource]) -> list[Option]:
    """The options that some files have a library make: of flags, and of the fields of dataclasses."""
    sources = list(sources)
    class_names = {name for source in sources for name in source.parsed}
    fields = [
        option
        for source in sources
        for name, class_options in source.classes.items()
        if name in class_names
        for option in class_options
    ]
    return [*(flag for source in sources for flag in source.flags), *fields]


def all_options(sources: Sequence[ScriptSource]) -> list[Option]:
    """The options of a script's files, whatever else there may be."""
    options: dict[str, Option] = {}
    own_options = (option for source in sources for option in (*source.options, *(source.command or ())))
    for option in (*own_options, *library_options(sources)):
        options.setdefault(option.longest, option)
    return list(options.values())


def _sources(script: Path) -> dict[str, ScriptSource]:
    """A script and what it imports from beside it, by the names of the modules; the script itself comes first.

    Files without a word of options are left out, and nothing more is read behind one that leaves them open.
    """
    sources: dict[str, ScriptSource] = {}
    open_ones = [(script.stem, script)]
    while open_ones and len(sources) < _MOST_FILES:
        name, path = open_ones.pop()
        first = next(iter(sources.values()), None)
        words = (_OF_FIELDS if first.parsed else _OF_OPTIONS) if first else None
        tree = _parsed(path, words) if name not in sources else None
        if tree is None:
            continue
        sources[name] = source = source_of(tree)
        if source.is_dynamic:
            break
        for module in sorted(source.imported):
            place = script.parent.joinpath(*module.split("."))
            open_ones += [(module, file) for file in (place.with_suffix(".py"), place / "__init__.py")]
    return sources


def _parsed(path: Path, words: re.Pattern[bytes] | None) -> ast.Module | None:
    """A file's syntax; None for what is none, or has none of some words where they are given."""
    try:
        is_read = path.is_file() and path.stat().st_size <= _MAX_BYTES
    except OSError:
        return None
    return syntax_of(path, words) if is_read else None


def _flag(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _value_problem(option: Option, written: str, value: str | bool) -> tuple[str, str]:
    name = written.lstrip("-")
    if option.takes_value is False and value is not True:
        return f"takes no value for {written}, and {value} is given", f"{name}: true, or leave it out"
    if option.takes_value and value is True:
        return f"needs a value for {written}", ""
    if value is True or "{" in str(value):  # what stands there is known later
        return "", ""
    convert, words = _CONVERTERS.get(option.kind, (str, ""))
    try:
        converted = convert(str(value))
    except ValueError:
        return f"takes {words} for {written}, not {value}", ""
    if option.choices is not None and converted not in option.choices:
        valid = [str(choice) for choice in option.choices]
        return f"does not know {value} for {written}", f"valid: {', '.join(valid)}"
    return "", ""
