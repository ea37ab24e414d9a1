"""The options that several subcommands share."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.errors import Mistake, UsageError
from modak_ansible.reading.blueprint.forms.mistakes import NOT_KEPT
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.cache import as_given
from modak_ansible.target.core.files import expanded, is_folder, read_text

_TO_UTF8 = "set the terminal to UTF-8, and its locale: export LC_ALL=C.UTF-8"

Blueprint = Annotated[
    str,
    typer.Argument(
        metavar="BLUEPRINT",
        autocompletion=completing.blueprints,
        help="A blueprint's folder, its service.yaml, a package, the name of a shipped blueprint, a request, "
        "or just a script.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- OPTION...]", help="For just a script: the options to start it with."),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=1, metavar="N", help="For just a script: the number of nodes.")
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes-per-node", min=1, metavar="N", help="For just a script: the number of processes per node."
    ),
]
Accelerators = Annotated[
    int | None,
    typer.Option(
        "--accelerators", min=0, metavar="N", help="For just a script: the number of accelerators per node; 0 for none."
    ),
]
InputsFile = Annotated[
    list[Path] | None,
    typer.Option("--inputs", "-i", metavar="<path>", help="A YAML file with values for the inputs, or a target file."),
]
InputValues = Annotated[
    list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="A value for one input; repeatable.")
]
Training = Annotated[
    str | None, typer.Option(help="Which training, or which point of its sweep, if the blueprint has several.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="PORT", min=1, max=65535, help="The port on this machine. Default: a free one."),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        "--target",
        metavar="NAME|FILE",
        autocompletion=completing.targets,
        help="Where to run: a target in modak targets, or a target file; for a request, also a service "
        "template with the target that it names.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Treat a setting that cannot be honoured as an error instead of leaving it out with a note."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object, *, sort_keys: bool = False) -> None:
    typer.echo(json.dumps(value, indent=2, sort_keys=sort_keys))


def group(name: str, about: str, *, no_args_is_help: bool = False) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(
        name=name,
        help=about,
        no_args_is_help=no_args_is_help,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def check_file(option: str, file: Path | None, usual: str) -> None:
    """
    Args:
        usual: a name for such a file.

    Raises:
        UsageError: a folder is where the file is to be.
    """
    if file and is_folder(file):
        raise UsageError(f"{option} {file} is a folder", hint=f"give a file, such as {file}/{usual}")


def check_place(context: typer.Context) -> None:
    """
    Raises:
        UsageError: options of a group stand before a command of it, which would not get them.
    """
    if (command := context.invoked_subcommand) and any(context.params.values()):
        raise UsageError(f"options go after {command}", hint=f"{context.command_path} {command} --help")


def seconds_in(option: str, text: str) -> float:
    """The seconds of an option's value, such as ``90s``, ``20m`` or ``12h``.

    Raises:
        UsageError: it is no duration.
    """
    from modak_ansible.model.quantities import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def check_text(words: list[str] | None) -> None:
    """
    Raises:
        UsageError: one of them is bytes that are no text in the encoding of the locale, which Python keeps as halves
            of letters; or it is UTF-8, and the locale has another encoding, in which it would be another text.
    """
    encoding = sys.getfilesystemencoding()
    for word in filter(lambda text: not text.isascii(), words or ()):
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"{word!r} is not in {encoding.upper()}", hint=_TO_UTF8)
        if encoding != "utf-8" and _is_utf8(word.encode(encoding, "replace")):
            message = f"{word!r} is in UTF-8, and the locale says {encoding.upper()}"
            raise UsageError(message, hint=_TO_UTF8)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return not text.isascii()


def _names_of(parameter: Parameter) -> set[object]:
    """How a command's option is written; typer takes the first name for a default until it makes the command."""
    about = getattr(parameter.annotation, "__metadata__", ())
    names = {name for option in about for name in (option.default, *(option.param_decls or ()))}
    return {f"--{parameter.name.replace('_', '-')}", *names}


def _warn_of_own(asked: PlanOptions, parameters: Iterable[Parameter]) -> None:
    """Says which options behind ``--`` look like the command's own, and are not named in the script."""
    arguments = dict.fromkeys(argument.partition("=")[0] for argument in asked.words or ())
    own = arguments.keys() & {name for parameter in parameters for name in _names_of(parameter)}
    script = read_text(expanded(asked.blueprint)) if own else ""
    for word in arguments if script else ():
        if word in own and word not in script:
            message = f"warning: {word} after -- is passed to {asked.blueprint}; modak's own options go before --"
            typer.echo(message, err=True)


