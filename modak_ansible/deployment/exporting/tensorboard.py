"""TensorBoard: a folder a run, with one event file of scalars."""

from __future__ import annotations

from collections.abc import Sequence

from modak_ansible.deployment.exporting.exported import Exported, Folders
from modak_ansible.deployment.exporting.protobuf import delimited, double, single, whole
from modak_ansible.target.metrics.events import framed


def folders(run: Exported) -> Folders:
    """One, named like the deployment, with its point of a sweep where it is one."""
    folder, file = named(run)
    return {folder: {file: records(run, run.points())}}


def named(run: Exported) -> tuple[str, str]:
    """The names of a run's folder and of the event file in it."""
    point = run.run.training.partition(":")[2].replace("/", "_")
    folder = f"{run.run.deployment}-{point}"[:200] if point else run.run.deployment
    return folder, f"events.out.tfevents.{int(run.began):010}.{run.identity[:12]}"


def records(run: Exported, points: Sequence[tuple[str, int, float, float]], *, is_begun: bool = False) -> bytes:
    """Points as they stand in an event file, behind its beginning where it has none yet."""
    events = [] if is_begun else [double(1, run.began) + delimited(3, "brain.Event:2")]
    for tag, step, time, value in sorted(points, key=lambda each: (each[1], each[0])):
        summary = delimited(1, delimited(1, tag) + single(2, value))
        events.append(double(1, time) + whole(2, step) + delimited(5, summary))
    return b"".join(map(framed, events))
