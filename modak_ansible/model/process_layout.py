"""How the processes of a job lie on its nodes."""

from __future__ import annotations

from typing import NamedTuple


class ProcessLayout(NamedTuple):
    """So many processes on each of so many nodes, and what each has."""

    nodes: int = 1
    processes_per_node: int = 1
    cores: int | None = None  # of each process; None where nobody says
    threads: int | None = None  # of each process; None leaves them to the program
    sharing: int = 1  # processes that may share a core

    @property
    def processes(self) -> int:
        """Of the whole job."""
        return self.nodes * self.processes_per_node

    @property
    def slots(self) -> int:
        """What the processes of a node take of its scheduler: a slot each, or fewer where they share cores."""
        return -(-self.processes_per_node // self.sharing)

    @property
    def shares_cores(self) -> bool:
        return self.slots < self.processes_per_node

    @property
    def cores_per_node(self) -> int:
        """That the processes of a node take, one each where nobody says."""
        return self.slots * (self.cores or 1)

    @property
    def threads_of_process(self) -> int:
        """What is said, else one for each core."""
        return self.threads or self.cores or 1
