"""What the directives of all schedulers share: which texts may stand there, and what to say where none can.

A directive is a line of its own that no shell reads, so nothing in it can be quoted: whatever is not plain is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from modak_ansible.model.job_options import JobOptions
    from modak_ansible.model.plan import PlannedJob

MEBIBYTE = 2**20
PLAIN = re.compile(r"[A-Za-z0-9_.:=,+@/{}-]*", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*", re.ASCII)
_LICENSE = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]*([:=][A-Za-z0-9_][A-Za-z0-9_.:/+-]*)?", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+%-]*(@[A-Za-z0-9_][A-Za-z0-9_.-]*)?", re.ASCII)
_FILE = re.compile(r"/?[A-Za-z0-9_][A-Za-z0-9_.+@=%/-]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.:=+@/%-]*)?", re.ASCII)
# What modak itself keeps in a deployment's folder.
_TAKEN = (
    "output.log",
    "error.log",
    "job.sh",
    "plan.json",
    "metrics.json",
    "metrics.jsonl",
    "applied.json",
    "state",
    "code",
    "runtime",
)
# What the job's script unsets, so that the image's own Python is what runs.
_UNSET = ("PYTHONPATH", "PYTHONHOME")


class CannotExpress(ValueError):
    """What a job asks for has no correct directive; ``about`` names it, such as ``job_options.job_array``."""

    def __init__(self, about: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.about = about
        self.message = message
        self.hint = hint


def plain(about: str, text: str, pattern: re.Pattern[str] = NAME, what: str = "", hint: str = "") -> str:
    """The text itself, where it is of the pattern.

    Raises:
        CannotExpress: it holds a space, a quote, a line break or whatever else the pattern has not.
    """
    if not pattern.fullmatch(text):
        suffix = f" as {what}" if what else ""
        raise CannotExpress(about, f"{text[:60]!r} cannot be written in a directive of a job script{suffix}", hint)
    return text


def license_of(text: str) -> tuple[str, str]:
    """The name of what a whole job needs, and how much of it, or which; empty where that is not said."""
    name, *value = re.split("[:=]", plain("job_options.licenses", text, _LICENSE, "a licence"), maxsplit=1)
    return name, "".join(value)


def addresses(texts: Iterable[str]) -> list[str]:
    return [plain("job_options.email_address", text, _ADDRESS, "an address for mail") for text in texts]


def variables(texts: Iterable[str]) -> list[str]:
    """Variables as ``NAME`` or ``NAME=value``.

    Raises:
        CannotExpress: a value with a comma, a space or a quote, which directives cannot carry; or a variable that the
            job unsets.
    """
    about, checked = "job_options.copy_environment_variable", []
    for text in texts:
        name = text.partition("=")[0]
        if name in _UNSET:
            hint = "put packages of your own in requirements_txt or beside the script"
            raise CannotExpress(about, f"{name} would be unset: the job runs the image's own Python", hint)
        if not _VARIABLE.fullmatch(text):
            message = f"{text[:60]!r} cannot be written in a directive: no value there may have a space, comma or quote"
            raise CannotExpress(about, message, "set it as an environment variable of the training instead")
        checked.append(text)
    return checked


class Patterns(NamedTuple):
    """What a scheduler puts in place of a % in the name of a file."""

    title: str  # of the scheduler
    after: str = ""  # what may follow a %, as a regular expression; empty where nothing is put there
    example: str = ""


def output_files(options: JobOptions, patterns: Patterns) -> tuple[str, str]:
    """Where a scheduler writes what a job says, and its errors; these under no name where they go to the same file.

    Args:
        patterns: what the scheduler replaces.

    Raises:
        CannotExpress: errors are to have a file and none, or a path that no scheduler would find or modak needs itself.
    """
    output, error = options.standard_output_file, options.standard_error_file
    name = _file_name("job_options.standard_output_file", output, patterns=patterns) if output else "scheduler.log"
    if error and options.combine_stdout_stderr:
        message = f"errors are to go to {error}, and also where the output goes"
        raise CannotExpress("job_options.combine_stdout_stderr", message, "leave one of the two out")
    return name, _file_name("job_options.standard_error_file", error, patterns=patterns) if error else ""


def _file_name(about: str, text: str, *, patterns: Patterns) -> str:
    """A name in the deployment's folder, or an absolute path.

    Raises:
        CannotExpress: a path that no scheduler would find, or a file that modak needs itself.
    """
    plain(about, text, _FILE, "a file")
    if ".." in text.split("/") or text.endswith("/"):
        raise CannotExpress(about, f"{text} is not a file below its folder")
    if "/" in text.lstrip("/") and not text.startswith("/"):
        hint = "give a name, which is put in the deployment's folder, or an absolute path whose folder exists"
        raise CannotExpress(about, f"the folder of {text} will not exist when the job begins", hint)
    if text in _TAKEN:
        raise CannotExpress(about, f"{text} is one of modak's own files in the same folder", "take another name")
    if "%" in text and not patterns.after:
        raise CannotExpress(about, f"{text}: {patterns.title} does not replace a %", "leave the % out")
    if re.search(rf"%(?!{patterns.after})", text):
        message = f"{text}: what follows the % is not a pattern of {patterns.title}"
        raise CannotExpress(about, message, f"such as {patterns.example}")
    return text


def start(moment: datetime) -> datetime:
    """When a job may begin, in whole seconds of the target's own clock.

    Raises:
        CannotExpress: with a time zone, which schedulers do not take, or with parts of a second.
    """
    about = "job_options.defer_job"
    if moment.tzinfo is not None:
        hint = "give the target's local time, without Z or an offset"
        raise CannotExpress(about, f"{moment.isoformat()}: schedulers count in the target's local time", hint)
    if moment.microsecond:
        raise CannotExpress(about, f"{moment.isoformat()}: schedulers count in whole seconds", "leave out the fraction")
    return moment


def memory_of_node(job: PlannedJob) -> int:
    """The bytes that a job asks for on each of its nodes, by itself or for each core; 0 for none."""
    return max(job.memory or 0, (job.options.minimum_memory_per_processor or 0) * job.layout.cores_per_node)


def mebibytes(size: int) -> int:
    """Bytes in MiB, rounded up, at least one."""
    return max(1, -(-size // MEBIBYTE))
