"""The results: metrics, logs and declared outputs in a folder of their own here, with checksums."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, cast

from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import counted, format_joules, format_seconds, format_size
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.jobs.applied import OURS, Report, compare_choices, report_of, summary_pairs, warnings_of
from modak_ansible.stages.jobs.energy import energy_of
from modak_ansible.stages.jobs.tuned import as_trained, read_report, trained_of, tuning_pairs
from modak_ansible.store.forecasts import forecasts_of
from modak_ansible.store.logs import note_look
from modak_ansible.store.record import STAGES, Metrics, RecordData, run_of, trains
from modak_ansible.target.core.files import Lock, make_private, sha256_of, write_json
from modak_ansible.target.core.plan import Choice
from modak_ansible.target.core.staging import ATTEMPTS, RANKS, RUNTIMES_OWN, WRITTEN, is_log
from modak_ansible.target.jobs.numbers import number, numbers_of_epoch, shown_numbers
from modak_ansible.target.jobs.progress import METRICS, progress_of, read_metrics, with_curves
from modak_ansible.target.jobs.results import JobResults, ResultFile
from modak_ansible.target.jobs.situation import LIVING, LeftFiles, Progress
from modak_ansible.target.metrics.curves import read_curves
from modak_ansible.transport.rsync import pull

# Numbers of a script's own form in a summary; all are in its metrics.json.
_SHOWN = 6
# What each job leaves, whatever its script does; error.log has words of the container's runtime.
_NOT_THEIRS = {"applied.json", "job.sh", "error.log", "scheduler.log"}
Bring = Callable[[list[str], Path], None]


def fetch_results(stage: Stage) -> Outcome:
    """Brings back what the job left, verified; what is here already is not fetched again.

    What a job that still runs has written so far comes as it is.

    Raises:
        ModakError: a file did not arrive as it left.
    """
    plan = stage.plan
    outputs = {stage.deployment: outputs_of(stage)}
    answer = stage.call("modak_results", workspace=plan["target"]["workspace"], outputs=outputs)
    results: JobResults = answer["listed"][stage.deployment]

    def bring(paths: list[str], part: Path) -> None:
        pull(stage.connection, results["folder"], paths, part, stage.say)

    return keep_results(stage, results, bring)


def outputs_of(stage: Stage) -> list[str]:
    """The patterns of what is brought back: those of the plan, and what somebody asked for later."""
    return list(dict.fromkeys([*stage.plan["application"]["outputs"], *stage.record.read().get("more_outputs", [])]))


def wanted_files(stage: Stage, results: JobResults) -> list[ResultFile]:
    """Those of the files on the target that are not here as they are there."""
    _check_paths(results["files"])
    folder = stage.store.results
    return [file for file in results["files"] if not _is_here(folder / file["path"], file)]


def keep_results(stage: Stage, results: JobResults, bring: Bring) -> Outcome:
    """Keeps what the job left, and has the deployment's record and the project's records tell of it.

    Args:
        results: what is on the target: ``files``, the declared outputs that are ``missing``, and ``unnamed`` files that
            cannot be brought.

    Raises:
        ModakError: a file did not arrive as it left, or would lie elsewhere.
    """
    folder = stage.store.results
    if not results["files"]:  # not even its script: a file system has been cleared, and what is here is all there is
        return Outcome(False, f"its folder is not on the target; what came before is in {folder}")
    files_wanted = wanted_files(stage, results)
    if stage.check:
        return Outcome(bool(files_wanted), f"would fetch {counted(len(files_wanted), 'file')}")
    record = stage.record.read()
    job = record.get("job") or {}
    is_over = job.get("state") not in LIVING
    for file in results["files"]:
        if is_log(file["path"]):
            note_look(stage.folder, str(job.get("job_id", "")), file["path"], file["size"])
    if files_wanted or stage.store.has_old_results:
        with Lock(stage.folder / ".results.lock"):  # two deploys of one plan fetch in turn
            _forget_another_run(stage, results)
            files_wanted = wanted_files(stage, results)
            _fetch(bring, files_wanted, folder, is_over=is_over)
            files = [file for file in results["files"] if (folder / file["path"]).is_file()]
            write_json(stage.store.manifest, {"files": files, "run": run_of(job)})
    _forget_what_was_set_aside(folder, {file["path"] for file in results["files"]})
    missing_outputs = results["missing"] if job.get("state") and is_over else []  # a job that runs may still write it
    size = sum(file["size"] for file in results["files"])
    message = f"{counted(len(results['files']), 'file')}, {format_size(size)}, in {folder}"
    if missing_outputs:
        message += f"; no file matches {', '.join(missing_outputs)}"
    if unnamed := results.get("unnamed", []):
        message += f"; left on the target, as their names are not UTF-8: {', '.join(unnamed)}"
    left_files = results.get("left") if is_over else None
    if left_files and left_files["count"]:
        message += f"; {words_of_left(left_files)}"
    has_ended_well = is_over and job.get("state") == "COMPLETED"
    if has_ended_well and not (left_files and left_files["count"]) and _is_silent(folder, results["files"]):
        message += "; the training ended successfully, but neither printed nor wrote anything"
    metrics = read_metrics(folder)
    summary = _summary(metrics, folder, results)
    tuning = read_report(folder)
    trained = as_trained(stage.plan, trained_of(tuning, stage.plan))
    outcomes = compare_choices(trained, report_of(folder), metrics) if is_over and trains(stage.plan) else []
    # the last look may have been before the end
    last_progress, progress = record.get("progress") or {}, progress_of(folder) if is_over else {}
    crowded: Progress = {"crowded": results["crowded"]} if results.get("crowded") else {}
    stage.record.update(
        progress=cast(Progress, {**last_progress, **progress, **crowded}),
        energy=energy_of(folder, stage.plan, job, results.get("joules")) if is_over else None,
        results=str(folder),
        brought=run_of(job) if is_over else "",
        metrics=summary,
        missing_outputs=missing_outputs,
        unnamed_outputs=unnamed,
        left=left_files,
        applied=outcomes,
        tuning=tuning_pairs(tuning, stage.plan),
    )
    for line in [*warnings_of(outcomes), *crowded.values()]:
        stage.say(str(line))
    if is_over:
        from modak_ansible.stages.jobs.record import record_job  # noqa: PLC0415 - slow to import
        from modak_ansible.stages.jobs.trial_records import record_trials  # noqa: PLC0415

        record_trials(stage)
        record_job(stage)
    return Outcome(bool(files_wanted), message, {"results": str(folder), "metrics": summary})


def words_of_left(left: LeftFiles) -> str:
    """What a job wrote that stays on the target, and how to have it."""
    names = ", ".join(left["names"]) + (" ..." if left["count"] > len(left["names"]) else "")
    count = "a file" if left["count"] == 1 else f"{left['count']} files"
    return f"{count} ({format_size(left['size'])}) that outputs does not name stayed on the target: {names}"


def _check_paths(files: list[ResultFile]) -> None:
    """A target that somebody else has taken over must not choose what is written here."""
    for file in files:
        path = PurePosixPath(file["path"])
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ModakError(f"the target lists {str(path)!r}, which leads out of the folder of results")


def _is_here(path: Path, file: ResultFile) -> bool:
    return path.is_file() and path.stat().st_size == file["size"] and sha256_of(path) == file["sha256"]


def _is_silent(folder: Path, files: Sequence[ResultFile]) -> bool:
    """Whether nothing that came is from a script itself: no line, and no file."""
    names = {PurePosixPath(file["path"]).name for file in files if file["size"]}
    if not files or names - _NOT_THEIRS:
        return False
    lines = [line for path in folder.rglob("error.log") for line in path.read_text(errors="replace").splitlines()]
    return all(line.startswith(RUNTIMES_OWN) for line in lines)


def _forget_another_run(stage: Stage, results: JobResults) -> None:
    """What is here of another run, and not on the target, must not be taken for the present one's."""
    present = {file["path"] for file in results["files"]}
    for old in stage.store.files if stage.store.has_old_results else ():
        if old.path not in present:
            (stage.store.results / old.path).unlink(missing_ok=True)


