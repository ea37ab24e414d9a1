"""What modak discover --measure does: the suite of peaks on the target that was found, and what came of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from statistics import median

from modak_ansible.commands.bench.run import Benching
from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.description import Description, Value
from modak_ansible.discovery.target_files import link_types
from modak_ansible.discovery.writing import template_text
from modak_ansible.errors import ModakError
from modak_ansible.measuring.suites.reader import find_suite
from modak_ansible.model.measured.record import Measure, Record
from modak_ansible.model.target import RATES
from modak_ansible.performance.fit.machines import machines
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.project import RECORDS, state_folder
from modak_ansible.target.core.files import expanded, make_private, write_whole

_SUITE = "peaks"
# Where the workload of storage looks for a node's own disk.
_MEASURED_SCRATCH = ("$TMPDIR", "/tmp")  # noqa: S108
# How long a quiet machine is waited for, in seconds, and how often a disturbed run is begun.
_PATIENCE, _ATTEMPTS = 60, 2
# Never run: a blueprint needs a training, and the suite takes its target only.
_TRAINING = """\
    training:
      type: modak.nodes.Training
      properties: { framework: pytorch, script: nothing.py, files: [ nothing.py ] }
      requirements: [ { host: cluster } ]
"""


def measured(description: Description, aim: Aim, *, is_quiet: bool) -> dict[str, Value]:
    """Measures a target's peaks by jobs; records of it go where those of modak bench go.

    Returns:
        ``peak_gflops``, ``peak_gflops_bf16``, ``memory_bandwidth``, ``network_latency``, ``network_bandwidth``, and of
        the storages ``home`` and ``scratch`` the rates, as far as they could be measured.

    Raises:
        ModakError: nothing could be measured.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", description.address)
    state = state_folder(Path.cwd())
    folder = state / "discovered" / name
    suite = _prepare(folder, description, aim)
    records = state / RECORDS / f"{_SUITE}-{name}.jsonl"
    nodes = max((partition.nodes or 1 for partition, _ in description.partitions), default=1)
    groups = ("peak", "memory", "storage", *(("network", "gloo") if nodes > 1 else ()))
    benching = Benching(suite, Inputs(), groups, None)
    benching.run(records, again=False, patience=_PATIENCE, attempts=_ATTEMPTS, is_quiet=is_quiet)
    shutil.rmtree(folder)
    return {
        **_peaks(benching.measured, records),
        **_storage(benching.measured, str(description.value("scratch") or ""), records),
    }


def _prepare(folder: Path, description: Description, aim: Aim) -> Path:
    """A blueprint with the target that was found, and the suite beside it."""
    make_private(folder)
    link_types(folder)
    text = template_text(description, "this day")
    if aim.target.identity_file:
        key = aim.folder / expanded(aim.target.identity_file)
        text = text.replace("      properties:\n", f'      properties:\n        identity_file: "{key}"\n', 1)
    if aim.target.port:
        text = text.replace("      properties:\n", f"      properties:\n        port: {aim.target.port}\n", 1)
    write_whole(folder / "service.yaml", f"{text.rstrip()}\n{_TRAINING}")
    write_whole(folder / "nothing.py", "")
    suite = find_suite(_SUITE).read_text(encoding="utf-8")
    write_whole(folder / f"{_SUITE}.yaml", f"{suite.rstrip()}\ntargets: {{ here: . }}\n")
    return folder / f"{_SUITE}.yaml"


def _peaks(records: list[Record], path: Path) -> dict[str, Value]:
    good, how = machines(records), "measured"
    if not good:  # what was measured beside others is a lower bound
        disturbed = [record for record in records if record.outcome == "disturbed"]
        good = machines(record.model_copy(update={"outcome": "measured"}) for record in disturbed)
        how = "at least, because others kept the machine busy; measured"
    if not good:
        reasons = "; ".join(dict.fromkeys(record.reason.splitlines()[0] for record in records if record.reason))
        raise ModakError(f"nothing could be measured: {reasons or 'no job ran'}", hint=f"the records are in {path}")
    machine = good[0]
    source = f"{how} on {machine.name}, {path.name}"
    values = {
        "peak_gflops": machine.peaks,
        "peak_gflops_bf16": machine.rates.get("bf16 products"),
        "memory_bandwidth": machine.bandwidths,
    }
    peaks = {name: Value(max(value.values()), source) for name, value in values.items() if value}
    return {**peaks, **_network(records, path)}


def _storage(records: list[Record], scratch: str, path: Path) -> dict[str, Value]:
    """What files cost where jobs have their home, and on the node's own disk where that is what was measured.

    Others slow a disk down as they slow down processors: what was measured beside them is a lower bound.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    kinds: dict[str, str] = {}
    for record in records:
        for measure in record.measures if record.outcome in ("measured", "disturbed") else ():
            place, rate = str(measure.about.get("storage", "")), _rate_of(measure)
            if rate:
                samples.setdefault((place, rate), []).extend(measure.samples)
                kinds[place] = str(measure.about.get("file_system", ""))
    places = ["home"] if any(place == "home" for place, _ in samples) else []
    if scratch.rstrip("/") in _MEASURED_SCRATCH:
        places.append("scratch")
    values = {}
    for place in places:
        source = f"measured on {kinds.get(place) or 'an unknown file system'}, {path.name}"
        for rate in RATES:
            if numbers := samples.get((place, rate)):
                values[f"{place}_{rate}"] = Value(float(f"{median(numbers):.3g}"), source)
    if any(name.startswith("home_") for name in values):
        values["home"] = Value("~", "where jobs write; measured in the workspace there")
    return values


def _rate_of(measure: Measure) -> str:
    """What a measure of storage is called in a target."""
    if measure.name == "small_files_read":
        return "warm_file_rate" if measure.about.get("cache") == "warm" else "file_rate"
    return {"read": "read_bandwidth", "write": "write_bandwidth"}.get(measure.name, "")


def _network(records: list[Record], path: Path) -> dict[str, Value]:
    """What two nodes have through gloo, both or neither: other work on their cores hardly changes what a link sends."""
    samples = {
        measure.name: measure.samples
        for record in records
        if record.outcome in ("measured", "disturbed")
        for measure in record.measures
        if measure.about.get("backend") == "gloo" and measure.about.get("machines") == 2
    }
    if not {"latency", "bandwidth"} <= set(samples):
        return {}
    source = f"measured between two nodes through gloo, {path.name}"
    latency, bandwidth = median(samples["latency"]), median(samples["bandwidth"])
    return {
        "network_latency": Value(float(f"{1e6 * latency:.3g}"), source),
        "network_bandwidth": Value(float(f"{bandwidth:.3g}"), source),
    }
