"""The options of a job as users write them, in requests and in blueprints; out come those of the model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model

from modak_ansible.model.job_options import (
    COMPONENT_OPTIONS,
    OPTIONS,
    DependencyKind,
    Event,
    JobComponent,
    JobDependency,
    JobOptions,
    Kind,
)
from modak_ansible.model.quantities import parse_size, parse_walltime
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem, Form, split, text

_ARRAY = re.compile(r"\d{1,9}(-\d{1,9}(:\d{1,9})?)?(,\d{1,9}(-\d{1,9}(:\d{1,9})?)?)*(%\d{1,9})?", re.ASCII)
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+", re.ASCII)
_SCHEDULERS_SIZE = re.compile(r"(\d{1,15})\s*([kKmMgGtT])([bB]?)", re.ASCII)
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\[\]-]*", re.ASCII)
_TORQUES_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(?:\.(\d{2}))?", re.ASCII)
_KINDS: tuple[DependencyKind, ...] = get_args(DependencyKind)
_EVENTS: dict[str, Event] = {"a": "abort", "b": "begin", "e": "end"}
# Other words for the same, first of all Slurm's; Torque's f, of a job that fails, is a part of Slurm's FAIL.
_EVENT_WORDS = {
    "ABORT": "a", "BEGIN": "b", "END": "e", "FAIL": "a", "F": "a", "ALL": "abe", "NONE": "n", "P": "n",
    "TIME_LIMIT": "a", "INVALID_DEPEND": "a",
}  # fmt: skip
_UNSUPPORTED_EVENTS = ("REQUEUE", "STAGE_OUT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS")


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
    match = _SCHEDULERS_SIZE.fullmatch(value.strip())
    power = " kmgt".index(match[2].lower()) if match else 0
    try:
        if match and (match[2] + match[3] not in ("kB", "MB", "GB", "TB")):
            size = int(match[1]) * 1024**power
        elif value.strip().isdigit():
            raise ValueError(f"{value!r} has no unit, and schedulers disagree about it")
        else:
            size = parse_size(value)
        if size < 1:
            raise ValueError("nothing is left to run in")
    except ValueError as error:
        hint = "" if "; write" in str(error) else 'write a number and a unit, such as "4 GB" or "512 MiB"'
        raise FieldProblem("size", str(error), hint) from error
    return size


def _array(value: str) -> str:
    if not _ARRAY.fullmatch(value):
        raise FieldProblem("job-array", f"{rules.quote(value)} is not a list of indices", "such as 0-9 or 1,3,5-7%2")
    return value


def _email(value: str) -> str:
    if not _EMAIL.fullmatch(value) or len(value) > 254:
        raise FieldProblem("email", f"{rules.quote(value)} is not an address of mail", "such as alice@example.org")
    return value


def _variable(value: str) -> str:
    name, _, content = value.partition("=")
    problem = rules.variable_problem(name) or rules.value_problem(content)
    if problem or "," in content or '"' in content:
        raise FieldProblem("unsafe-value", problem or f"{rules.quote(content)} holds a comma or a quote")
    return value


def _events(value: Any) -> Any:
    items = value if isinstance(value, tuple | list) else [value]
    words = [part for item in items for part in (item.replace(",", " ").split() if isinstance(item, str) else ["?"])]
    unsupported_events = [word for word in words if word.upper() in _UNSUPPORTED_EVENTS]
    if unsupported_events:
        hint = "ALL, or of a (abort), b (begin) and e (end)"
        raise FieldProblem("cannot-be-done", f"mail cannot be asked for of {', '.join(unsupported_events)}", hint)
    letters = {letter for word in words for letter in _EVENT_WORDS.get(word.upper(), word.replace("f", "a"))}
    if not letters <= {*_EVENTS, "n"} or ("n" in letters and len(letters) > 1):
        events = rules.quote(str(value))
        raise FieldProblem(
            "not-allowed-value", f"{events} is not made of a (abort), b (begin) and e (end)", "such as abe"
        )
    return tuple(_EVENTS[letter] for letter in "abe" if letter in letters)


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hint = "write it as 2026-11-22T03:00:00, by the target's own clock"
    match = _TORQUES_DATE.fullmatch(value.strip())
    try:
        if match:
            value = "{}-{}-{}T{}:{}:{}".format(*(group or "00" for group in match.groups()))
        moment = _iso_date(value.strip())
    except ValueError:
        raise FieldProblem("date", f"{rules.quote(value)} is not a date with a time", hint) from None
    if moment.tzinfo is not None:
        raise FieldProblem("date", f"{rules.quote(value)} names a time zone, which schedulers do not know", hint)
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
    known_kind = next((name for name in _KINDS if name == kind), None)
    if known_kind is None or not good:
        hint = f"a kind and ids, such as afterok:1234:1235; kinds: {', '.join(_KINDS)}"
        raise FieldProblem("job-dependency", f"{rules.quote(str(word))} is not what a job can wait for", hint)
    return JobDependency(kind=known_kind, jobs=tuple(jobs))


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
# Each kind of option as it is written, and read; without Any, mypy takes them for types.
_READ: dict[Kind, Any] = {
    "name": Name,
    "destination": Annotated[str, text(rules.destination_problem)],
    "account": Annotated[str, text(rules.account_problem)],
    "names": Annotated[tuple[Name, ...], split(",+")],
    "resources": Annotated[tuple[Annotated[str, text(rules.resource_problem)], ...], split(",")],
    "licenses": Annotated[tuple[Annotated[str, text(rules.license_problem)], ...], split(",")],
    "path": Annotated[str, text(rules.path_problem)],
    "constraint": Annotated[str, text(rules.constraint_problem)],
    "count": Count,
    "count or none": Annotated[int, Field(ge=0, le=1024)],
    "truth": bool,
    "wall time": WallTime,
    "size": Size,
    "array": Annotated[str, AfterValidator(_array)],
    "variables": Annotated[tuple[Annotated[str, AfterValidator(_variable)], ...], split()],
    "dependencies": Annotated[
        tuple[JobDependency, ...], BeforeValidator(_dependencies, json_schema_input_type=str | list[str])
    ],
    "events": Annotated[tuple[Event, ...], BeforeValidator(_events, json_schema_input_type=str | list[str])],
    "addresses": Annotated[tuple[Annotated[str, AfterValidator(_email)], ...], split(",;")],
    "moment": Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str)],
}


def _fields(names: Iterable[str]) -> dict[str, Any]:
    return {
        name: (_READ[OPTIONS[name].kind] | None, Field(None, description=OPTIONS[name].as_written)) for name in names
    }


class ComponentForm(create_model("ComponentForm", __base__=Form, **_fields(COMPONENT_OPTIONS))):  # type: ignore[misc]
    """Some nodes of a heterogeneous job, and how they differ; what is not said is as the job's options have it."""


