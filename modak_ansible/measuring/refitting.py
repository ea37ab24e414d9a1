"""From files of records to a performance model: of the project, or the one that ships."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from modak_ansible.errors import ModakError
from modak_ansible.measuring.records import read_records
from modak_ansible.measuring.suites.workloads import load_workloads
from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.work import Work
from modak_ansible.performance.fit.fitting import fit
from modak_ansible.performance.stored import Stored
from modak_ansible.store.project import RECORDS, shipped


def fit_files(files: Sequence[Path]) -> Stored:
    """The model of all records in some files.

    Raises:
        ModakError: a file is damaged, with its line, or there is nothing to fit.
    """
    return fit(read_all(files), works())


def read_all(files: Iterable[Path]) -> list[Record]:
    """The records of some files, each file once and each run once, in an order that does not depend on the files'.

    Raises:
        ModakError: a file cannot be read, or a line of it is no record.
    """
    unique_paths = {path.resolve(): path for path in files}
    if not unique_paths:
        raise ModakError("there are no records", hint="modak bench run today-cpu measures some")
    records = {
        record.model_dump_json(by_alias=True): record for path in unique_paths.values() for record in read_records(path)
    }
    return [records[line] for line in sorted(records)]


def files_of_records(state: Path | None) -> list[Path]:
    """The files of records that ship, and those of a project's state folder."""
    own = sorted((state / RECORDS).glob("*.jsonl")) if state else []
    files = (path for ending in ("jsonl", "jsonl.xz") for path in (shipped("benchmarks") / RECORDS).glob(f"*.{ending}"))
    return [*sorted(files), *own]


def works() -> dict[str, Work]:
    """What the trainings of benchmarks/ compute, by workload."""
    trainings = {name: workload for name, workload in load_workloads().items() if workload.kind == "training"}
    networks = {
        f"{name}/{network}": traced.model_copy(update={"workload": f"{name}/{network}"})
        for name, workload in trainings.items()
        for network, traced in workload.traced.items()
    }
    return networks | {
        name: workload.traced.get(name, Work()).model_copy(
            update={
                "workload": name,
                "gflop_per_sample": workload.gflop_per_image,
                "parameters": workload.parameters,
                "layers": workload.layers,
                "sample_bytes": workload.bytes_per_image,
            }
        )
        for name, workload in trainings.items()
    }
