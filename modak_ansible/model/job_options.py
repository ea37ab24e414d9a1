"""What a job asks of its scheduler, in the words that are the same for all of them: each option is declared here."""

import re
from collections.abc import Container
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from modak_ansible.model.base import Model

DependencyKind = Literal["after", "afterany", "afterok", "afternotok", "singleton"]
Event = Literal["abort", "begin", "end"]
# How users write an option; blueprint/job_options.py reads each kind.
Kind = Literal[
    "name", "names", "destination", "account", "path", "constraint", "count", "count or none", "truth", "resources",
    "licenses", "wall time", "size", "array", "variables", "dependencies", "events", "addresses", "moment",
    "components",
]  # fmt: skip
_UNITS = {"wall time": ("HH:MM:SS or D-HH:MM:SS", "in seconds"), "size": ("with a unit", "in bytes")}


class Option(NamedTuple):
    """What there is to say of an option besides its type in a plan.

    The form of requests, the TOSCA type (tosca/types) and the tables of docs/ follow from it, by ``make generate``.
    """

    meaning: str  # what it asks for, for users; how it is written or counted follows from its kind
    kind: Kind  # how users write it
    slurm: str  # the directive of Slurm, for docs/jobs.md
    torque: str  # that of Torque
    pbspro: str = ""  # that of PBS Professional; empty where it is Torque's
    lsf: str = ""  # that of LSF
    resource: str = ""  # the field of ``Resources`` that says the same; empty where none does
    is_other_under_torque: bool = False  # whether Torque means something else by it than that field
    # why a machine without a scheduler has no use for it; empty where the job's script keeps it
    without_scheduler: str = ""

    @property
    def as_written(self) -> str:
        """A sentence for who writes it."""
        return self._with_unit(0)

    @property
    def as_planned(self) -> str:
        """A sentence for who reads it in a plan."""
        return self._with_unit(1)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "description": self.as_planned}

    def _with_unit(self, index: int) -> str:
        return f"{self.meaning}, {_UNITS[self.kind][index]}." if self.kind in _UNITS else f"{self.meaning}."


class JobDependency(Model):
    """Other jobs that are waited for."""

    kind: DependencyKind
    jobs: tuple[str, ...] = Field(default=(), description="ids; none for singleton, which Torque has not")


_Words = tuple[str, ...]


class JobComponent(Model):
    """Some nodes of a heterogeneous job: what is None or empty is as the job's own options have it.

    Its fields are those options that say which nodes a job gets. Processes, cores and accelerators are the same on all
    of them, as the ranks of one training are alike.
    """

    name: str
    node_count: int = Field(default=1, ge=1)
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    gres: _Words = ()
    memory_limit: int | None = Field(default=None, ge=1)
    minimum_memory_per_processor: int | None = Field(default=None, ge=1)
    request_specific_nodes: _Words = ()
    architecture_constraint: str | None = None

    @property
    def stated(self) -> dict[str, object]:
        """The options that it says itself."""
        return {name: value for name, value in self if name != "name" and value not in (None, ())}


