"""What earlier jobs of a project found of its trainings, told to requests for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from modak_ansible.model.measured.need import Need, traced_work
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.request import Request
from modak_ansible.planning.timing import known_steps
from modak_ansible.planning.tracing import key_of, known_needs


class Measured(NamedTuple):
    """What a project's trainings were found to need, and how long steps of theirs took; nothing without arguments."""

    needs: Mapping[str, Need] = {}
    steps: Mapping[tuple[str, str], TimedSteps] = {}

    @classmethod
    def of(cls, state: Path) -> Self:
        """
        Raises:
            ModakError: a file of theirs is damaged.
        """
        return cls(known_needs(state), known_steps(state))

    def told(self, request: Request) -> Request:
        """A request with what was found of its training, where neither a record nor its user says more."""
        if not self.needs and not self.steps:
            return request
        update: dict[str, object] = {}
        key, work = key_of(request), request.application.work
        if timed := self.steps.get((key, request.target.address)):
            update["timed"] = timed
            counted = ("batch_size", "samples", "epochs", "parameters")
            work = work.model_copy(update={name: getattr(work, name) or getattr(timed, name) for name in counted})
        if need := self.needs.get(key):
            is_elsewhere = request.resources.accelerators and request.target.accelerator.memory
            update["need"] = need.on_accelerator() if is_elsewhere else need
            if work.gflop_per_sample is None and need.gflop_per_sample:
                measured_work = {
                    "gflop_per_sample": need.gflop_per_sample,
                    **traced_work(need.operators or (), need.samples).model_dump(exclude_unset=True),
                    "batch_size": work.batch_size or need.samples,
                    "samples": work.samples or need.samples_of_epoch,
                    "epochs": work.epochs or need.epochs,
                    "evaluated": need.evaluated,
                }
                work = work.model_copy(update=measured_work)
        if work is not request.application.work:
            update["application"] = request.application.model_copy(update={"work": work})
        return request.model_copy(update=update)
