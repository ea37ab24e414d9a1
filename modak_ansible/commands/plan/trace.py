"""modak trace: what a training needs and how long its steps take, by its script, in a short job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import Json, PlanOptions, show_warnings, takes
from modak_ansible.errors import JOB_FAILED, ModakError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from modak_ansible.model.measured.need import Need
    from modak_ansible.model.measured.timed_steps import TimedSteps
    from modak_ansible.model.plan import Plan
    from modak_ansible.model.request import Request
    from modak_ansible.planning.service import Planned

_NAMED = 8  # operators
EXAMPLES = "Examples: modak trace mnist-pytorch-slurm, modak trace train.py --on cluster --steps"


@takes("blueprint", "words", "inputs", "value", "training", "on")
def command(
    asked: PlanOptions,
    steps: Annotated[
        bool, typer.Option("--steps", help="Make and time some real steps instead: more certain than any trace.")
    ] = False,
    as_json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show where it would run, without changing anything.")
    ] = False,
) -> None:
    """Find out what a training needs and how long its steps take. Runs a short one-process job where it would train.

    A PyTorch script runs without computing anything: later plans know how much memory it needs and what a step
    computes, and therefore how long it trains. A script that cannot be traced, such as a Keras script, makes a few
    hundred steps, for four minutes at most, and plans for that target use their times.
    """
    from modak_ansible.planning.timing import timing_alone
    from modak_ansible.planning.tracing import trace_alone

    planned, key = _planned(asked, timing_alone if steps else trace_alone)
    is_timed = steps or planned.plan.application.framework != "pytorch"
    if is_timed:
        _check_counted(planned.plan)
        planned, key = (planned, key) if steps else _planned(asked, timing_alone)
    show_warnings(planned.warnings)
    if dry_run:
        facts = {
            "training": planned.plan.training,
            "target": planned.plan.target.name,
            "image": planned.plan.image.entry,
        }
        typer.echo(json.dumps(facts) if as_json else "{training} on {target}, in {image}: one process".format(**facts))
        return
    result: Need | TimedSteps | None = None if is_timed else _traced(planned, key, is_quiet=as_json)
    if result is None:
        planned, key = (planned, key) if is_timed else _planned(asked, timing_alone)
        result = _timed(planned, key, is_quiet=as_json)
    typer.echo(result.model_dump_json(indent=2) if as_json else _text(result))


def _planned(asked: PlanOptions, alone: Callable[[Request], Request]) -> tuple[Planned, str]:
    """The plan of the short job, and the key of the training that it is about."""
    from modak_ansible.planning.measured import Measured
    from modak_ansible.planning.service import plan_blueprint
    from modak_ansible.planning.tracing import Tracing, trace_alone

    change = Tracing(alone)
    # What a trace finds does not change its own job: whoever asks again needs none.
    measured = Measured() if alone is trace_alone else None
    path = find_blueprint(asked.blueprint)
    return plan_blueprint(path, asked.all_inputs, asked.training, change, measured), change.key


def _check_counted(plan: Plan) -> None:
    """
    Raises:
        ModakError: nothing counts the steps of such a script.
    """
    from modak_ansible.model.measured.timed_steps import COUNTED

    application = plan.application
    if not application.is_training or application.framework not in COUNTED:
        what = f"a script of {application.framework}" if application.is_training else "a program"
        raise ModakError(
            f"{plan.training} cannot be traced or timed: nothing counts the steps of {what}",
            hint="run it once: its results say how long it took, and how much memory",
        )


def _traced(planned: Planned, key: str, *, is_quiet: bool) -> Need | None:
    """What the script's trace says; None where it cannot be traced."""
    from modak_ansible.commands.plan.tune import deployed
    from modak_ansible.planning.tracing import need_from, note_need

    folder = planned.save()
    script = planned.plan.application.script
    typer.echo(
        f"{script} computes nothing in a trace: numbers that it prints, such as a loss, are made up", err=is_quiet
    )
    try:
        deployed(planned.plan, folder, is_quiet=is_quiet)
    except ModakError as error:
        if error.exit_code != JOB_FAILED:
            raise
        why = _last_words(error.message)  # to run it again would come to the same
    else:
        why = "it looks at numbers, or at tensors whose size depends on them"
    need = need_from(DeploymentStore(folder).results, key, planned.plan.training)
    if need is None:
        cure = f"some of its steps are timed now; what it wrote is in {folder / 'results'}"
        typer.echo(f"warning: the script could not be traced: {why}\n  {cure}", err=True)
        return None
    need = need.model_copy(update={"epochs": _default_epochs(planned)})
    note_need(planned.state, need)
    return need


def _last_words(message: str) -> str:
    """What the script ended with, of what is told of its end: the last line that it wrote, where it wrote any."""
    lines = message.splitlines()
    wrote = [line.strip() for line in lines if line.strip().startswith("| ")]
    return wrote[-1].removeprefix("| ").strip() if wrote else lines[0]