class JobOptions(Model):
    """Every option of a job; what is None, empty or False is not asked for, and has no directive.

    What the request's ``Resources`` say, too, a planner may change; a plan's job has the final ones of both.
    """

    job_name: Annotated[
        str | None,
        Option("The job's name, which is also the deployment's", "name", "`--job-name`", "`-N`", lsf="`-J`"),
    ] = None
    account: Annotated[
        str | None,
        Option("The account that the job is charged to", "account", "`--account`", "`-A`",
               lsf="`-P`", without_scheduler="nobody is charged"),
    ] = None  # fmt: skip
    project: Annotated[
        str | None,
        Option("The PBS Professional project, if a site requires one beside or instead of the account", "account",
               "-", "-", "`-P`", lsf="-", without_scheduler="nobody is charged"),
        Field(exclude_if=lambda value: value is None),
    ] = None  # fmt: skip
    queue: Annotated[
        str | None,
        Option("The queue, which may be another server's (workq@server); under Slurm the partition, or several "
               "(gpu,preempt)", "destination", "`--partition`", "`-q`", lsf="`-q`",
               resource="partition", without_scheduler="there are no queues"),
    ] = None  # fmt: skip
    partition: Annotated[
        str | None,
        Option("The partition, or several, of which the first with room is used (gpu,preempt); under "
        "Torque that of an outer scheduler", "destination", "`--partition`", "`-l partition=`", "`-q`", lsf="`-q`",
               resource="partition", is_other_under_torque=True,
               without_scheduler="there are no partitions"),
    ] = None  # fmt: skip
    qos: Annotated[
        str | None,
        Option("The quality of service; under Torque that of Maui or Moab", "name", "`--qos`", "`-l qos=`", "-",
               lsf="`-sla`", without_scheduler="there is one quality of service"),
        Field(exclude_if=lambda value: value is None),  # plans without it keep the digest that they had before it
    ] = None  # fmt: skip
    reservation: Annotated[
        str | None,
        Option("The reservation that the job runs in", "name", "`--reservation`", "`-l advres=`", "-, its queue",
               lsf="`-U`", without_scheduler="nothing is reserved"),
        Field(exclude_if=lambda value: value is None),
    ] = None  # fmt: skip
    gres: Annotated[
        _Words,
        Option("Generic resources of each node beside accelerators, such as nvme:1", "resources", "`--gres`", "-",
               lsf="`-R rusage[nvme=1/host]`", without_scheduler="nobody hands them out"),
        Field(exclude_if=lambda value: not value),
    ] = ()  # fmt: skip
    licenses: Annotated[
        _Words,
        Option("What the whole job needs besides nodes, such as licences (matlab:2) or file systems "
        "that the site requires (filesystems=home:eagle)", "licenses", "`--licenses`", "-", "`-l matlab=2`", lsf="-",
               without_scheduler="nobody hands them out"),
        Field(exclude_if=lambda value: not value),
    ] = ()  # fmt: skip
    wall_time_limit: Annotated[
        int | None,
        Option("The longest it may run", "wall time", "`--time=D-HH:MM:SS`", "`-l walltime=HH:MM:SS`",
               lsf="`-W H:MM`", resource="walltime"),
        Field(ge=1),
    ] = None  # fmt: skip
    node_count: Annotated[
        int | None,
        Option("Nodes", "count", "`--nodes`", "`-l nodes=N`", "`-l select=N:`",
               lsf="in `-n`, with `-R span[ptile=]`", resource="nodes"),
        Field(ge=1),
    ] = None  # fmt: skip
    process_count_per_node: Annotated[
        int | None,
        Option("Processes per node", "count", "`--ntasks-per-node`", "`:ppn=`, a slot for each core",
               "`:mpiprocs=`",
               lsf="in `-R span[ptile=]`, a slot for each core", resource="processes_per_node"),
        Field(ge=1),
    ] = None  # fmt: skip
    core_count: Annotated[
        int | None,
        Option("Processes of the job; with both numbers above, the cores that these share, per job or node", "count",
               "`--ntasks`", "`-l procs=`, where nothing is said of nodes",
               "in `select`", lsf="in `-n`"),
        Field(ge=1),
    ] = None  # fmt: skip
    core_count_per_process: Annotated[
        int | None,
        Option("Cores per process", "count", "`--cpus-per-task`", "in `ppn`", "in `:ncpus=`",
               lsf="in `-R span[ptile=]`", resource="cores_per_process"),
        Field(ge=1),
    ] = None  # fmt: skip
    memory_limit: Annotated[
        int | None,
        Option("Memory of each node, or under Torque of the job", "size", "`--mem`", "`-l mem=`", "`:mem=`",
               lsf="`-R rusage[mem=MB/host]`, `-M` of the job", resource="memory", is_other_under_torque=True,
               without_scheduler="nobody keeps to it"),
        Field(ge=1),
    ] = None  # fmt: skip
    minimum_memory_per_processor: Annotated[
        int | None,
        Option("Memory for each core", "size", "`--mem-per-cpu`, not beside `memory_limit`", "`-l pmem=`", "in `:mem=`",
               lsf="in `-R rusage[mem=]`", without_scheduler="nobody keeps to it"),
        Field(ge=1),
    ] = None  # fmt: skip
    request_gpus: Annotated[
        int | None,
        Option("Accelerators per node", "count or none",
               "`--gres=gpu:N`, or as the site's `gpu_request` says", "`:gpus=N`", "`:ngpus=N`",
               lsf='`-gpu "num=N:j_exclusive=yes"`', resource="accelerators"),
        Field(ge=0),
    ] = None  # fmt: skip
    request_specific_nodes: Annotated[
        _Words,
        Option("Nodes by name, or one property that the nodes must have", "names",
               "`--nodelist`; one name for several nodes is a feature: `--constraint`",
               "`nodes=a:ppn=1+b:ppn=1`; one name for several is a property", "`:host=`, each by name",
               lsf="`-m`, as many as nodes; one name for several is a resource: `-R select[]`",
               without_scheduler="there is one machine"),
    ] = ()  # fmt: skip
    exclude: Annotated[
        _Words,
        Option("Nodes, by name, that the job must not get, such as a broken one", "names", "`--exclude`", "-",
               lsf="-", without_scheduler="there is one machine"),
        Field(exclude_if=lambda value: not value),
    ] = ()  # fmt: skip
    architecture_constraint: Annotated[
        str | None,
        Option("Features or properties that the nodes must have, such as ib&zen4", "constraint",
               r"`--constraint`: `ib&zen4`, `(rome\|milan)&ib`, `[rack1\|rack2]`, `[rack1*2&rack2*4]`",
               "properties, with `&` alone", "resources, with `&` alone: `:ib=True` of `ib`; `:cpu=zen4` of `cpu=zen4`",
               lsf=r"`-R select[]`: `ib&cpu=zen4`, `(rome\|milan)&ib`", without_scheduler="there is one machine"),
    ] = None  # fmt: skip
    job_array: Annotated[
        str | None,
        Option("Refused: a deployment watches one job", "array", "-", "-",
               lsf="-", without_scheduler="there are no arrays"),
    ] = None  # fmt: skip
    standard_output_file: Annotated[
        str | None,
        Option("Where the scheduler writes the job's output", "path", "`--output`", "`-o`",
               lsf="`-o`", without_scheduler="output.log comes back with the results"),
    ] = None  # fmt: skip
    standard_error_file: Annotated[
        str | None,
        Option("Where the scheduler writes the job's errors", "path", "`--error`", "`-e`",
               lsf="`-e`", without_scheduler="error.log comes back with the results"),
    ] = None  # fmt: skip
    combine_stdout_stderr: Annotated[
        bool,
        Option("Whether errors go where the output goes", "truth", "without `--error`", "`-j oe`", lsf="without `-e`"),
    ] = False
    copy_environment: Annotated[
        bool,
        Option("Whether the job gets the whole submitting environment", "truth", "`--export=ALL`", "`-V`",
               lsf="`-env all`"),
    ] = False  # fmt: skip
    copy_environment_variable: Annotated[
        _Words,
        Option("Variables that the job gets: NAME, or NAME=value", "variables", "`--export=A,B=1`", "`-v A,B=1`",
               lsf="`-env A, B=1`", without_scheduler="set it as an environment variable of the training"),
    ] = ()  # fmt: skip
    job_dependency: Annotated[
        tuple[JobDependency, ...],
        Option("Jobs to wait for, such as afterok:1234:1235", "dependencies", "`--dependency`",
               "`-W depend=`; no `singleton`", lsf="`-w done(1) && ended(2)`; no `singleton`",
               without_scheduler="the job starts at once"),
    ] = ()  # fmt: skip
    request_event_notification: Annotated[
        tuple[Event, ...],
        Option("When mail is sent: a (abort), b (begin), e (end); or Slurm's ALL, FAIL, BEGIN, END", "events",
               "`--mail-type` (`FAIL,BEGIN,END`; `ALL` is all three)", "`-m abe`",
               lsf="`-B` and `-N`, or `-Ne`", without_scheduler="nobody sends mail"),
    ] = ()  # fmt: skip
    email_address: Annotated[
        _Words,
        Option("Who gets the mail", "addresses", "`--mail-user`, one", "`-M`",
               lsf="`-u`", without_scheduler="nobody sends mail"),
    ] = ()  # fmt: skip
    defer_job: Annotated[
        datetime | None,
        Option("Do not start before this time, by the target's clock", "moment", "`--begin`",
               "`-a CCYYMMDDhhmm.SS`", lsf="`-b Y:M:D:h:mm`", without_scheduler="the job starts at once"),
    ] = None  # fmt: skip
    node_exclusive: Annotated[
        bool,
        Option("Whether the job has its nodes to itself", "truth", "`--exclusive`", "`-l naccesspolicy=singlejob`",
               "`-l place=scatter:exclhost`",
               lsf="`-x`", resource="exclusive", without_scheduler="nobody keeps others away"),
    ] = False  # fmt: skip
    components: Annotated[
        tuple[JobComponent, ...],
        Option("Components of a heterogeneous job by their names, the first with the first rank, each with node_count "
               "and the options in which its nodes differ from the others", "components",
               "`hetjob` between their directives; `srun --het-group`", "-", lsf="-",
               without_scheduler="there is one machine"),
        Field(exclude_if=lambda value: not value),
    ] = ()  # fmt: skip

    @property
    def counts_cores_only(self) -> bool:
        """Whether a job asks for cores wherever they are."""
        return bool(self.core_count and not self.node_count and not self.process_count_per_node)


