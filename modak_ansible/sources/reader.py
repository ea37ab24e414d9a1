"""A dataset as a user describes it in, the model's out; what is wrong is told by the field that it stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from modak_ansible.catalogue import load_catalogue
from modak_ansible.model.dataset import Dataset, DataSource
from modak_ansible.sources.address import source_of_addresses
from modak_ansible.sources.base import SourceProblem, SourceSpec, kind_of, read_source
from modak_ansible.sources.counting.formats import format_of
from modak_ansible.sources.on_target import OnTarget
from modak_ansible.target.datasets.names import SHARD_ENDING, key_of, name_problem

# Takes a field, the number of an element in it or None, and what is wrong there.
Refuse = Callable[[str, "int | None", SourceProblem], None]
_WHERE = ("source", "urls", "on_target")
# What a deployment's folder holds, in which the script's folder lies.
_OURS = ("code", "state", "runtime", "checkpoints", "attempts", "build", "data-views", "results")
_OUR_ENDINGS = (".log", ".json", ".sh", ".jsonl")


class DatasetDescription(NamedTuple):
    """What a user says of a dataset: the properties of modak_ansible/model/dataset.py."""

    name: str
    format: str = ""
    source: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    on_target: str = ""
    unpack: bool | None = None
    mount_as: str = ""
    checksum: Mapping[str, str] = {}
    size: int | None = None
    pack: Literal["auto", "squashfs", "shards", "none"] = "auto"


def read_dataset(description: DatasetDescription, folder: Path, refuse: Refuse) -> Dataset | None:
    """The dataset, or None where something was refused.

    Args:
        folder: what paths are relative to.
    """
    refused: list[str] = []

    def reject(name: str, number: int | None, problem: SourceProblem) -> None:
        refused.append(name)
        refuse(name, number, problem)

    catalogued = load_catalogue().datasets.get(description.name)
    form = description.format or (catalogued.format if catalogued else "")
    given_fields = [name for name in _WHERE if getattr(description, name)]
    if len(given_fields) > 1:
        reason = f"{given_fields[1]} and {given_fields[0]} both say where the data is"
        reject(given_fields[1], None, SourceProblem(reason, "leave one of them out", "contradiction"))
    if not given_fields and catalogued is None:
        hint = "source: [ a file, folder, glob, archive or address ], urls or on_target"
        reject("source", None, SourceProblem("nothing says where the data is", hint))
    if problem := mount_problem(description.mount_as):
        hint = "a path such as data/MNIST/raw, relative to the script's folder"
        reject("mount_as", None, SourceProblem(problem, hint, "unsafe-value"))
    if refused:
        return None
    sources = _sources(description, form, folder, reject)
    if refused:
        return None
    first = sources[0]
    kind = kind_of(first)
    names = kind.names(first, folder)
    form = form or format_of(names)
    if description.pack == "shards" and (why_not := _why_no_shards(first, form, names)):
        refuse("pack", None, why_not)
        return None
    samples, damaged = kind.samples(first, folder, form)
    return Dataset(
        name=description.name,
        format=form,
        sources=tuple(sources),
        size=description.size,
        samples=samples,
        damaged=damaged,
        mount_as=description.mount_as.rstrip("/"),
        pack=description.pack,
    )


def _sources(description: DatasetDescription, form: str, folder: Path, reject: Refuse) -> list[DataSource]:
    def spec_of(text: str) -> SourceSpec:
        return SourceSpec(
            text, description.name, form, folder, description.checksum, description.unpack, description.size
        )

    try:
        if description.on_target:
            return [OnTarget().read(spec_of(description.on_target))]
        if description.urls:
            return [source_of_addresses(description.urls, spec_of(""))]
    except SourceProblem as problem:
        reject("on_target" if description.on_target else "urls", problem.number, problem)
        return []
    sources = []
    for number, text in enumerate(description.source or ("published", "digits")):
        try:
            sources.append(read_source(spec_of(text)))
        except SourceProblem as problem:
            reject("source", number, problem)
    return sources


def _why_no_shards(source: DataSource, form: str, names: list[str]) -> SourceProblem | None:
    """Why a dataset cannot become shards; of names that are not known here the target has the last word."""
    if form != "webdataset":
        hint = "format: webdataset, where the script reads tar files; pack: squashfs leaves it the files as they are"
        return SourceProblem("shards are only for scripts that read the format webdataset", hint, "pack")
    if source.kind == OnTarget.kinds[0]:
        return SourceProblem("the data is already on the target and is read in place", "leave pack out", "pack")
    if names and all(name.endswith(SHARD_ENDING) for name in names):
        return SourceProblem("its files are shards already", "leave pack out", "pack")
    if nameless := next((name for name in names if not key_of(name)), ""):
        reason = f"{nameless} has no extension, and readers of the format webdataset skip such files"
        return SourceProblem(reason, "rename it or leave it out; pack: squashfs keeps files as they are", "pack")
    return None


def mount_problem(text: str) -> str:
    """What is wrong with the place that a script looks for its data in; empty where nothing is.

    It is below the script's folder or beside it: one ``..`` leads into the deployment's own folder.
    """
    path = PurePosixPath(text)
    if not text:
        return ""
    if not text.isprintable() or path.is_absolute() or text.startswith(("~", "-", "$")) or path == PurePosixPath():
        return f"{text!r} is not a path relative to the script's folder"
    if problem := name_problem(text):
        return problem
    beside = path.parts[0] == ".."
    if ".." in path.parts[1:] or (beside and len(path.parts) < 2):
        return f"{text} leads out of the deployment's folder"
    if beside and (path.parts[1] in _OURS or path.parts[1].endswith(_OUR_ENDINGS)):
        return f"{text} is used by the deployment itself"
    return ""