def _timed(planned: Planned, key: str, *, is_quiet: bool) -> TimedSteps:
    """What some steps took that were made on the target.

    Raises:
        ModakError: there were none.
    """
    from modak_ansible.commands.plan.tune import deployed
    from modak_ansible.planning.timing import SECONDS, known_steps, note_steps, timed_from
    from modak_ansible.stages.jobs.applied import report_of
    from modak_ansible.stages.jobs.record import job_record

    folder = planned.save()
    deployed(planned.plan, folder, is_quiet=is_quiet)
    store = DeploymentStore(folder)
    job = store.record_now().get("job")
    record = job_record(planned.plan, job, store.results) if job else None
    timed = timed_from(record, report_of(store.results), key, planned.plan) if record else None
    if timed is None:
        raise ModakError(
            f"no two steps of it were counted in {SECONDS} s",
            hint=f"what it wrote is in {store.results}; run it once, and its results say how long it took",
        )
    before = known_steps(planned.state).get((timed.key, timed.address))
    if timed.epochs is None:  # they were said, be it by what was timed before
        timed = timed.model_copy(update={"epochs": _default_epochs(planned) or (before and before.epochs)})
    note_steps(planned.state, timed)
    return timed


def _default_epochs(planned: Planned) -> int | None:
    """How many the script trains where nobody says another number."""
    from modak_ansible.reading.blueprint.script.options import default_epochs

    application = planned.plan.application
    return default_epochs(planned.blueprint.parent / application.folder / application.script)


def _text(result: Need | TimedSteps) -> str:
    from modak_ansible.model.measured.timed_steps import TimedSteps

    return _text_of_steps(result) if isinstance(result, TimedSteps) else _text_of_trace(result)


def _text_of_steps(timed: TimedSteps) -> str:
    from modak_ansible.model.measured.finished_run import THRESHOLD
    from modak_ansible.model.quantities import counted, format_size

    step = f"{timed.seconds * 1e3:.4g} ms on average (10 to 90 %: {timed.low * 1e3:.4g} to {timed.high * 1e3:.4g})"
    of = f" of {counted(timed.batch_size, 'sample')}" if timed.batch_size else ""
    busy = timed.foreign_cores or 0.0
    lines = [
        f"A step of {timed.training}{of} takes {step} on {timed.target}, by {counted(timed.count, 'step')}; "
        f"the first one ended {timed.start:.3g} s after the start."
    ]
    lines += [f"Others kept {busy:.1f} cores busy meanwhile."] if busy > THRESHOLD else []
    lines += [f"The process used at most {format_size(timed.memory)}."] if timed.memory else []
    return "\n".join([*lines, f"Later plans for {timed.target} use this."])


def _text_of_trace(need: Need) -> str:
    from modak_ansible.model.measured.need import format_peak, peak_of
    from modak_ansible.model.quantities import format_size

    parts = ("parameters", "gradients", "state", "base")
    sizes = ", ".join(f"{name} {format_size(getattr(need, name))}" for name in parts)
    return (
        f"{need.training} needs {format_peak(peak_of(need))} in one process, as it is: {sizes}, "
        "and the rest for a batch.\n"
        f"{_on_accelerator(need)}{_as_ranks(need)}{_length(need)}{_computed(need)}\n"
        "Later plans use this."
    )


def _on_accelerator(need: Need) -> str:
    from modak_ansible.model.measured.need import format_peak, peak_of
    from modak_ansible.model.quantities import format_size

    if need.accelerator is None:
        return ""
    base = format_size(need.accelerator.base)
    return f"It takes {format_peak(peak_of(need.on_accelerator()))} of an accelerator, {base} of it for the driver.\n"


def _as_ranks(need: Need) -> str:
    """What each of several processes needs, in the ways in which the script was traced as one of them."""
    from modak_ansible.model.measured.need import format_peak, peak_of

    ways = dict.fromkeys((trace.ranks, trace.strategy) for trace in need.traced)
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
        return "What a step computes is not known: no step consisted of whole batches alone."
    flop, moved, count = (
        sum(getattr(operator, name) for operator in need.operators) for name in ("flop", "bytes", "count")
    )
    lines = [
        f"A step computes {flop / 1e9:.4g} GFLOP and moves {format_size(moved)} in {count:,} operators, most of it in"
    ]
    for operator in need.operators[:_NAMED]:
        shapes = ", ".join("x".join(map(str, shape)) for shape in operator.shapes)
        text = f"{format_size(operator.bytes):>10}  {operator.count} {operator.name} ({shapes})"
        lines.append(f"  {operator.flop / 1e9:10.4g} GFLOP {text}")
    return "\n".join(lines)
