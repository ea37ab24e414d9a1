"""modak init: writes the blueprint of a script."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.commands.options import (
    Accelerators,
    Json,
    Nodes,
    Processes,
    Words,
    as_data,
    check_text,
    print_json,
    show_warnings,
)
from modak_ansible.errors import INVALID_BLUEPRINT, UsageError, nearest
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.testbeds import running
from modak_ansible.target.core.files import expanded, write_whole

if TYPE_CHECKING:
    from modak_ansible.model.target import Target
    from modak_ansible.reading.drafts.draft import Draft

EXAMPLES = "Example: modak init train.py --on mycluster; and to deploy it without a blueprint: modak deploy train.py"


def command(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", autocompletion=completing.blueprints, help="A Python script.")
    ],
    words: Words = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="NAME|FILE", autocompletion=completing.targets, help="Where to run it: see modak targets."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="USER@HOST",
            help="A cluster that has no name yet: it is surveyed, and saved under its host's name.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="The blueprint's folder: the script's, or one above it."),
    ] = None,
    framework: Annotated[
        str, typer.Option(metavar="NAME", help="Overrides what its imports say: pytorch, python ...")
    ] = "",
    walltime: Annotated[str, typer.Option(metavar="TIME", help="The longest it may run, such as 02:00:00.")] = "",
    nodes: Nodes = None,
    processes: Processes = None,
    accelerators: Accelerators = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, and accept what would be proposed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing blueprint that differs.")] = False,
    as_json: Json = False,
) -> None:
    """Write a blueprint for a script. Framework, packages, files, data and outputs are read from its source.

    The script is not run. What its source does not tell is asked. Options for the script follow --.
    """
    from modak_ansible.reading.drafts import accelerators as accelerating
    from modak_ansible.reading.drafts.draft import draft_of
    from modak_ansible.reading.drafts.text import text_of
    from modak_ansible.reading.drafts.words import given_as
    from modak_ansible.reading.requests.checks import FRAMEWORKS

    if on and target:
        raise UsageError("--on and --target both say where it runs", hint="leave one of them out")
    if framework and framework not in ("any", *FRAMEWORKS):  # before a blueprint says it
        raise UsageError(f"--framework {framework}: there is no such framework", hint=nearest(framework, FRAMEWORKS))
    check_text(words)
    path = expanded(script)
    folder = output or path.parent
    draft = draft_of(path, words or (), folder=folder, framework=framework)
    answers = _Answers(path, asks=not yes and not as_json and _can_ask(), takes=yes)
    if framework == "" and len(draft.frameworks) > 1:
        chosen = answers.choice("Which framework is it trained with", draft.frameworks, "--framework NAME")
        draft = draft_of(path, words or (), folder=folder, framework=chosen)
    target_name = _surveyed(target, is_quiet=as_json) if target else on
    draft.target = (
        answers.choice("Where does it run", _likely_targets(), "--on NAME") if target_name is None else target_name
    )
    chosen_target = _resolve_target(draft)
    draft.walltime = walltime or answers.walltime("How long may it run, at most", draft.walltime, "--walltime TIME")
    if problem := _walltime_problem(draft.walltime):  # before a blueprint says it
        raise UsageError(f"--walltime: {problem}")
    extra_words = [
        word
        for name in draft.missing
        for word in given_as(name, answers.text(f"{path.name} needs {name}", "", f"-- {' '.join(given_as(name))}"))
    ]
    for name in draft.unsaid if answers.asks else ():
        where = answers.text(f"Where is the data for --{name}? A path here, or nothing if it needs none", "", "")
        extra_words += [f"--{name}", where] if where.strip() else []
    draft.nodes, draft.processes_per_node = nodes or 1, processes or 1
    if accelerators is None and (proposed := accelerating.proposed(draft, chosen_target)):
        question = f"On how many accelerators of each node is it trained ({draft.use})"
        accelerators = answers.number(question, proposed, accelerating.OPTION)
    answers.check()
    if extra_words:
        redrafted = draft_of(path, [*(words or ()), *extra_words], folder=folder, framework=draft.framework)
        fields = ("target", "target_type", "target_properties", "walltime", "nodes", "processes_per_node")
        draft = replace(redrafted, **{name: getattr(draft, name) for name in fields})
    accelerating.ask_for(draft, chosen_target, accelerators)
    outcome = _write(text_of(draft), folder, force=force)
    _report(draft, folder, outcome, as_json=as_json)


def _can_ask() -> bool:
    return sys.stdin.isatty()


class _Answers:
    """Asks people, or takes what is proposed, or notes what nobody says."""

    def __init__(self, script: Path, *, asks: bool, takes: bool) -> None:
        self._script = script
        self.asks = asks
        self._takes = takes
        self._missing: list[str] = []

    def text(self, question: str, proposed: str, option: str) -> str:
        return self._answer(question, proposed, option, lambda answer: "" if answer or not option else "it needs one")

    def walltime(self, question: str, proposed: str, option: str) -> str:
        return self._answer(question, proposed, option, _walltime_problem)

    def number(self, question: str, proposed: int, option: str) -> int:
        def problem_of(answer: str) -> str:
            return "" if answer.isascii() and answer.isdigit() else f"{answer} is not a whole number"

        return int(self._answer(question, str(proposed), option, problem_of))

    def choice(self, question: str, proposed: list[str], option: str) -> str:
        """One of some names, of which the first is proposed."""

        def problem_of(answer: str) -> str:
            return "" if answer in proposed else f"{answer} is not one of them"

        return self._answer(f"{question} ({', '.join(proposed)})", proposed[0], option, problem_of)

    def _answer(self, question: str, proposed: str, option: str, problem_of: Callable[[str], str]) -> str:
        """
        Args:
            problem_of: tells what is wrong with an answer; empty where it is good.
        """
        if self.asks:
            while True:
                answer = str(typer.prompt(question, default=proposed, err=True)).strip()
                if not (problem := problem_of(answer)):
                    return answer
                typer.echo(problem, err=True)
        if not (self._takes and proposed):
            self._missing.append(f"{option}, for: {question}" + (f"; {proposed} is proposed" if proposed else ""))
        return proposed

    def check(self) -> None:
        """
        Raises:
            UsageError: something is not known.
        """
        if self._missing:
            is_all_proposed = all(entry.endswith("is proposed") for entry in self._missing)
            suggestions = ["--yes accepts what is proposed"] if not self._takes and is_all_proposed else []
            raise UsageError(
                f"{self._script} does not say everything that a blueprint needs, and there is no terminal to ask at",
                hint="\n  ".join([*self._missing, *suggestions]),
            )


def _walltime_problem(walltime: str) -> str:
    from modak_ansible.model.quantities import parse_walltime

    try:
        parse_walltime(walltime)
    except ValueError as error:
        return str(error)
    return ""


def _likely_targets() -> list[str]:
    """The names of all targets, the likeliest first: the user's own, the testbed where one runs, this machine."""
    from modak_ansible.store.targets import known_targets, own_targets

    first = [*own_targets(), *(["testbed"] if running() else []), "local"]
    return list(dict.fromkeys([*first, *known_targets()]))


