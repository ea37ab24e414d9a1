"""The data of a request: a dataset that is staged, or a path that is on the target already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from modak_ansible.blueprint import files
from modak_ansible.blueprint.forms import text_rules as rules
from modak_ansible.blueprint.forms.forms import FieldProblem
from modak_ansible.model.dataset import Dataset, DataSource
from modak_ansible.requests.form.optimisation import DataForm, HpcDataForm

# Datasets whose addresses are known; the catalogue has them under these names.
_PUBLISHED = {"MNIST": "mnist"}


@dataclass(frozen=True)
class Data:
    """What a program reads.

    Attributes:
        dataset: what is staged; None where there is nothing to stage.
        path: a path on the target instead, which containers get as a bind.
        local: a file or folder below the request's that travels with the program.
        missing: what is not beside the request, and is not brought anywhere.
    """

    dataset: Dataset | None = None
    path: str = ""
    local: str = ""
    missing: str = ""


def training_data(form: DataForm, folder: Path) -> Data:
    """The data of a training.

    Raises:
        FieldProblem: it is nowhere, or nothing that a training can be given.
    """
    if form.location is None:
        return _published(form)
    name = _PUBLISHED.get(form.basedata or "", (form.basedata or "data").lower())
    path = _local(form.location, folder)
    if path is None:
        return Data(path=form.location)
    if not path.is_dir():
        hint = "give a folder with IDX files, or an absolute path that the target has"
        raise FieldProblem("dataset", f"{form.location} is a file, and archives are not unpacked", hint)
    try:
        found = files.data_files(path)
    except OSError as error:
        raise FieldProblem("file-unreadable", f"{form.location} cannot be read: {error.strerror}") from error
    if not found and PurePosixPath(form.location).is_absolute():
        return Data(path=form.location)
    if not found:
        hint = "it must hold files such as train-images-idx3-ubyte.gz, or be an absolute path that the target has"
        raise FieldProblem("dataset", f"the folder {form.location} holds no IDX files", hint)
    source = DataSource(kind="folder", label=f"{name} from {form.location}", location=form.location, files=tuple(found))
    samples = files.samples_in(path, [data_file.name for data_file in found])
    return Data(Dataset(name=name, sources=(source,), samples=samples))


def program_data(form: HpcDataForm, folder: Path) -> Data:
    """The data of a program: a file beside the request travels with it, a path on the target is only named.

    Raises:
        FieldProblem: it is nowhere.
    """
    if form.location is None:
        return Data()
    try:
        path = _local(form.location, folder)
    except FieldProblem as problem:
        if problem.rule == "file-not-found":
            return Data(missing=form.location)
        raise
    if path is None or PurePosixPath(form.location).is_absolute():
        return Data(path=form.location)
    return Data(local=form.location)


def samples_of(form: DataForm) -> tuple[int | None, int | None]:
    """The number of samples, and the bytes of each.

    Raises:
        FieldProblem: a sample would have less than one byte, or there is a size and no number.
    """
    total: Any = form.size
    if total is not None and form.count is None:
        raise FieldProblem(
            "missing-field", "of how many samples it is, count has to say", "count: the number of samples"
        )
    if total is not None and form.count and total < form.count:
        reason = f"{total} bytes are too few for {form.count} samples"
        raise FieldProblem("contradiction", reason, 'size is of all samples, in bytes, or such as "11 MB"')
    return form.count, total // form.count if total and form.count else None


def _published(form: DataForm) -> Data:
    if form.basedata is None:
        return Data()
    name = _PUBLISHED.get(form.basedata)
    if name is None:
        return Data(missing=form.basedata)
    sources = (DataSource(kind="published"), DataSource(kind="digits"))
    return Data(Dataset(name=name, sources=sources))


def _local(location: str, folder: Path) -> Path | None:
    """Where data lies on this machine; None for an absolute path that is the target's.

    Raises:
        FieldProblem: it is an address, or not below the folder and not absolute, or not there.
    """
    if "://" in location:
        hint = "give a folder or a path; a blueprint's dataset takes addresses with their checksums"
        raise FieldProblem("dataset", f"{rules.shown(location)} is an address without checksums", hint)
    if rules.path_problem(location):
        raise FieldProblem("unsafe-value", rules.path_problem(location))
    if location.startswith(("/", "~", "$")):
        path = Path(location)
        return path if location.startswith("/") and path.is_dir() else None
    if not (folder / location).exists():
        hint = "a path is relative to the request's folder, or absolute on the target"
        raise FieldProblem("file-not-found", f"there is no {rules.shown(location)} beside the request", hint)
    return folder / location
