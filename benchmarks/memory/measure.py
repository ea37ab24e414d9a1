"""Traces the models of train.py, trains them, and holds their peaks against what the traces say.

python benchmarks/memory/measure.py PYTHON RECORDS.jsonl [MODEL ...] [--trace] [--copies] [--seconds]

PYTHON is an interpreter with PyTorch. Each model is traced once, then trained three times for four steps by one process
and by two in each way that `prepare` has; the records get a line each, with the peaks of all ranks of each run. They
give back what they free, as ranks do that have little room. Where blocks come to lie is luck: the larger rank's peak
counts, and of the three runs the one in the middle. With `--trace` traces are made anew, measured peaks stay.
With `--copies` it is four processes, pairs of which have a copy of the model each, and the law for ranks that were not
traced is held against the peaks, too.
With `--seconds` nothing is trained: each model is traced five times as 64 ranks, in the ways that a plan asks for.
Without PYTHON, as `-`, the records alone are looked at. The table of docs/memory.md is what it prints.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import IO, Any

from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.need import Need, peak_of
from modak_ansible.planning.tracing import traced_meshes
from modak_ansible.runtime import FILES

SCRIPT = Path(__file__).with_name("train.py")
# Half of the models were looked at while the laws were made, the other half was not until they were done.
SEEN = ("cnn", "resnet", "gpt", "vit", "lstm", "mlp", "mobile", "tables", "graph", "volume")
HELD_OUT = ("encoder", "lora", "unet", "dense", "audio", "wide", "gru", "mixer", "convnext", "translator")
# These were written when malloc itself was asked what it keeps. One thing was changed behind them, and it was found
# in tagger: what an LSTM keeps for its backward pass.
LATER = ("autoencoder", "tagger", "llama", "inception", "columns", "wave")
# And these when what operators ask of malloc was traced in order. Nothing was changed behind them.
LAST = ("dilated", "both", "series", "grouped", "generator")
_OF_GROUPS = {"seen": SEEN, "held out": HELD_OUT, "later": LATER, "last": LAST}
GROUPS = {model: group for group, models in _OF_GROUPS.items() for model in models}
Ways = tuple[tuple[int, str], ...]
STRATEGIES: Ways = ((1, "none"), (2, "ddp"), (2, "fsdp"), (2, "tensor"), (2, "pipeline"))
COPIES: Ways = ((4, "tensor_2"), (4, "pipeline_2"), (4, "fsdp_2"))
_MARKS = {"last": " °", "later": " +", "held out": "", "seen": " *"}  # in the order of the table
MIB = 1 << 20
RUNS = 3
MANY, ROUNDS, SECONDS = 64, 5, 10  # ranks, traces of each model, and how long one is to take at most
Started = tuple[subprocess.Popen[bytes], IO[bytes]]


def environment(**more: str) -> dict[str, str]:
    """What a training has in its environment: the runtime, one thread, and nothing of modak's that is around."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(FILES), "OMP_NUM_THREADS": "1", **more}


