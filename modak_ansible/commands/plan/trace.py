"""modak trace: what a training needs and computes, by its script, which runs in a short job without computing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import Json, PlanOptions, show_warnings, takes
from modak_ansible.errors import JobFailed, ModakError
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from modak_ansible.model.measured.need import Need

_NAMED = 8  # operators
EXAMPLES = "Example: modak trace mnist-pytorch-slurm"


@takes("blueprint", "words", "inputs", "value", "training", "on")
def command(
    asked: PlanOptions,
    as_json: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show where it would run, and change nothing.")] = False,
) -> None:
    """Find out what memory a training of PyTorch needs and what a step of it computes, without computing it.

    A short job of one process runs the script where it would train; plans that follow know whether it fits, and predict
    how long it trains where nobody said what it computes.
    """
    from modak_ansible.commands.plan.tune import deployed
    from modak_ansible.planning.service import plan_blueprint
    from modak_ansible.planning.tracing import Tracing, need_from, note_need
    from modak_ansible.reading.blueprint.script.options import default_epochs
    from modak_ansible.store.deployment import DeploymentStore

    change = Tracing()
    planned = plan_blueprint(find_blueprint(asked.blueprint), asked.given, asked.training, change=change)
    show_warnings(planned.warnings)
    if planned.plan.application.framework != "pytorch":
        raise ModakError(
            f"scripts of PyTorch can be traced, and {planned.plan.training} is one of "
            f"{planned.plan.application.framework or 'no framework'}",
            hint="run it once: its results say how much memory it took",
        )
    if dry_run:
        about = {
            "training": planned.plan.training,
            "target": planned.plan.target.name,
            "image": planned.plan.image.entry,
        }
        typer.echo(json.dumps(about) if as_json else "{training} on {target}, in {image}: one process".format(**about))
        return
    folder = planned.save()
    cure = f"what it wrote is in {folder / 'results'}; run it once, and its results say how much memory it took"
    try:
        deployed(planned.plan, folder, is_quiet=as_json)
    except JobFailed as error:  # to run it again would come to the same
        raise JobFailed(f"the script could not be traced: {error.message}", hint=cure) from error
    need = need_from(DeploymentStore(folder).results, change.key, planned.plan.training)
    if need is None:
        raise ModakError(
            "the script could not be traced: it looks at numbers, or at tensors whose size depends on them", hint=cure
        )
    application = planned.plan.application
    script = planned.blueprint.parent / application.folder / application.script
    need = need.model_copy(update={"epochs": default_epochs(script)})
    note_need(planned.state, need)
    typer.echo(need.model_dump_json(indent=2) if as_json else _text(need))


def _text(need: Need) -> str:
    from modak_ansible.model.measured.need import format_peak, peak_of
    from modak_ansible.model.quantities import format_size

    parts = ("parameters", "gradients", "state", "base")
    listed = ", ".join(f"{name} {format_size(getattr(need, name))}" for name in parts)
    return (
        f"{need.training} needs {format_peak(peak_of(need))} in one process, as it is: {listed}, "
        "and the rest for a batch.\n"
        f"{_on_accelerator(need)}{_as_ranks(need)}{_length(need)}{_computed(need)}\n"
        "Plans that follow know it."
    )


def _on_accelerator(need: Need) -> str:
    from modak_ansible.model.measured.need import format_peak, peak_of
    from modak_ansible.model.quantities import format_size

    if need.accelerator is None:
        return ""
    base = format_size(need.accelerator.base)
    return f"Of an accelerator it takes {format_peak(peak_of(need.on_accelerator()))}, {base} of it for the driver.\n"


def _as_ranks(need: Need) -> str:
    """What each of several processes needs, in the ways in which the script was traced as one of them."""
    from modak_ansible.model.measured.need import format_peak, peak_of

    ways = dict.fromkeys((each.ranks, each.strategy) for each in need.traced)
    return "".join(
        f"As one of {ranks} processes, {strategy}: {format_peak(peak_of(need, ranks, strategy))}.\n"
        for ranks, strategy in ways
    )


def _length(need: Need) -> str:
    """How long the script trains by itself, as far as it is known."""
    from modak_ansible.model.quantities import counted

    if not need.samples_of_epoch:
        return ""
    epochs = f"{counted(need.epochs, 'epoch')} of" if need.epochs else "epochs of"
    beside = f", and evaluates {need.evaluated:,} beside each" if need.evaluated else ""
    return f"By itself the script trains {epochs} {need.samples_of_epoch:,} samples{beside}.\n"


def _computed(need: Need) -> str:
    """What a step computes, and which operators most of it."""
    from modak_ansible.model.quantities import format_size

    if need.operators is None:
        return "What a step computes is not known: none was made of whole batches alone."
    flop, moved, count = (
        sum(getattr(operator, name) for operator in need.operators) for name in ("flop", "bytes", "count")
    )
    lines = [
        f"A step computes {flop / 1e9:.4g} GFLOP and moves {format_size(moved)} in {count:,} operators, most of it in"
    ]
    for operator in need.operators[:_NAMED]:
        shapes = ", ".join("x".join(map(str, shape)) for shape in operator.shapes)
        about = f"{format_size(operator.bytes):>10}  {operator.count} {operator.name} ({shapes})"
        lines.append(f"  {operator.flop / 1e9:10.4g} GFLOP {about}")
    return "\n".join(lines)
