"""TensorBoard: a folder a run, with one event file of scalars."""

from __future__ import annotations

from modak_ansible.deployment.exporting.exported import Exported, Folders
from modak_ansible.deployment.exporting.protobuf import delimited, double, single, whole
from modak_ansible.target.metrics.events import framed


def folders(run: Exported) -> Folders:
    """One, named like the deployment, with its point of a sweep where it is one."""
    point = run.run.training.partition(":")[2].replace("/", "_")
    name = f"{run.run.deployment}-{point}"[:200] if point else run.run.deployment
    events = [double(1, run.began) + delimited(3, "brain.Event:2")]
    for tag, step, time, value in sorted(run.points(), key=lambda each: (each[1], each[0])):
        summary = delimited(1, delimited(1, tag) + single(2, value))
        events.append(double(1, time) + whole(2, step) + delimited(5, summary))
    file = f"events.out.tfevents.{int(run.began):010}.{run.identity[:12]}"
    return {name: {file: b"".join(map(framed, events))}}