def of_ranks(count: int, strategy: str) -> list[dict[str, str]]:
    """What each of several ranks over loopback is told; nothing to a process that is alone."""
    if count == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ours = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    ours["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"  # as plans have it
    return [{**ours, "RANK": str(rank), "MODAK_STRATEGY": strategy} for rank in range(count)]


def started(python: str, words: list[str], group: Path | None = None, **more: str) -> Started:
    """A training that has begun, in a cgroup if one is given, and what it writes."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
    enters = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"] if group else []
    command = [*enters, python, str(SCRIPT), *words]
    return subprocess.Popen(command, env=environment(**more), stdout=log, stderr=log), log


def peak(training: Started) -> int:
    """Bytes that were resident at most.

    Raises:
        RuntimeError: it failed.
    """
    process, log = training
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        log.seek(0)
        raise RuntimeError(log.read().decode(errors="replace")[-1000:])
    return usage.ru_maxrss * 1024


def traced(python: str, words: list[str], ways: Ways) -> dict[str, Any]:
    """What a trace says, and how long it took."""
    ranks = {
        "MODAK_TRACE_RANKS": str(ways[-1][0]),
        "MODAK_TRACE_WAYS": " ".join(way for count, way in ways if count > 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        report, began = Path(folder, "applied.json"), time.monotonic()
        peak(started(python, words, MODAK_TRACE="memory", MODAK_APPLIED=str(report), **ranks))
        return {**json.loads(report.read_text())["memory"], "seconds": round(time.monotonic() - began, 1)}


def run(python: str, model: str, ranks: int, strategy: str) -> tuple[list[int], str]:
    """The peaks of all ranks of a training; why there are none where it cannot be trained so."""
    if ranks == 1:
        return [peak(started(python, [model]))], ""
    found = [started(python, [model], **told, MODAK_MEMORY_LIMIT="1") for told in of_ranks(ranks, strategy)]
    peaks, refused = [], ""
    for each in found:
        try:
            peaks.append(peak(each))
        except RuntimeError as error:
            refused = refused or str(error).strip().splitlines()[-1]
    return peaks, refused


def lines_of(records: Path) -> list[dict[str, Any]]:
    """Of a file, which may not be there yet."""
    return [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []


def line_of(lines: list[dict[str, Any]], new: dict[str, Any]) -> dict[str, Any]:
    """That of the same model, or the new one, which becomes one of them."""
    found = next((each for each in lines if each["model"] == new["model"]), None)
    if found is None:
        lines.append(new)
    return found or new


def write(records: Path, lines: list[dict[str, Any]]) -> None:
    records.write_text("".join(json.dumps(each, sort_keys=True) + "\n" for each in lines))


def measure(python: str, records: Path, models: list[str], traces_again: bool, ways: Ways) -> None:
    """Adds what the records do not have yet of each model."""
    lines = lines_of(records)
    for model in models:
        line = line_of(lines, {"model": model, "runs": []})
        for ranks, strategy in ways:
            found = next((each for each in line["runs"] if each["strategy"] == strategy), None)
            if found is None:
                found = {"ranks": ranks, "strategy": strategy, "peaks": []}
                line["runs"].append(found)
            while "refused" not in found and len(found["peaks"]) < RUNS:
                peaks, refused = run(python, model, ranks, strategy)
                found.update({"refused": refused} if refused else {"peaks": [*found["peaks"], peaks]})
        if traces_again or "trace" not in line:
            line["trace"] = traced(python, [model], ways)
        write(records, lines)
        sys.stderr.write(f"{model}\n")


def measure_seconds(python: str, records: Path, models: list[str]) -> None:
    """Adds how long traces of each model take, one model after the other in each of the rounds."""
    lines = lines_of(records)
    ways: Ways = tuple((MANY, mesh.name) for mesh in traced_meshes(Distributed(), MANY))
    for _ in range(ROUNDS):
        for model in models:
            line = line_of(lines, {"model": model, "ranks": MANY, "seconds": []})
            trace = traced(python, [model], ways)
            line["seconds"].append(trace["seconds"])
            line["traced"] = [f"{each['strategy']} {each['rank']}" for each in trace["traced"]]
            write(records, lines)
            sys.stderr.write(f"{model} {trace['seconds']} s\n")


def table_of_seconds(records: Path) -> str:
    """Seconds of traces, quick ones first."""
    lines = ["| model | seconds, the middle of all | least | most | ranks that were traced |", "|---|---|---|---|---|"]
    found = lines_of(records)
    for each in sorted(found, key=lambda each: median(each["seconds"])):
        seconds = each["seconds"]
        row = each["model"], f"{median(seconds):.1f}", min(seconds), max(seconds), len(each["traced"])
        lines.append(f"| {' | '.join(map(str, row))} |")
    middles = [median(each["seconds"]) for each in found]
    within = sum(each <= SECONDS for each in middles)
    return "\n".join([*lines, "", f"- {within} of {len(middles)} within {SECONDS} s, median {median(middles):.1f} s"])


def need_of(trace: dict[str, Any]) -> Need:
    """A trace as plans have it."""
    return Need.model_validate(
        {"key": "", "training": "", **{name: value for name, value in trace.items() if name in Need.model_fields}}
    )


def middle_of(run: dict[str, Any]) -> float:
    """Bytes of the larger rank, in the middle of all runs."""
    return median(max(peaks) for peaks in run["peaks"])


def table(records: Path) -> str:
    """Predicted and measured peaks in MiB, and how far they are apart."""
    columns = "one process | | " + "".join(f"two, `{strategy}` | | " for _, strategy in STRATEGIES[1:])
    lines = [f"| model | {columns.rstrip()}", "|---" * (1 + 2 * len(STRATEGIES)) + "|"]
    off: dict[tuple[str, str], list[tuple[float, str]]] = {}
    above: list[float] = []
    found = lines_of(records)
    groups = [*_MARKS]
    for record in sorted(found, key=lambda each: groups.index(GROUPS[each["model"]])):
        need, group, cells = need_of(record["trace"]), GROUPS[record["model"]], []
        for ranks, strategy in STRATEGIES:
            run: dict[str, Any] = next((each for each in record["runs"] if each["strategy"] == strategy), {})
            if not run.get("peaks"):
                cells += ["refused" if run else "", ""]
                continue
            predicted, measured = peak_of(need, ranks, strategy), middle_of(run)
            error = predicted.middle / measured - 1
            off.setdefault((group, strategy), []).append((error, record["model"]))
            above += [max(peaks) / predicted.high for peaks in run["peaks"]]
            cells += [f"{predicted.middle / MIB:.0f}; {measured / MIB:.0f}", f"{error:+.1%}{_MARKS[group]}"]
        lines.append(f"| {record['model']} | {' | '.join(cells)} |")
    pairs = [(group, strategy) for group in groups for _, strategy in STRATEGIES]
    lines += ["", *(_summary(f"{group}, {strategy}", off.get((group, strategy), [])) for group, strategy in pairs)]
    for group in groups:
        several = [each for _, strategy in STRATEGIES[1:] for each in off.get((group, strategy), [])]
        lines.append(_summary(f"{group}, all of two", several))
    killed = sum(each > 1 for each in above)
    lines.append(f"- above what was promised: {killed} of {len(above)}, at most {max(above):.1%} of it")
    return "\n".join(lines)


def table_of_copies(records: Path) -> str:
    """The same of four processes, pairs of which have a copy each; behind it what the law alone has."""
    columns = "".join(f"`{strategy}` | | by the law | " for _, strategy in COPIES)
    lines = [f"| model | {columns.rstrip()}", "|---" * (1 + 3 * len(COPIES)) + "|"]
    off: dict[tuple[str, str], list[tuple[float, str]]] = {}
    above: dict[str, float] = {}
    for record in lines_of(records):
        need, cells = need_of(record["trace"]), []
        laws = {"traced": need, "the law": need.model_copy(update={"traced": ()})}
        for run in record["runs"]:
            if not run.get("peaks"):
                cells += ["refused", "", ""]
                continue
            measured, errors = middle_of(run), {}
            for name, known in laws.items():
                predicted = peak_of(known, run["ranks"], run["strategy"])
                errors[name] = predicted.middle / measured - 1
                above[name] = max(above.get(name, 0.0), measured / predicted.high)
                off.setdefault((name, run["strategy"]), []).append((errors[name], record["model"]))
            predicted = peak_of(need, run["ranks"], run["strategy"])
            cells += [
                f"{predicted.middle / MIB:.0f}; {measured / MIB:.0f}",
                *(f"{each:+.1%}" for each in errors.values()),
            ]
        lines.append(f"| {record['model']} | {' | '.join(cells)} |")
    lines += ["", *(_summary(", ".join(group), errors) for group, errors in sorted(off.items()))]
    lines += [f"- {name}: at most {most:.1%} of what was promised" for name, most in above.items()]
    return "\n".join(lines)


def _summary(name: str, errors: list[tuple[float, str]]) -> str:
    if not errors:
        return f"- {name}: none"
    sizes = [abs(each) for each, _ in errors]
    worst, model = max(errors, key=lambda each: abs(each[0]))
    within = sum(each <= 0.1 for each in sizes)
    text = f"median {median(sizes):.1%}, worst {worst:+.1%} ({model}), {within} of {len(sizes)} within 10 %"
    return f"- {name}: {text}"


def main() -> None:
    words = [each for each in sys.argv[1:] if not each.startswith("--")]
    if len(words) < 2:
        sys.exit(__doc__)
    python, records, models = words[0], Path(words[1]), words[2:] or [*GROUPS]
    if "--seconds" in sys.argv:
        if python != "-":
            measure_seconds(python, records, models)
        sys.stdout.write(table_of_seconds(records) + "\n")
        return
    ways, shown = (COPIES, table_of_copies) if "--copies" in sys.argv else (STRATEGIES, table)
    if python != "-":
        measure(python, records, models, "--trace" in sys.argv, ways)
    sys.stdout.write(shown(records) + "\n")


if __name__ == "__main__":
    main()
