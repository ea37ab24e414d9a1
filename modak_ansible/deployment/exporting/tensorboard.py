"""TensorBoard: a folder a run, with one event file of scalars, which grows while the training runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from modak_ansible.deployment.exporting.exported import Exported, Folders, exported_of
from modak_ansible.deployment.exporting.protobuf import delimited, double, single, varint_field
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.metrics.events import framed

_LONGEST = 200  # bytes of a folder's name, of which file systems take 255


def folders(run: Exported) -> Folders:
    """One, named like the deployment, with its point of a sweep where it is one."""
    folder, file = file_names(run)
    return {folder: {file: records(run, run.points())}}


def file_names(run: Exported) -> tuple[str, str]:
    """The names of a run's folder and of the event file in it."""
    point = run.run.training.partition(":")[2].replace("/", "_")
    folder = f"{run.run.deployment}-{point}" if point else run.run.deployment
    folder = folder.encode()[:_LONGEST].decode(errors="ignore")
    return folder, f"events.out.tfevents.{int(run.began):010}.{run.identity[:12]}"


def records(run: Exported, points: Sequence[tuple[str, int, float, float]], *, is_begun: bool = False) -> bytes:
    """Points as they stand in an event file, behind its beginning where it has none yet."""
    events = [] if is_begun else [double(1, run.began) + delimited(3, "brain.Event:2")]
    for tag, step, time, value in sorted(points, key=lambda point: (point[1], point[0])):
        summary = delimited(1, delimited(1, tag) + single(2, value))
        events.append(double(1, time) + varint_field(2, step) + delimited(5, summary))
    return b"".join(map(framed, events))


class LiveEvents:
    """A log folder of TensorBoard's, to which what is new of runs is added.

    A reader keeps an event file open and reads what is added to it; of one that is replaced it would see no more.

    Args:
        folder: that nobody else writes to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[str, set[tuple[str, int]]] = {}

    def add(self, stores: Iterable[DeploymentStore]) -> int:
        """Adds what has come since the last time, from what is here; gives how many points."""
        count = 0
        for run in map(exported_of, stores):
            written = self._written.setdefault(run.run.deployment, set())
            new = [point for point in run.points() if point[:2] not in written]
            if not new:
                continue
            folder, file = file_names(run)
            path = self._folder / folder / file
            path.parent.mkdir(exist_ok=True)
            with path.open("ab") as events:
                events.write(records(run, new, is_begun=bool(written)))
            written |= {point[:2] for point in new}
            count += len(new)
        return count
