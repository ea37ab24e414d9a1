"""A script in place of a blueprint: drafted, and read like any other."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.errors import Location, UsageError
from modak_ansible.model.quantities import counted
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import SERVICE_FILE, Blueprint, read_template
from modak_ansible.reading.drafts import accelerators
from modak_ansible.reading.drafts.draft import draft_of
from modak_ansible.reading.drafts.text import text_of
from modak_ansible.reading.drafts.words import given_as
from modak_ansible.store.targets import known_targets

RULE = "drafted"


def read_script(path: Path, inputs: Inputs, mistakes: Mistakes) -> Blueprint | None:
    """The blueprint of a script, which is in no file.

    Raises:
        UsageError: nobody says where it is to run, or an option is missing that it does not start without.
        BrokenScript: it is no Python.
    """
    draft = draft_of(path, inputs.words)
    draft.nodes, draft.processes_per_node = inputs.nodes or 1, inputs.processes_per_node or 1
    if inputs.targets is None and inputs.file is None:
        hint = f"--on {', --on '.join(known_targets())}; modak discover USER@HOST --save NAME makes another known"
        raise UsageError(f"{path} does not say where it is to run", hint=hint)
    if draft.missing:
        example = " ".join(word for name in draft.missing for word in given_as(name))
        on_target = f" --on {inputs.targets.stem}" if inputs.targets else ""
        hint = f"give it after --: {path}{on_target} -- {example}"
        raise UsageError(f"{path} does not start without {', '.join(draft.missing)}", hint=hint)
    place = Location(str(path))
    before = text_of(draft)
    blueprint = _read(before, place, inputs, mistakes)
    if blueprint and blueprint.targets and not mistakes:  # the target says whether there are accelerators
        (target,) = blueprint.targets.values()
        count = inputs.accelerators
        if count is None and (proposed := accelerators.proposed(draft, target)):
            count = proposed
            words = f"{counted(count, 'accelerator')} of each node {'is' if count == 1 else 'are'} asked for"
            draft.notes.append(f"{words}, as {draft.use}; --accelerators 0 asks for none")
        accelerators.ask_for(draft, target, count)
        text = text_of(draft)
        blueprint = blueprint if text == before else _read(text, place, inputs, mistakes)
    if blueprint:
        for note in draft.notes:
            blueprint.warnings.add(place, RULE, note)
        if is_used_in(path.parent / SERVICE_FILE, path):
            words = f"{SERVICE_FILE} beside it trains with it, too, and is not looked at: deploy its folder for that"
            blueprint.warnings.add(place, RULE, words)
    return blueprint


def _read(text: str, place: Location, inputs: Inputs, mistakes: Mistakes) -> Blueprint | None:
    """What is drafted, as if it stood in the script's own folder."""
    tree = parse_yaml(text, place.path, mistakes)
    root = tree.at(place) if tree else None  # whose lines nobody can look up
    blueprint = read_template(Path(place.path), root, inputs, mistakes) if root else None
    if blueprint:
        blueprint.text = text
    return blueprint


def is_used_in(blueprint: Path, script: Path) -> bool:
    """Whether a blueprint names a script that lies in its folder."""
    try:
        return f"script: {script.name}\n" in blueprint.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
