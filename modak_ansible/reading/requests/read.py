"""A request as it was read."""

from __future__ import annotations

from dataclasses import dataclass

from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes


@dataclass(frozen=True)
class Read:
    """A request that was read: its form, where its mistakes go, and the image where it asks for nothing else."""

    job: JobForm
    notes: Notes
    image: str = ""