def _forget_what_was_set_aside(folder: Path, paths: set[str]) -> None:
    """What an earlier attempt wrote is below its number now, and must not be taken for the present one's."""
    aside = re.compile(rf"{ATTEMPTS}/\d+/({'|'.join(map(re.escape, WRITTEN))}|{RANKS}/.+)", re.ASCII)
    for path in paths:
        set_aside = aside.fullmatch(path)
        if set_aside and set_aside[1] not in paths and (folder / path).is_file():
            (folder / set_aside[1]).unlink(missing_ok=True)


def _fetch(bring: Bring, files: list[ResultFile], folder: Path, *, is_over: bool) -> None:
    if not files:
        return
    part = folder.with_name(".results.part")
    for file in files:
        partial = part / file["path"]
        # rsync goes on from what is shorter, and leaves alone what is as long
        if partial.is_file() and partial.stat().st_size >= file["size"] and not _is_here(partial, file):
            partial.unlink()
    bring([file["path"] for file in files], part)
    for file in files:
        arrived = part / file["path"]
        if not is_over and not arrived.is_file():
            continue  # it went away since it was listed
        if not is_over:  # it may have grown
            file["size"], file["sha256"] = arrived.stat().st_size, sha256_of(arrived)
        elif not _is_here(arrived, file):
            arrived.unlink(missing_ok=True)  # rsync would go on from it for ever
            raise ModakError(
                f"{file['path']} was changed on its way from the target", hint="deploy again to fetch it again"
            )
        make_private((folder / file["path"]).parent)
        arrived.replace(folder / file["path"])
    shutil.rmtree(part, ignore_errors=True)


