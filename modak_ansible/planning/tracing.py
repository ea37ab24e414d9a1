"""The trace of a training's need of memory: a short job of its own that runs the script without computing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from modak_ansible.errors import ModakError
from modak_ansible.model.distributed import PREPARED, Distributed, Mesh, meshes
from modak_ansible.model.job_options import ONE_PROCESS
from modak_ansible.model.measured.need import Need
from modak_ansible.model.plan import digest_of
from modak_ansible.model.request import Request
from modak_ansible.reading.blueprint.script.option import EPOCHS, plain_name
from modak_ansible.store.lists.kept_list import KeptList
from modak_ansible.target.core.files import read_json

_SECONDS = 900  # of the job; scripts that were traced took 3 to 30
VARIABLE, KIND = "MODAK_TRACE", "memory"
_RANKS = "MODAK_TRACE_RANKS"  # of how many the script is traced as one, besides
_WAYS = "MODAK_TRACE_WAYS"  # in which these are one training


def trace_alone(request: Request) -> Request:
    """A request for nothing but the trace of another one's training, by one process, as a deployment of its own."""
    return short_job(request, (VARIABLE, KIND), *_as_rank(request))


def short_job(request: Request, *variables: tuple[str, str]) -> Request:
    """A request for a short job that runs another one's training as one process, and does with it what these say."""
    resources, options = request.resources, request.job_options
    alone = {"nodes": 1, "processes_per_node": 1, "walltime": min(resources.walltime, _SECONDS), "memory": None}
    environment = (*request.application.environment, *variables)
    application = {"environment": environment, "outputs": (), "distributed": None, "post_execution": ()}
    unset = {**ONE_PROCESS, "wall_time_limit": None}
    return request.model_copy(
        update={
            "blueprint": f"{request.blueprint}-trace",
            "application": request.application.model_copy(update=application),
            "resources": resources.model_copy(update=alone),
            "job_options": options.model_copy(update=unset),
            "optimisation": request.optimisation.model_copy(
                update={"autotuning": False, "compare_with_stock": 0, "memory": "any"}
            ),
            "checkpoint": None,
            "scale": None,
            "need": None,
            "timed": None,
        }
    )


def _as_rank(request: Request) -> tuple[tuple[str, str], ...]:
    """Of how many ranks a script that prepare makes parallel is to be traced as one."""
    resources, options = request.resources, request.job_options
    nodes = options.node_count or resources.nodes
    ranks = nodes * (options.process_count_per_node or resources.processes_per_node)
    is_prepared = request.application.prepares and request.parallelism is None
    if not is_prepared or ranks == 1:
        return ()
    ways = " ".join(mesh.name for mesh in traced_meshes(request.application.distributed or Distributed(), ranks))
    return (_RANKS, str(ranks)), (_WAYS, ways)


def traced_meshes(distributed: Distributed, ranks: int) -> list[Mesh]:
    """Each strategy of all ranks, and copies in as few parts as can be, or in as many as are asked for."""
    all_meshes, requested = [*meshes(ranks)], distributed.mesh(ranks)
    if requested and distributed.degree:
        return [*all_meshes[: len(PREPARED)], requested]
    smallest = min((mesh.degree for mesh in all_meshes if 1 < mesh.degree < ranks), default=ranks)
    return [mesh for mesh in all_meshes if mesh.degree in (1, smallest, ranks)]


class Tracing:
    """Changes requests to those for a job that finds something out, and keeps the keys of what they are about.

    Args:
        alone: makes the request for that job.
    """

    def __init__(self, alone: Callable[[Request], Request] = trace_alone) -> None:
        self.key = ""
        self._alone = alone

    def __call__(self, request: Request) -> Request:
        self.key = key_of(request)
        return self._alone(request)


# --- what is kept: .modak/needs.json

_NEEDS = KeptList(
    Need,
    "needs",
    lambda need: (need.key,),
    lambda path: ModakError(
        f"{path}, the record of traced memory, cannot be read", hint="remove it: modak trace creates it again"
    ),
)


def key_of(request: Request) -> str:
    """A digest of all that decides what one process of a training needs, and what a step of it takes."""
    application = request.application
    about = application.model_dump(mode="json", include={"framework", "version", "script", "files"})
    about["arguments"] = [argument for argument in application.arguments if plain_name(argument[0]) not in EPOCHS]
    about["words"] = _without_epochs(application.words)
    accelerators = {"accelerators": True} if request.resources.accelerators else {}  # where a script puts its tensors
    return digest_of({**about, **accelerators, "image": request.image.source if request.image else ""})


def _without_epochs(words: Sequence[str]) -> list[str]:
    """A command line without the option that says how often the training goes through its data, and its value."""
    kept_words: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = plain_name(name.removeprefix("--")) in EPOCHS and (word.startswith("--") or bool(equals))
        if not is_value and not is_option:
            kept_words.append(word)
        is_value = is_option and not equals
    return kept_words


def known_needs(state: Path) -> dict[str, Need]:
    """What was traced before, by its keys.

    Raises:
        ModakError: the file is damaged.
    """
    return {need.key: need for need in _NEEDS.read(state)}


def note_need(state: Path, need: Need) -> None:
    """Remembers a trace in the place of an earlier one of the same training.

    Raises:
        ModakError: the file is damaged.
    """
    _NEEDS.put(state, need)


def need_from(results: Path, key: str, training: str) -> Need | None:
    """What the report of a trace says; None where there is none, or it is not whole.

    Args:
        key: of the request, before it was changed.
    """
    report = read_json(results / "applied.json") or {}
    memory = report.get("memory")
    if not isinstance(memory, dict) or not any(loop.get("steps") for loop in memory.get("loops", ())):
        return None
    try:
        return Need.model_validate({**memory, "key": key, "training": training})
    except ValidationError:  # another version's
        return None