def _components(components: dict[str, ComponentForm]) -> dict[str, ComponentForm]:
    for name in components:
        if problem := rules.name_problem(name):
            raise FieldProblem("unsafe-value", problem)
    # of one there is nothing to tell from it, and Slurm takes no more than so many (MAX_HET_JOB_COMPONENTS)
    if not 2 <= len(components) <= 128:
        raise FieldProblem("out-of-range", f"a heterogeneous job has 2 to 128 components, and not {len(components)}")
    return components


_READ["components"] = Annotated[dict[str, ComponentForm], AfterValidator(_components)]


class JobOptionsForm(create_model("JobOptionsForm", __base__=Form, **_fields(OPTIONS))):  # type: ignore[misc]
    """What the job asks of its scheduler; every option becomes a directive, where that has one."""

    def to_model(self) -> JobOptions:
        """The options in the model's units; of components the number of nodes is what they come to."""
        stated = _stated(self)
        if self.components:
            components = tuple(
                JobComponent(name=name, **_stated(component)) for name, component in self.components.items()
            )
            nodes = sum(component.node_count for component in components)
            stated = {"node_count": nodes, **stated, "components": components}
        return JobOptions(**stated)


def _stated(form: Form) -> dict[str, Any]:
    return {name: value for name, value in form if value is not None}