def _summary(metrics: Report, folder: Path, results: JobResults) -> Metrics | None:
    """What a summary says of a training; None where nothing that it wrote holds a number."""
    epoch_list = metrics.get("epochs")
    epochs = [epoch for epoch in epoch_list if isinstance(epoch, dict)] if isinstance(epoch_list, list) else []
    if not metrics or not epochs:
        curves = read_curves(folder, [file["path"] for file in results["files"] if file["path"] != METRICS])
        return _of_another_form(with_curves(metrics, curves))
    last = epochs[-1]
    seconds = sorted(epoch["seconds"] for epoch in epochs if number(epoch.get("seconds")) is not None)
    return {
        "epochs": len(epochs),
        "epochs_requested": number(metrics.get("epochs_requested")),
        "accuracy": number(last.get("test_accuracy")),
        "loss": number(last.get("training_loss")),
        "epoch_seconds": seconds[len(seconds) // 2] if seconds else None,
        "images_per_second": number(last.get("images_per_second")),
        "numbers": {} if metrics.get("schema") == OURS else numbers_of_epoch(last),
    }


def _of_another_form(numbers: dict[str, float]) -> Metrics | None:
    """The same of a script that writes its numbers as it likes; ``numbers`` has all of them by their names."""
    if not numbers:
        return None
    return {
        "epochs": None,
        "epochs_requested": None,
        "accuracy": numbers.get("accuracy"),
        "loss": numbers.get("loss"),
        "epoch_seconds": None,
        "numbers": numbers,
    }


def _chosen(choices: list[Choice]) -> list[tuple[str, str]]:
    """The image and what differs from stock, each with its reason; the rest by its names."""
    shown_choices = [choice for choice in choices if choice["name"] == "image" or choice["value"] != choice["stock"]]
    defaults = [choice["name"].replace("_", " ") for choice in choices if choice not in shown_choices]
    lines = [
        ("chosen", f"{choice['name'].replace('_', ' ')} {choice['value']}: {choice['reason']}")
        for choice in shown_choices
    ]
    return lines + ([("chosen", f"at their defaults: {', '.join(defaults)}")] if defaults else [])


def summary_lines(plan: Mapping[str, Any], state: RecordData) -> list[tuple[str, str]]:
    """What a finished deployment amounts to, as pairs of a title and a text."""
    metrics: Metrics = state.get("metrics") or {}
    lines = [
        ("plan", f"{plan['digest'][:12]}  {plan['name']} on {plan['target']['name']} ({plan['job']['scheduler']})")
    ]
    lines += _chosen(plan["choices"])
    for name in STAGES[:-1]:
        stage = state.get("stages", {}).get(name)
        if not stage or stage.get("message") == "none":
            continue
        worked = stage.get("worked")
        earlier = (
            f" (made before in {format_seconds(worked['seconds'])})" if worked and not stage.get("changed") else ""
        )
        lines.append(
            (name, f"{stage.get('message', '').splitlines()[0]}  [{format_seconds(stage['seconds'])}]{earlier}")
        )
    lines += [("start", forecast.words) for forecast in forecasts_of(state) if forecast.was_wrong]
    words: list[str] = []
    if metrics:
        accuracy = metrics.get("accuracy")
        requested, ended = metrics["epochs_requested"], metrics["epochs"]
        words += [f"{ended} of {requested} epochs" if requested else f"{ended} epochs"] if ended else []
        numbers = metrics.get("numbers") or {}
        words += [] if accuracy is None or "accuracy" in numbers else [f"accuracy {accuracy:.2%}"]
        words += shown_numbers(numbers, _SHOWN)
        words += [f"{metrics['epoch_seconds']:.1f} s an epoch"] if metrics.get("epoch_seconds") else []
    words += (state.get("progress") or {}).get("remarks") or []
    lines += [("training", ", ".join(words))] if words else []
    if energy := state.get("energy"):
        lines.append(("energy", f"{format_joules(energy['joules'])}, by {energy['source']}"))
    lines += [(title, text) for title, text in state.get("tuning") or []]
    return lines + summary_pairs(state.get("applied") or [])