def _surveyed(host: str, *, is_quiet: bool) -> str:
    """Looks at a cluster and keeps its target file; the name that it has then."""
    from modak_ansible.commands.deploy.progress import look
    from modak_ansible.discovery.aim import aim_at, target_of_file
    from modak_ansible.discovery.description import describe
    from modak_ansible.discovery.surveying import SurveyRequest, survey_target
    from modak_ansible.discovery.target_files import TargetFiles
    from modak_ansible.store.targets import known_targets, new_target, own_targets

    address = host.rpartition("@")[2]
    name = address if re.fullmatch(r"[\d.]+", address) else address.partition(".")[0]
    targets = known_targets() if host == name else own_targets()
    if name in targets:
        known_address = target_of_file(targets[name]).address
        if "." in host and known_address != address:
            hint = f"--on {name} uses that one; modak discover {host} --save NAME saves this one under another name"
            raise UsageError(f"the target {name} is {known_address}, not {address}", hint=hint)
        typer.echo(f"{name} is a target already: {targets[name]}", err=True)
        return name
    files = TargetFiles(str(new_target(name)), name=name)
    files.check()
    aim = aim_at(host, Inputs())
    with look(f"looking at {aim.target.address}", quiet=is_quiet):
        survey = survey_target(aim, SurveyRequest())
    (path,) = files.write(describe(aim, survey))
    typer.echo(f"wrote {path}, which --on {name} takes", err=True)
    return name


def _resolve_target(draft: Draft) -> Target:
    """Gives the target's node its type; the target.

    Raises:
        UsageError: there is no such target.
        InvalidBlueprint: its file has mistakes.
    """
    from modak_ansible.discovery.aim import target_of_file
    from modak_ansible.reading.blueprint.target_words import needed_properties, type_of
    from modak_ansible.store.targets import known_targets, target_file

    file = target_file(draft.target)
    if draft.target not in known_targets():
        draft.target = str(file.absolute())
    target = target_of_file(file)
    draft.target_type, draft.target_properties = type_of(target), needed_properties(target)
    return target


def _write(text: str, folder: Path, *, force: bool) -> str:
    """Writes the blueprint; what was done, in a word.

    Raises:
        UsageError: another one is there.
    """
    import difflib

    from modak_ansible.reading.blueprint.reader import SERVICE_FILE

    path = folder / SERVICE_FILE
    before = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
    if before == text:
        return "there"
    if before is not None and not force:
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), str(path), "now", lineterm="", n=0)
        changes = "\n  ".join(["--force overwrites it; what would change:", *lines])
        raise UsageError(f"{path} already exists, with other contents", hint=changes)
    write_whole(path, text)
    path.chmod(0o644)
    return "written" if before is None else "written over"


def _report(draft: Draft, folder: Path, outcome: str, *, as_json: bool) -> None:
    from modak_ansible.commands.tables import print_table
    from modak_ansible.model.quantities import counted
    from modak_ansible.planning.service import check_blueprint
    from modak_ansible.reading.blueprint.reader import SERVICE_FILE

    path = folder / SERVICE_FILE
    mistakes, warnings = Mistakes(), Mistakes()
    check_blueprint(path, Inputs(), mistakes, warnings)
    if as_json:
        facts: dict[str, Any] = {
            "file": str(path), "state": outcome, "framework": draft.framework, "target": draft.target,
            "found": [list(pair) for pair in draft.findings], "notes": draft.notes,
            "mistakes": as_data(mistakes), "warnings": as_data(warnings),
        }  # fmt: skip
        print_json(facts)
    else:
        print_table(("", ""), draft.findings, wraps={1})
        for note in draft.notes:
            typer.echo(f"note: {note}", err=True)
        show_warnings(warnings)
        for mistake in mistakes:
            typer.echo(str(mistake))
        state = {"there": "already exists, with the same contents", "written": "is written"}.get(outcome, outcome)
        count = f", and has {counted(len(mistakes), 'mistake')}" if mistakes else ""
        typer.echo(f"{path} {state}{count}")
        if not mistakes:
            typer.echo(f"next: modak deploy {_shown(folder)}")
    if mistakes:
        raise typer.Exit(INVALID_BLUEPRINT)


def _shown(folder: Path) -> str:
    import shlex

    text = str(folder)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
