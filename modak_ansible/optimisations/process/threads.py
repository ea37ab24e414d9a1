"""How many threads a process of the training uses."""

from __future__ import annotations

from modak_ansible.model.quantities import counted
from modak_ansible.optimisations.base import CannotPlan, Default, Draft, Optimisation, Option
from modak_ansible.optimisations.properties import Property

STOCK = "the framework's default"


class Threads(Optimisation):
    name = "threads"
    properties = (
        Property(
            "Threads per process; by default its cores, or fewer if that was measured as faster.",
            type="integer", default=None, least=1, in_application=True,
        ),
    )  # fmt: skip
    suite_default = ""  # a number is left open
    stock = (STOCK,)
    is_switch = False
    after = ("image",)
    acts_on = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        threads, cores = draft.request.optimisation.threads, draft.layout.cores
        if threads and cores and threads > cores:
            raise CannotPlan(
                "optimisation.threads", f"{threads} threads are more than the {counted(cores, 'core')} of a process",
                "ask for more cores_per_process, or for fewer threads", optional=True,
            )  # fmt: skip
        problem = "" if cores else "neither the blueprint nor the target says how many cores a process has"
        options = [Option(STOCK, problem or "as many as the framework sees cores, including those of other jobs")]
        numbers = {number for number in (threads, cores) if number}
        options += [Option(str(number), "one for each core that the process is given") for number in sorted(numbers)]
        if draft.node_cores and cores and draft.node_cores > cores:
            why_not = "the scheduler gives the other cores of the node to other jobs"
            options.append(Option(str(draft.node_cores), why_not=why_not))
        return tuple(options)

    def default(self, draft: Draft) -> Default | None:
        cores = draft.layout.cores
        return Default(str(cores), "one for each core that the process is given") if cores else None

    def alternatives(self, draft: Draft) -> tuple[Option, ...]:
        """Halves of the cores, down to one: small steps are done before all threads have begun."""
        cores = draft.layout.cores or 1
        halves = [cores >> power for power in range(1, cores.bit_length())]
        reason = "measured for this work: more threads take longer to start and synchronise than they save"
        return tuple(Option(str(number), reason, numerics="reassociation") for number in halves)

    def apply(self, draft: Draft, value: str) -> None:
        if value == STOCK:
            return
        draft.threads = int(value)
        variables = draft.entry.thread_variables if draft.entry else ("OMP_NUM_THREADS",)
        draft.environment.update(dict.fromkeys(variables, value))
