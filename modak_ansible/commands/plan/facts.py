"""What a plan is about, in the words of its first lines: target, image, data, shape of the job, script."""

from __future__ import annotations

from modak_ansible.catalogue.entry import PLAIN
from modak_ansible.model.application import Checkpoint
from modak_ansible.model.job_options import JobComponent
from modak_ansible.model.measured.need import format_peak
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.plan import Candidate, Choice, Layer, Plan, PlannedDataset, PlannedMemory, Rejected
from modak_ansible.model.quantities import counted, format_seconds, format_size, format_walltime
from modak_ansible.model.target import Cloud, costs_until
from modak_ansible.performance.doubts import STRANGER
from modak_ansible.sources.counting.formats import lacking
from modak_ansible.sources.local import Local

NUMERICS = {"same": "exact", "reassociation": "reassociation", "any": "changes results"}


def facts_of(plan: Plan) -> list[tuple[str, str]]:
    built = f"{_ways(plan.image.layers)}, {plan.image.digest[:12]}"
    unbuilt = f"pulled by the nodes: {plan.image.path}" if plan.image.path else "none: what is installed on the nodes"
    facts = [("target", f"unverified: {plan.target.unverified}")] if plan.target.unverified else []
    facts += [("image", built if plan.image.layers else unbuilt)]
    facts += [("data", _data(dataset, plan)) for dataset in plan.datasets]
    facts.append(("runs as", _shape(plan)))
    if plan.memory:
        facts.append(("memory", _memory(plan.memory)))
    facts.append(("script", _script(plan)))
    if plan.job.checkpoint:
        facts.append(("checkpoints", _checkpoints(plan.job.checkpoint)))
    return facts


def target_of(plan: Plan) -> str:
    target = plan.target
    kind = "this machine" if target.local else f"{target.scheduler.value} at {target.address}"
    if target.cloud:
        what = f"{target.cloud.machines} hosts under Slurm" if target.cloud.machines else "a machine"
        kind = f"{what} of {target.cloud.provider}, {_machine(target.cloud)}"
        kind += costs_until(target.cloud.provider)
    return f"{target.name} ({kind}, {target.processor.architecture})"


def _machine(cloud: Cloud) -> str:
    """Its flavor, or what it is chosen by."""
    requirements = [f"{cloud.shape.cpus} cores"] if cloud.shape.cpus else []
    requirements += [format_size(cloud.shape.memory)] if cloud.shape.memory else []
    return cloud.flavor or f"the smallest with {' and '.join(requirements)}"


def predicted(plan: Plan) -> str:
    """How long the run takes and how sure that is, against stock; or what is not known of it."""
    prediction = plan.prediction
    if plan.application.framework == PLAIN and (prediction is None or not prediction.known):
        walltime = format_walltime(plan.job.walltime)
        return f"not predicted: nothing models what a Python program computes; the walltime, {walltime}, bounds it"
    if prediction is None or not prediction.known:
        # how wide an interval is says nothing where there is none
        reasons = [doubt for doubt in (prediction.doubts if prediction else ()) if not doubt.endswith(STRANGER)]
        return f"not known: {'; '.join(reasons) or 'nothing similar was measured'}"
    epochs, samples = plan.application.work.epochs, plan.application.work.samples
    what = f"{counted(epochs, 'epoch')}{f' of {samples:,} samples' if samples else ''} in " if epochs else ""
    text = f"{what}{format_seconds(prediction.seconds.middle)} ({clocks(prediction.seconds)})"
    if prediction.core_hours is not None:
        text += f", {prediction.core_hours:.2g} core-hours"
    text += "".join(f", {doubt}" for doubt in prediction.doubts if doubt.startswith("by "))
    effects = [doubt for doubt in prediction.doubts if doubt.startswith("without the effect of ")]
    text += "".join(f", {effect}" for effect in effects)
    stock = next(
        (candidate for candidate in plan.candidates if candidate.note == "stock" and candidate.prediction), None
    )
    if stock is not None and stock.prediction is not None and stock.prediction.known:
        text += f"; stock {format_seconds(stock.prediction.seconds.middle)}"
    return text + "".join(f"; {doubt}" for doubt in prediction.doubts if doubt.endswith(STRANGER))


