"""The data of a request: a dataset that is staged, or a path that is on the target already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_ansible.model.dataset import Dataset
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.requests.form.optimisation import DataForm, HpcDataForm
from modak_ansible.sources import SourceProblem
from modak_ansible.sources.reader import DatasetDescription, Refuse, read_dataset
from modak_ansible.target.core.files import exists

# Datasets whose addresses are known; the catalogue has them under these names.
_PUBLISHED = {"MNIST": "mnist"}


@dataclass(frozen=True)
class Data:
    datasets: tuple[Dataset, ...] = ()  # what a training reads
    path: str = ""  # a path on the target that a program reads, which containers get as a bind
    local: str = ""  # a file or folder below the request's that travels with the program
    missing: str = ""  # what is not beside the request, and is not brought anywhere


def training_data(form: DataForm, folder: Path, refuse: Refuse, name: str = "") -> Data:
    """One dataset of a training.

    Args:
        folder: the request's.
        name: the dataset's, where its place gives it one.
    """
    if name and not form.name and (problem := rules.name_problem(name)):
        refuse("name", None, SourceProblem(problem, rule="unsafe-value"))
        return Data()
    location = form.location or ""
    sources = {field: getattr(form, field) for field in ("source", "urls", "on_target")}
    name = form.name or name or _PUBLISHED.get(form.basedata or "", (form.basedata or "data").lower())
    if not location and not any(sources.values()) and form.basedata not in _PUBLISHED:
        return Data(missing=form.basedata or "")
    is_on_target = location.startswith(("~", "$")) or (location.startswith("/") and not exists(Path(location)))
    if location and any(sources.values()):
        other = next(field for field, value in sources.items() if value)
        refuse("location", None, SourceProblem(f"{other} says where the data is", "leave it out", "contradiction"))
        return Data()
    if is_on_target and rules.path_problem(location):
        refuse("location", None, SourceProblem(rules.path_problem(location), rule="unsafe-value"))
        return Data()
    description = DatasetDescription(
        name=name,
        format=form.format or "",
        source=(location,) if location and not is_on_target else form.source or (),
        urls=form.urls or (),
        on_target=location if is_on_target else form.on_target or "",
        unpack=form.unpack,
        mount_as=form.mount_as or "",
        pack=form.pack or "auto",
        checksum=form.checksum or {},
    )

    def refuse_field(field: str, number: int | None, problem: SourceProblem) -> None:
        refuse("location" if location and field in sources else field, number, problem)

    dataset = read_dataset(description, folder, refuse_field)
    return Data((dataset,) if dataset else ())


def program_data(form: HpcDataForm, folder: Path) -> Data:
    """The data of a program: a file beside the request travels with it, a path on the target is only named.

    Raises:
        FieldProblem: it is an address, or no path.
    """
    location = form.location
    if location is None:
        return Data()
    if "://" in location:
        hint = "give a folder or a path; a blueprint's dataset takes addresses with their checksums"
        raise FieldProblem("dataset", f"{rules.quote(location)} is an address without checksums", hint)
    if problem := rules.path_problem(location):
        raise FieldProblem("unsafe-value", problem)
    if location.startswith(("/", "~", "$")):
        return Data(path=location)
    return Data(local=location) if exists(folder / location) else Data(missing=location)


def samples_of(form: DataForm) -> tuple[int | None, int | None]:
    """The number of samples, and the bytes of each.

    Raises:
        FieldProblem: a sample would have less than one byte, or there is a size and no number.
    """
    total: Any = form.size
    if total is not None and form.count is None:
        raise FieldProblem("missing-field", "count has to say how many samples it has", "count: the number of samples")
    if total is not None and form.count and total < form.count:
        reason = f"{total} bytes are too few for {form.count} samples"
        raise FieldProblem("contradiction", reason, 'size is of all samples, in bytes, or such as "11 MB"')
    return form.count, total // form.count if total and form.count else None
