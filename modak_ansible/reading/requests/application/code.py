"""What a request runs, and the user's own files that travel with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePosixPath

from modak_ansible.errors import close_to
from modak_ansible.model.application import NOTHING, SourceFile
from modak_ansible.model.distributed import Parallelism
from modak_ansible.model.measured.workload import Workload
from modak_ansible.reading.blueprint import files
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.blueprint.script.counting import counting
from modak_ansible.reading.blueprint.script.folder import ScriptFolders
from modak_ansible.reading.requests.application.data import Data
from modak_ansible.reading.requests.application.program import Program, program_of, words_of
from modak_ansible.reading.requests.checks import APPLICATION
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.targets import TARGETS_FILE
from modak_ansible.sources.local import brought_files
from modak_ansible.target.core.files import exists, is_file

# What modak plan --output always writes.
OUTPUT_FILES = ("plan.json", "job.sh")
_LAUNCHERS = ("mpirun", "mpiexec", "srun", "aprun", "orterun", "ibrun")


@dataclass(frozen=True)
class Code:
    """What runs, as the model's application has it."""

    folder: str = ""
    script: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str | bool], ...] = ()
    words: tuple[str, ...] = ()
    files: tuple[SourceFile, ...] = ()
    beside: tuple[SourceFile, ...] = ()
    workload: Workload | None = None
    prepares: bool = False
    parallelism: Parallelism | None = None


def code_of(job: JobForm, file: Path, data: Data, notes: Notes) -> Code:
    """What a job runs; what is wrong with it is noted.

    Args:
        data: a path on the target takes the place of ``{dataset}``.
    """
    runs, folder = job.runs, file.parent
    if job.application is None:
        return Code(command=NOTHING)
    executable = (*APPLICATION, "executable")
    if runs.executable is None:
        notes.refuse(executable, FieldProblem("missing-field", "there is nothing to run", "executable: train.py"))
        return Code()
    try:
        arguments = words_of(runs.arguments) if isinstance(runs.arguments, str) else runs.arguments
    except FieldProblem as problem:
        notes.refuse((*APPLICATION, "arguments"), problem)
        return Code()
    try:
        program = _with_path(_program(job, arguments, folder), data)
    except FieldProblem as problem:
        notes.refuse(executable, problem)
        return Code()
    if not (data.datasets or data.path) and any("{dataset}" in word for word in _texts(program)):
        hint = "data: { location: ... }, or basedata: MNIST"
        notes.refuse(executable, FieldProblem("arguments", "{dataset} is used, and there is no data", hint))
    if program.command and program.command[0] in _LAUNCHERS:
        hint = "name the program alone; mpi_ranks says how many"
        notes.refuse(executable, FieldProblem("launcher", f"{program.command[0]} is added by the plan", hint))
    if program.on_target:
        reason = (
            f"there is no {rules.quote(program.on_target)} beside the request: ~/{program.on_target} on the target runs"
        )
        notes.cannot_keep(executable, reason, "put it beside the request, or write its whole path on the target")
    try:
        travelling_files = _travelling_files(program, job, folder, data)
    except (OSError, ValueError) as error:
        hint = "put the request into a folder with the files that it needs, and name data by its path on the target"
        notes.refuse(executable, FieldProblem("script-files", f"the files beside it: {error}", hint))
        return Code()
    own_names = {file.name, TARGETS_FILE}
    script = PurePosixPath(program.script)
    subfolder = script.parent.as_posix() if program.script and script.parent != PurePosixPath(".") else ""
    kept_files = tuple(
        source_file
        for source_file in travelling_files
        if subfolder or not (source_file.path in own_names or _is_output(folder, source_file))
    )
    folders = ScriptFolders()
    script_folder = folder / subfolder
    beside: list[SourceFile] = []
    if program.script:
        shell = (*(runs.pre_execution or ()), *(runs.post_execution or ()))
        counted_files, beside = counting(script_folder, script.name, kept_files, [*_texts(program), *shell])
        kept_files = tuple(counted_files)
    return Code(
        folder=subfolder,
        script=script.name if program.script else "",
        command=program.command,
        arguments=program.arguments,
        words=program.words,
        files=kept_files,
        beside=tuple(beside),
        workload=folders.workload(script_folder, notes.mistakes) if program.script else None,
        prepares=bool(program.script) and folders.prepares(script_folder, kept_files),
        parallelism=folders.parallelism(script_folder, kept_files) if program.script else None,
    )


def _is_output(folder: Path, file: SourceFile) -> bool:
    """Whether a file was written by ``modak plan --output``."""
    top = folder / PurePosixPath(file.path).parts[0]
    return all((top / name).is_file() for name in OUTPUT_FILES)


def _program(job: JobForm, arguments: tuple[str, ...] | None, folder: Path) -> Program:
    runs = job.runs
    program = program_of(
        runs.executable or "", arguments, lambda path: is_file(folder / path), builds=runs.build is not None
    )
    if program.on_target:
        scripts = [path.relative_to(folder).as_posix() for path in sorted(folder.glob("*/*.py"))[:200]]
        scripts += [path.name for path in folder.glob("*") if path.is_file()]
        near = close_to(program.on_target, scripts)
        if near:
            reason = f"there is no {rules.quote(program.on_target)} below the request's folder"
            raise FieldProblem("file-not-found", reason, f"did you mean {near}? $HOME/... is one on the target")
    return program


def _with_path(program: Program, data: Data) -> Program:
    """The program with a path on the target in place of ``{dataset}``, which stands for staged data otherwise."""
    if not data.path:
        return program

    def filled(word: str) -> str:
        return word.replace("{dataset}", data.path)

    return replace(
        program,
        command=tuple(map(filled, program.command)),
        arguments=tuple(
            (name, filled(value) if isinstance(value, str) else value) for name, value in program.arguments
        ),
        words=tuple(map(filled, program.words)),
    )


def _texts(program: Program) -> tuple[str, ...]:
    return (*program.command, *program.words, *(value for _, value in program.arguments if isinstance(value, str)))


def _starts_own(command: tuple[str, ...], folder: Path) -> bool:
    """Whether a command starts a program, a script or a module of the user's, which may use what lies beside it."""
    modules = [word.replace(".", "/") for before, word in pairwise(command) if before == "-m"]
    scripts = [word for word in command[1:] if word.endswith((".py", ".sh"))]
    paths = (command[0], *scripts, *(f"{module}{end}" for module in modules for end in (".py", "/__main__.py")))
    return any(not path.startswith("/") and is_file(folder / path) for path in paths)


def _travelling_files(program: Program, job: JobForm, folder: Path, data: Data) -> list[SourceFile]:
    """The files beside a script or a program of the user's; of one that is on the target, those that it names."""
    build = job.runs.build
    if program.script or (build and build.src is None) or _starts_own(program.command, folder):
        script_folder = folder / PurePosixPath(program.script).parent
        data_paths = brought_files(data.datasets, folder, script_folder)
        return files.code_files(script_folder, None, top=folder, is_blueprint=script_folder == folder, data=data_paths)
    command_words = (*program.command, *program.words)
    names = [word.removeprefix("./") for word in command_words if word and not word.startswith(("/", "-", "~", "$"))]
    words = [word for word in (*names, data.local) if word and ".." not in word]
    patterns = [word for word in words if exists(folder / word)]
    return files.code_files(folder, patterns, top=folder, is_blueprint=False) if patterns else []