def clock(seconds: float) -> str:
    """A duration in few characters: ``8.1 s``, ``42 s``, ``4:10``, ``2:05:00``."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes}:{second:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def clocks(interval: Interval) -> str:
    return f"{clock(interval.low)} to {clock(interval.high)}"


def factor(speed: Interval) -> str:
    """A ratio of speeds with its interval: ``1.29x (1.20 to 1.38)``."""
    return f"{speed.middle:.2f}x ({speed.low:.2f} to {speed.high:.2f})"


def measured(option: Choice | Rejected, than: str = "") -> str:
    """How much faster something is, and what says so: measured runs, or the law of what ranks send."""
    assert option.speed is not None  # noqa: S101 - the others have no speed to tell
    return f"{factor(option.speed)}{than}, {counted(option.records, 'record') if option.records else 'by law'}"


def is_taken(choice: Choice) -> bool:
    """Whether a matter differs from stock by what was chosen; the build has lines of its own."""
    return choice.name != "image" and choice.value != choice.stock


def settings_of(candidate: Candidate) -> str:
    """What differs from stock, in one text."""
    return ", ".join(f"{name} {value}" for name, value in candidate.settings.items()) or "stock"


_PACKED = {"squashfs": "one squashfs image", "shards": "tar shards"}
_COPIED = {
    "node-local": "copied to node-local scratch",
    "by-node": "each node copies the shards that its ranks read to its scratch",
}


def _data(dataset: PlannedDataset, plan: Plan) -> str:
    """A dataset: its size, where it comes from, how the script finds it, and what nobody knows of it yet."""
    first = dataset.sources[0]
    contents = first.unpacked or (None if first.unpack else first.contents)
    files = f" in {counted(contents.files, 'file')}" if contents else ""
    size = f", {format_size(dataset.size)}{files}" if dataset.size else ""
    locations = ", else ".join(source.location or source.label for source in dataset.sources)
    way = f"on the target at {locations}" if first.kind == "on_target" else f"from {locations}"
    packed = f"; packed into {_PACKED[dataset.pack]}" if dataset.pack else ""
    copied = f"; {_COPIED[dataset.staging]}" if dataset.staging in _COPIED else ""
    mounted = f"; the script finds it as {dataset.mount_as}" if dataset.mount_as else ""
    missing = ["its size"] if dataset.size is None else []
    if dataset is plan.dataset and plan.application.work.samples is None and plan.application.is_training:
        library = lacking(dataset.format) if first.kind in Local.kinds else ""
        why = (
            f", because {library}, which counts {dataset.format}, is not installed where modak runs" if library else ""
        )
        why = f", because {dataset.damaged} is damaged or not {dataset.format}" if dataset.damaged else why
        missing.append(f"the number of samples{why}")
    unknown = f"; not known: {' and '.join(missing)}" if missing else ""
    return f"{dataset.name}{size}, {way}{packed}{copied}{mounted}{unknown}"


def _ways(layers: tuple[Layer, ...]) -> str:
    words = {"build": "built", "pull": "pulled", "file": "taken as it is", "venv": "installed"}
    return " on ".join(f"{layer.name} ({words[layer.kind]})" for layer in reversed(layers))


def _shape(plan: Plan) -> str:
    job, layout = plan.job, plan.job.layout
    counts = [(layout.nodes, "node"), (layout.processes_per_node, "process"), (layout.cores, "core")]
    shape = " x ".join(counted(number, noun) for number, noun in counts if number)
    threads = f", {counted(job.threads, 'thread')} each" if job.threads else ""
    components = [_component(component) for component in job.options.components]
    where = f", partition {job.partition}" if job.partition else ""
    where = f"; components {', '.join(components)}" if components else where
    return f"{shape}{threads}, at most {format_walltime(job.walltime)}{where}"


def _component(component: JobComponent) -> str:
    partition = f" of {component.partition}" if component.partition else ""
    return f"{component.name} ({counted(component.node_count, 'node')}{partition})"


def _memory(memory: PlannedMemory) -> str:
    has = f", of {format_size(memory.limit)}: {memory.of}" if memory.limit else "; how much there is is not known"
    return f"{format_peak(memory.peak)} in each process{has}"


def _checkpoints(checkpoint: Checkpoint) -> str:
    every, before = format_seconds(checkpoint.every), format_seconds(checkpoint.signal_before_wall)
    again = f"queued again up to {counted(checkpoint.requeue, 'time')}" if checkpoint.requeue else "not queued again"
    return f"every {every} and {before} before the wall; {again}"


def _script(plan: Plan) -> str:
    application = plan.application
    name = application.script or " ".join(application.command)
    files = counted(len(application.files), "file")
    return f"{name}, {files} from {application.folder or '.'}"
