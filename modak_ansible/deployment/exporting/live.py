"""Event files that grow while trainings run, for a TensorBoard that looks on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from modak_ansible.deployment.exporting.exported import exported_of
from modak_ansible.deployment.exporting.tensorboard import named, records
from modak_ansible.store.deployment import DeploymentStore


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
            folder, file = named(run)
            path = self._folder / folder / file
            path.parent.mkdir(exist_ok=True)
            with path.open("ab") as events:
                events.write(records(run, new, is_begun=bool(written)))
            written |= {point[:2] for point in new}
            count += len(new)
        return count
