"""Whether a training's script takes the arguments and words that a blueprint gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path

from modak_ansible.errors import NEAR
from modak_ansible.model.application import Application
from modak_ansible.model.request import Request
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.text_rules import option_problem
from modak_ansible.reading.blueprint.reader import Blueprint
from modak_ansible.reading.blueprint.script.hydra import Hydra, hydra_of_script
from modak_ansible.reading.blueprint.script.options import Options, options_of
from modak_ansible.reading.blueprint.script.paths import path_slips
from modak_ansible.reading.blueprint.script.starting import start_problem


def check_arguments(blueprint: Blueprint, mistakes: Mistakes, warnings: Mistakes) -> None:
    """Notes the arguments that a training's script would end at; where its source leaves a doubt, as a warning."""
    options_by_script: dict[Path, Options | None] = {}
    problem_of, hydra_of = cache(start_problem), cache(hydra_of_script)  # trainings by the thousand start one alike
    for request in blueprint.requests:
        application = request.application
        if not application.script or application.framework == "any":  # a workload names the script of each framework
            continue
        script = blueprint.folder / application.folder / application.script
        if script not in options_by_script:
            options_by_script[script] = options_of(script, _switches(application))
        options, places = options_by_script[script], blueprint.places.get(request.training, {})
        if failure := problem_of(script, application.words, has_more=bool(application.arguments)):
            place = places.get("words" if failure.is_of_words else "script") or blueprint.place(
                request.training, "script"
            )
            mistakes.add(place, "script", f"{application.script} {failure.problem}", failure.hint)
        _check_paths(script, request, blueprint, warnings)
        if hydra := hydra_of(script, application.words):
            _check_overrides(hydra, request, blueprint, mistakes)
            continue
        if options is None:
            continue
        _check_options(options, request, blueprint, mistakes if options.are_all else warnings)
        if options.are_all and not application.words and application.workload is None:
            _check_missing(options, request, blueprint, mistakes)


def _check_options(options: Options, request: Request, blueprint: Blueprint, notes: Mistakes) -> None:
    """Notes what a script's options have against a training's words and arguments."""
    application, places = request.application, blueprint.places.get(request.training, {})
    certainty = "" if options.are_all else ", as far as its source shows"
    default = blueprint.place(request.training, "arguments")
    values_by_name: dict[str, list[str | bool]] = {}
    for name, word in _options_in(application.words):
        takes_it = word and all(option.takes_value for option in options.meant(name))
        problem, hint = options.problem(name, word) if takes_it else options.unknown(name)
        if problem:
            notes.add(places.get("words") or default, "argument", f"{application.script} {problem}{certainty}", hint)
    for name, value in application.arguments:
        problem, hint = options.problem(name, value)
        path = f"sweep.{name}" if f"sweep.{name}" in places and "no option" not in problem else f"arguments.{name}"
        if problem:
            notes.add(places.get(path) or default, "argument", f"{application.script} {problem}{certainty}", hint)
        elif value is not False:
            values_by_name.setdefault(name, []).append(value)
    for name, values in values_by_name.items():
        problem, hint = options.repeated(name, values)
        if problem:
            place = places.get(f"arguments.{name}") or default
            notes.add(place, "argument", f"{application.script} {problem}{certainty}", hint)


def _check_missing(options: Options, request: Request, blueprint: Blueprint, mistakes: Mistakes) -> None:
    """Notes what a training's script does not start without."""
    application, place = request.application, blueprint.place(request.training, "arguments")
    for name in options.missing(name for name, value in application.arguments if value is not False):
        message = f"{application.script} does not start without {name}"
        if name.startswith("-"):
            mistakes.add(place, "argument", message, f"{name.lstrip('-')}: its value")
        else:
            mistakes.add(place, "argument", message, f"words: [ {name.upper()} ]")


def _check_paths(script: Path, request: Request, blueprint: Blueprint, warnings: Mistakes) -> None:
    """Notes paths that look like slips; what a script makes of them nobody knows."""
    application, places = request.application, blueprint.places.get(request.training, {})
    for slip in path_slips(script.parent, application.arguments, application.words, application.outputs):
        place = places.get(f"arguments.{slip.option}") or places.get("words")
        message = f"{slip.path}, which {application.script} is given, does not exist"
        warnings.add(
            place or blueprint.place(request.training, "arguments"), "argument", message, f"{NEAR}{slip.meant}?"
        )


def _check_overrides(hydra: Hydra, request: Request, blueprint: Blueprint, mistakes: Mistakes) -> None:
    """Notes what hydra does not know, or misses, of a training's words."""
    application, places = request.application, blueprint.places.get(request.training, {})
    for word in application.words:
        problem, hint = hydra.problem(word)
        place = places.get(f"arguments.{word.partition('=')[0]}") or places.get("words")
        if problem:
            place = place or blueprint.place(request.training, "arguments")
            mistakes.add(place, "argument", f"{application.script} {problem}", hint)
    for name in hydra.missing:
        message = f"{application.script} does not start without {name}"
        mistakes.add(blueprint.place(request.training, "arguments"), "argument", message, f'words: [ "{name}=VALUE" ]')


def _options_in(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options among the words of a command line, up to ``--``, by their names; with what may be the value of each,
    or nothing."""
    words = [*takewhile(lambda word: word != "--", words), ""]
    for word, following in pairwise(words):
        written, is_given, value = word.partition("=")
        name = written.lstrip("-")
        is_option = word.startswith("--") or (len(word) == 2 and word[0] == "-" and name.isalpha())
        if is_option and not option_problem(name):
            yield name, value if is_given or following.startswith("-") else following


def _switches(application: Application) -> set[str] | None:
    """The switches that workload.yaml names, where the script is one of its own."""
    scripts = application.workload.scripts if application.workload else ()
    matching = [script for script in scripts if script.script == application.script]
    return {name for script in matching for name in script.switches} if matching else None
