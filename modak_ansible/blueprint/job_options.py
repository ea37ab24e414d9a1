"""The options of a job as users write them, in requests and in blueprints; out come those of the model."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from modak_ansible.blueprint.forms import text_rules as rules
from modak_ansible.blueprint.forms.forms import FieldProblem, Form, split, text
from modak_ansible.model.job_options import JobDependency, JobOptions
from modak_ansible.model.quantities import parse_size, parse_walltime

_ARRAY = re.compile(r"\d{1,9}(-\d{1,9}(:\d{1,9})?)?(,\d{1,9}(-\d{1,9}(:\d{1,9})?)?)*(%\d{1,9})?", re.ASCII)
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+", re.ASCII)
_SCHEDULERS_SIZE = re.compile(r"(\d{1,15})\s*([kKmMgGtT])([bB]?)", re.ASCII)
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\[\]-]*", re.ASCII)
_TORQUES_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(?:\.(\d{2}))?", re.ASCII)
_KINDS: tuple[Literal["after", "afterany", "afterok", "afternotok", "singleton"], ...] = (
    "after",
    "afterany",
    "afterok",
    "afternotok",
    "singleton",
)
_EVENTS: dict[str, Literal["abort", "begin", "end"]] = {"a": "abort", "b": "begin", "e": "end"}
# Other words for the same, first of all Slurm's; Torque's f, of a job that fails, is a part of Slurm's FAIL.
_EVENT_WORDS = {
    "ABORT": "a", "BEGIN": "b", "END": "e", "FAIL": "a", "F": "a", "ALL": "abe", "NONE": "n", "P": "n",
    "TIME_LIMIT": "a", "INVALID_DEPEND": "a",
}  # fmt: skip
_UNTOLD_EVENTS = ("REQUEUE", "STAGE_OUT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS")


def seconds_of(value: Any) -> Any:
    """Seconds of a wall time."""
    if not isinstance(value, str):
        return value
    try:
        return parse_walltime(value)
    except ValueError as error:
        raise FieldProblem("walltime", str(error)) from error


def bytes_of(value: Any) -> Any:
    """Bytes of a size; a size as schedulers write it (16gb, 16G) is in powers of two, as they read it."""
    if not isinstance(value, str):
        return value
    found = _SCHEDULERS_SIZE.fullmatch(value.strip())
    power = " kmgt".index(found[2].lower()) if found else 0
    try:
        if found and (found[2] + found[3] not in ("kB", "MB", "GB", "TB")):
            size = int(found[1]) * 1024**power
        elif value.strip().isdigit():
            raise ValueError(f"{value!r} has no unit, and schedulers disagree about it")
        else:
            size = parse_size(value)
        if size < 1:
            raise ValueError("nothing is left to run in")
    except ValueError as error:
        raise FieldProblem("size", str(error), 'write a number and a unit, such as "4 GB" or "512 MiB"') from error
    return size


def _array(value: str) -> str:
    if not _ARRAY.fullmatch(value):
        raise FieldProblem("job-array", f"{rules.shown(value)} is not a list of indices", "such as 0-9 or 1,3,5-7%2")
    return value


def _email(value: str) -> str:
    if not _EMAIL.fullmatch(value) or len(value) > 254:
        raise FieldProblem("email", f"{rules.shown(value)} is not an address of mail", "such as alice@example.org")
    return value


def _variable(value: str) -> str:
    name, _, given = value.partition("=")
    problem = rules.variable_problem(name) or rules.value_problem(given)
    if problem or "," in given or '"' in given:
        raise FieldProblem("unsafe-value", problem or f"{rules.shown(given)} holds a comma or a quote")
    return value


def _events(value: Any) -> Any:
    given = value if isinstance(value, tuple | list) else [value]
    words = [part for each in given for part in (each.replace(",", " ").split() if isinstance(each, str) else ["?"])]
    untold = [word for word in words if word.upper() in _UNTOLD_EVENTS]
    if untold:
        hint = "ALL, or of a (abort), b (begin) and e (end)"
        raise FieldProblem("cannot-be-done", f"mail is not asked for of {', '.join(untold)}", hint)
    found = {letter for word in words for letter in _EVENT_WORDS.get(word.upper(), word.replace("f", "a"))}
    if not found <= {*_EVENTS, "n"} or ("n" in found and len(found) > 1):
        shown = rules.shown(str(value))
        raise FieldProblem(
            "not-allowed-value", f"{shown} is not made of a (abort), b (begin) and e (end)", "such as abe"
        )
    return tuple(_EVENTS[letter] for letter in "abe" if letter in found)


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hint = "write it as 2026-11-22T03:00:00, by the target's own clock"
    found = _TORQUES_DATE.fullmatch(value.strip())
    try:
        if found:
            value = "{}-{}-{}T{}:{}:{}".format(*(each or "00" for each in found.groups()))
        moment = _iso_date(value.strip())
    except ValueError:
        raise FieldProblem("date", f"{rules.shown(value)} is not a date with a time", hint) from None
    if moment.tzinfo is not None:
        raise FieldProblem("date", f"{rules.shown(value)} names a time zone, which schedulers do not know", hint)
    return moment.replace(microsecond=0)


def _iso_date(value: str) -> datetime:
    if not re.match(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}", value):
        raise ValueError(value)
    return datetime.fromisoformat(value)


def _dependencies(value: Any) -> Any:
    words = value.replace(" ", "").split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        return value
    return tuple(_dependency(word) for word in words)


def _dependency(word: Any) -> JobDependency:
    kind, *jobs = word.split(":") if isinstance(word, str) else ("",)
    good = all(_JOB_ID.fullmatch(job) for job in jobs) and (bool(jobs) != (kind == "singleton"))
    found = next((each for each in _KINDS if each == kind), None)
    if found is None or not good:
        hint = f"a kind and ids, such as afterok:1234:1235; kinds: {', '.join(_KINDS)}"
        raise FieldProblem("job-dependency", f"{rules.shown(str(word))} is not what a job can wait for", hint)
    return JobDependency(kind=found, jobs=tuple(jobs))


Name = Annotated[str, text(rules.name_problem)]
Count = Annotated[int, Field(ge=1, le=10**7)]
WallTime = Annotated[
    str,
    AfterValidator(seconds_of),
    WithJsonSchema({"type": "string", "pattern": r"^\s*(\d{1,4}-)?\d{1,5}:\d{2}:\d{2}\s*$"}),
]
Size = Annotated[
    str,
    AfterValidator(bytes_of),
    WithJsonSchema({"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]([iI]?[bB])?|B)\s*$"}),
]
_Word = Annotated[str, text(rules.name_problem)]
_FilePath = Annotated[str, text(rules.path_problem)]


class JobOptionsForm(Form):
    """What the job asks of the scheduler; every option becomes a directive of Slurm or Torque."""

    job_name: Name | None = Field(None, description="The job's name; the deployment is called so, too.")
    account: Name | None = Field(None, description="The account that the job is charged to.")
    queue: Name | None = Field(None, description="The queue; under Slurm the partition.")
    partition: Name | None = Field(None, description="The partition; under Torque that of an outer scheduler.")
    qos: Name | None = Field(None, description="The quality of service; under Torque that of Maui or Moab.")
    wall_time_limit: WallTime | None = Field(None, description="The longest it may run, HH:MM:SS or D-HH:MM:SS.")
    node_count: Count | None = Field(None, description="Nodes.")
    process_count_per_node: Count | None = Field(None, description="Processes of each node.")
    core_count: Count | None = Field(
        None, description="Processes of the job; with both numbers above, the cores that these share, of job or node."
    )
    core_count_per_process: Count | None = Field(None, description="Cores of each process.")
    memory_limit: Size | None = Field(
        None, description="Memory of each node (Slurm) or of the job (Torque), with a unit."
    )
    minimum_memory_per_processor: Size | None = Field(None, description="Memory for each core, with a unit.")
    request_gpus: Annotated[int, Field(ge=0, le=1024)] | None = Field(None, description="Accelerators of each node.")
    request_specific_nodes: Annotated[tuple[_Word, ...], split(",+")] | None = Field(
        None, description="Nodes by name, or one property that the nodes must have."
    )
    architecture_constraint: Annotated[str, text(rules.constraint_problem)] | None = Field(
        None, description="Features or properties that the nodes must have, such as ib&zen4."
    )
    job_array: Annotated[str, AfterValidator(_array)] | None = Field(
        None, description="Refused: a deployment watches one job."
    )
    standard_output_file: _FilePath | None = Field(None, description="Where the scheduler writes the job's output.")
    standard_error_file: _FilePath | None = Field(None, description="Where the scheduler writes the job's errors.")
    combine_stdout_stderr: bool | None = Field(None, description="Whether errors go where the output goes.")
    copy_environment: bool | None = Field(None, description="Whether the job gets the whole submitting environment.")
    copy_environment_variable: Annotated[tuple[Annotated[str, AfterValidator(_variable)], ...], split()] | None = Field(
        None, description="Variables that the job gets: NAME, or NAME=value."
    )
    job_dependency: (
        Annotated[tuple[JobDependency, ...], BeforeValidator(_dependencies, json_schema_input_type=str | list[str])]
        | None
    ) = Field(None, description="Jobs to wait for, such as afterok:1234:1235.")
    request_event_notification: (
        Annotated[
            tuple[Literal["abort", "begin", "end"], ...],
            BeforeValidator(_events, json_schema_input_type=str | list[str]),
        ]
        | None
    ) = Field(None, description="When mail is sent: a (abort), b (begin), e (end); or Slurm's ALL, FAIL, BEGIN, END.")
    email_address: Annotated[tuple[Annotated[str, AfterValidator(_email)], ...], split(",;")] | None = Field(
        None, description="Who gets the mail."
    )
    defer_job: Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str)] | None = Field(
        None, description="Not to be started before this moment of the target's clock."
    )
    node_exclusive: bool | None = Field(None, description="Whether the job has its nodes to itself.")

    def to_model(self) -> JobOptions:
        """The options in the model's units."""
        return JobOptions(**{name: value for name, value in self if value is not None})
