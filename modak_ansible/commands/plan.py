"""modak plan: what would happen?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from modak_ansible.commands.options import Blueprint, InputsFile, InputValues, Json, Training, given_inputs

EXAMPLES = "Example: modak plan mnist-pytorch-slurm --input epochs=4 --json"

# Reasons that people are told of each choice.
_SHOWN = 4


def command(
    blueprint: Blueprint,
    inputs: InputsFile = None,
    value: InputValues = None,
    training: Training = None,
    as_json: Json = False,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out the definitions and the script.")] = False,
) -> None:
    """Show what a deployment would do, and why; changes nothing and needs no network."""
    from modak_ansible.planning import plan_blueprint
    from modak_ansible.project import find_blueprint

    plan = plan_blueprint(find_blueprint(blueprint), given_inputs(inputs, value), training).plan
    if as_json:
        typer.echo(plan.model_dump_json(indent=2))
    else:
        typer.echo(plan_text(plan, brief=brief))


def plan_text(plan: Any, *, brief: bool) -> str:
    """A plan for people."""
    lines = [f"{plan.name}: {plan.training} on {_target(plan)}", f"plan {plan.digest}", ""]
    lines += [f"  {title:<11}{text}" for title, text in _facts(plan)]
    lines.append("")
    for choice in plan.choices:
        evidence = f" [{choice.evidence}]" if choice.evidence else ""
        lines.append(f"  {choice.name:<12} {choice.value}: {choice.reason}{evidence}")
        lines += [f"  {'':<12} {text}" for text in _rejections(choice.rejected)]
    lines += ["", "Brought to the target, in this order"]
    lines += [f"  {each.what:<8} {each.source} -> {plan.target.workspace}/{each.destination}" for each in plan.staging]
    if not brief:
        for layer in plan.image.layers:
            lines += ["", f"Definition of {layer.name} ({layer.digest[:12]})", "", _indented(layer.definition)]
        lines += ["", "Job script", "", _indented(plan.job.script)]
    return "\n".join(lines)


def _rejections(rejected: Any) -> list[str]:
    """The alternatives that were not taken, those with the same reason together; the first few, and how many more."""
    from modak_ansible.model.plan import by_reason

    grouped = by_reason(rejected)
    told = [f"not {', '.join(values)}: {reason}" for reason, values in grouped.items()]
    more = sum(len(values) for values in list(grouped.values())[_SHOWN:])
    return [*told[:_SHOWN], *([f"and {more} more, which --json tells"] if more else [])]


def _target(plan: Any) -> str:
    target = plan.target
    kind = "this machine" if target.local else f"{target.scheduler.value} at {target.address}"
    return f"{target.name} ({kind}, {target.processor.architecture})"


def _facts(plan: Any) -> list[tuple[str, str]]:
    from modak_ansible.model.quantities import format_size, format_walltime

    job, dataset = plan.job, plan.dataset
    counts = [(job.nodes, "node"), (job.processes_per_node, "process"), (job.cores_per_process, "core")]
    shape = " x ".join(_counted(number, noun) for number, noun in counts if number)
    runs = f"{shape}, at most {format_walltime(job.walltime)}"
    facts = [
        ("image", f"{plan.image.digest[:12]}: {_ways(plan.image.layers)}"),
        ("runs as", runs + (f", partition {job.partition}" if job.partition else "")),
        (
            "script",
            f"{plan.application.script}, {_counted(len(plan.application.files), 'file')} "
            f"from {plan.application.folder or '.'}",
        ),
    ]
    if dataset:
        size = f", {format_size(dataset.size)}" if dataset.size else ""
        tried = ", else ".join(source.location or source.label for source in dataset.sources)
        facts.insert(1, ("data", f"{dataset.name}{size}, from {tried}"))
    return facts


def _counted(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def _ways(layers: Any) -> str:
    words = {"build": "built", "pull": "pulled", "file": "taken as it is", "venv": "installed"}
    return " on ".join(f"{layer.name} ({words[layer.kind]})" for layer in reversed(layers))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
