"""The modak command itself: its subcommands, and what a user sees of an error."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, TextIO

# Looking for plugins of pydantic reads the metadata of every installed package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer

from modak_ansible.errors import FAILED, INTERRUPTED, USAGE, ModakError, harmless

# typer carries click in itself and gives only some of its names
_UsageError: type[Any] = typer.BadParameter.__mro__[1]
_ClickError: type[Any] = typer.BadParameter.__mro__[2]

# In the order of the help; each is a module of its own, in the folder of what it acts on, but for those of jobs.acts.
_COMMANDS = {
    "init": "plan", "discover": "admin", "login": "admin", "logout": "admin", "check": "admin", "validate": "plan",
    "plan": "plan", "diff": "plan", "deploy": "deploy", "tune": "plan", "trace": "plan", "status": "status",
    "logs": "jobs", "top": "jobs", "shell": "jobs", "notebook": "jobs", "results": "jobs", "compare": "compare",
    "export": "compare", "tensorboard": "compare", "resume": "jobs", "cancel": "jobs.acts", "hold": "jobs.acts",
    "release": "jobs.acts", "requeue": "jobs.acts", "undeploy": "jobs", "gc": "admin", "package": "plan",
    "image": "catalogue", "schema": "plan",
}  # fmt: skip
_GROUPS = {"targets": "admin", "catalogue": "catalogue", "bench": "bench", "model": "bench", "testbed": "admin"}


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The command line: with the one subcommand that its words begin with, or with all of them.

    Reading them all takes longer than most of what they are asked for.
    """
    app = typer.Typer(
        name="modak",
        help="Plan AI trainings with measured models and deploy them as optimised containers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    is_one = bool(words) and words[0] in (*_COMMANDS, *_GROUPS)
    for name in [words[0]] if is_one else (*_COMMANDS, *_GROUPS):
        folder, _, several = (_COMMANDS.get(name) or _GROUPS[name]).partition(".")
        module = importlib.import_module(f"modak_ansible.commands.{folder}.{several or name}")
        if name in _GROUPS:
            app.add_typer(module.app)
        elif several:
            app.command(name, epilog=module.EXAMPLES.format(name))(getattr(module, name))
        else:
            app.command(name, epilog=module.EXAMPLES)(module.command)
    return app


def _root(
    show_version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if show_version:
        from importlib.metadata import version

        typer.echo(f"modak {version('modak-ansible')}")
        raise typer.Exit


def run() -> None:
    """Runs the command line; whatever goes wrong ends in one clear message and an exit code."""
    warnings.showwarning = _warn
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # whoever started the command has closed it
            setattr(sys, name, _nowhere())
        elif isinstance(stream, TextIOWrapper):  # on a terminal that is not UTF-8 a sign is lost, and not the command
            stream.reconfigure(errors="replace")
    sys.exit(_run())


def _run() -> int:
    words = sys.argv[1:]
    if words[:1] == ["help"]:  # as git has it: modak help deploy
        words = [*words[1:], "--help"]
    try:
        code = application(words)(words, standalone_mode=False)
    except ModakError as error:
        return _failed(str(error), error.exit_code)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return USAGE
        command = error.ctx.command_path if error.ctx else "modak"
        message = error.format_message().replace("Value error, ", "")  # which pydantic puts before
        return _failed(f"{message}\n  see {command} --help", USAGE)
    except _ClickError as error:
        return _failed(error.format_message(), FAILED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stdout = _nowhere()
        return FAILED
    except OSError as error:
        if error.errno is None:  # a library's own, in words
            return _failed(str(error), FAILED)
        from modak_ansible.target.core.files import NO_ROOM, mend_of

        hint = f"\n  {mend_of(error)}" if error.errno in NO_ROOM else ""
        return _failed(f"{error.filename or 'the current folder or the output'}: {error.strerror}{hint}", FAILED)
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback, and never loses it either
        message = f"modak itself failed: {type(error).__name__}: {error}"
        return _failed(f"{message}\n  please report it with {_keep_traceback()}", FAILED)
    if code == INTERRUPTED:  # of which typer makes this code, without a word
        print("interrupted", file=sys.stderr)  # noqa: T201
    return code if isinstance(code, int) else 0


def _nowhere() -> TextIO:
    """For what nobody reads."""
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open until the command ends


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Shows a warning of ours as people read it, and none of the libraries'."""
    if type(message).__module__.startswith("modak_ansible."):
        print(f"warning: {harmless(str(message))}", file=sys.stderr)  # noqa: T201


def _failed(message: str, code: int) -> int:
    """Says what went wrong; who asked for JSON has an object of one line, as where each line is one."""
    from modak_ansible.store.cache import as_given

    message = as_given(message)
    print(f"error: {harmless(message)}", file=sys.stderr)  # noqa: T201
    own_words = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv  # what is behind it is a script's
    if "--json" in own_words:
        with suppress(OSError):  # there may be no room for it, of which this tells
            print(json.dumps({"error": message, "exit_code": code}), flush=True)  # noqa: T201
    return code


def _keep_traceback() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="modak-error-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return file.name