def without_collecting() -> None:
    """Keeps all memory until the command ends, which is soon: looking for what could be freed takes longer."""
    import gc

    gc.disable()


class PlanOptions(NamedTuple):
    """What a command line says of a plan: of what, with which values, and where."""

    blueprint: Blueprint = ""
    words: Words = None
    nodes: Nodes = None
    processes: Processes = None
    accelerators: Accelerators = None
    inputs: InputsFile = None
    value: InputValues = None
    training: Training = None
    on: On = None
    strict: Strict = False

    @property
    def all_inputs(self) -> Inputs:
        """The inputs.

        Raises:
            UsageError: a value is not NAME=VALUE, or no text, there is no such target, or more than one file of inputs.
        """
        from modak_ansible.store.targets import target_file

        check_text(self.value)
        check_text(self.words)
        files = self.inputs or []
        if len(files) > 1:
            hint = "put their values into one file, or give some by --input NAME=VALUE"
            raise UsageError(f"--inputs is given twice: {files[0]} and {files[1]}", hint=hint)
        file = files[0] if files else None
        check_file("--inputs", file, "site.yaml")
        pairs = []
        for text in self.value or []:
            name, separator, value = text.partition("=")
            if not separator or not name:
                raise UsageError(f"--input {text} is not NAME=VALUE", hint="such as --input epochs=4")
            pairs.append((name, value))
        targets, words = target_file(self.on) if self.on is not None else None, tuple(self.words or ())
        return Inputs(file, tuple(pairs), targets, self.strict, words, self.nodes, self.processes, self.accelerators)

    @property
    def restated(self) -> str:
        """What names the same plan again on a command line: the blueprint, and the options that were given."""
        words = [self.blueprint]
        words += ["--inputs", str(self.inputs[0])] if self.inputs else []
        for value in self.value or []:
            words += ["--input", value]
        words += ["--training", self.training] if self.training else []
        words += ["--on", self.on] if self.on else []
        words += ["--strict"] if self.strict else []
        words += ["--nodes", str(self.nodes)] if self.nodes else []
        words += ["--processes-per-node", str(self.processes)] if self.processes else []
        words += ["--accelerators", str(self.accelerators)] if self.accelerators is not None else []
        words += ["--", *self.words] if self.words else []
        return shlex.join(words)


NOTHING_ASKED = PlanOptions()
_KIND = Parameter.POSITIONAL_OR_KEYWORD


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command those of :class:`PlanOptions` in place of its parameter ``asked``, which gets them together."""
    hints = get_type_hints(PlanOptions, include_extras=True)
    # a blueprint that a command takes has to be given
    defaults = {name: PlanOptions._field_defaults[name] for name in names if name != "blueprint"}
    shared_parameters = [
        Parameter(name, _KIND, default=defaults.get(name, Parameter.empty), annotation=hints[name]) for name in names
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = get_type_hints(command, include_extras=True)
        parameters: list[Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            parameters += shared_parameters if name == "asked" else [parameter.replace(annotation=own[name])]
        signature = inspect.Signature(parameters)

        @wraps(command)
        def called(*words: Any, **options: Any) -> None:
            bound = signature.bind(*words, **options)
            bound.apply_defaults()
            arguments = bound.arguments
            asked = PlanOptions(**{name: arguments.pop(name) for name in names})
            _warn_of_own(asked, parameters)
            command(asked=asked, **arguments)

        vars(called)["__signature__"] = signature
        return called

    return decorate


def show_warnings(warnings: Iterable[Mistake]) -> None:
    """Tells people what was read otherwise, and which preferences are not kept; what is piped on stays clean."""
    for warning in warnings:
        typer.echo(f"{'note' if warning.rule == NOT_KEPT else 'warning'}: {as_given(str(warning))}", err=True)


def as_data(mistakes: Iterable[Mistake]) -> list[dict[str, object]]:
    return [
        {
            "path": as_given(mistake.location.path), "line": mistake.location.line, "column": mistake.location.column,
            "rule": mistake.rule, "message": as_given(mistake.message), "hint": mistake.hint,
        }
        for mistake in mistakes
    ]  # fmt: skip