# Every option by its name, in the order of the tables.
OPTIONS: dict[str, Option] = {
    name: next(metadatum for metadatum in field.metadata if isinstance(metadatum, Option))
    for name, field in JobOptions.model_fields.items()
}


def meant_by(word: str, names: Container[str]) -> str:
    """The one of some names of options that a scheduler's own word stands for, such as ``mail-user``; else the word."""
    pattern = re.compile(rf"`(?:--|-l |:){re.escape(word.lstrip('-').replace('_', '-'))}[=`]")
    option_texts = (
        (name, (option.slurm, option.torque, option.pbspro)) for name, option in OPTIONS.items() if name in names
    )
    return next((name for name, texts in option_texts if any(map(pattern.match, texts))), word)


# The options that a component may have of its own.
COMPONENT_OPTIONS = tuple(name for name in JobComponent.model_fields if name != "name")


# What of the options asks for several processes, as they are without it.
ONE_PROCESS: dict[str, tuple[()] | None] = {
    "node_count": None, "process_count_per_node": None, "core_count": None, "components": (),
}  # fmt: skip


def cores_by_count(count: int, nodes: int, per_node: int) -> int | None:
    """Cores of a process, where core_count is said besides nodes and processes on each; None where they contradict.

    It is of the whole job where that comes out even. Else it is of a node: jobs that the first MODAK took ask for two
    nodes with 40 processes each and core_count 40, which is what a node of theirs has.
    """
    for processes in (nodes * per_node, per_node):
        if count % processes == 0:
            return count // processes
    return None
