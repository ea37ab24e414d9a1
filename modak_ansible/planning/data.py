"""The data of a plan: known addresses in place of words, what is known of sizes, and where it will lie. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from modak_ansible.catalogue import Catalogue
from modak_ansible.errors import nearest
from modak_ansible.model.dataset import DIGITS_LABEL, DIGITS_SAMPLES, IDX, Dataset, DataSource, field_of
from modak_ansible.model.plan import PlannedDataset, Staging, digest_of
from modak_ansible.model.request import Request
from modak_ansible.optimisations.base import CannotPlan
from modak_ansible.schedulers.script import dataset_variable, datasets_named

_DIGITS_SIZE = 5 * 10**6
_LOCAL = ("folder", "file", "glob", "archive")
ON_TARGET = "on_target"


def with_data(request: Request, catalogue: Catalogue) -> Request:
    """The request with the addresses and sizes of its data, and the samples of an epoch as they are there.

    Raises:
        CannotPlan: a placeholder or a place of its data cannot be kept, or nobody knows where its data is.
    """
    datasets = [
        _with_published(dataset, field_of(number), catalogue) for number, dataset in enumerate(request.datasets)
    ]
    request = request.model_copy(
        update={"dataset": datasets[0] if datasets else None, "more_datasets": tuple(datasets[1:])}
    )
    _check_names(request)
    _check_placeholders(request)
    _check_mounts(request)
    sample_counts = [_samples_there(dataset, catalogue) for dataset in datasets]
    samples = next((count for count in sample_counts if count is not None), None)
    if samples is None:
        return request
    application = request.application
    work = application.work.model_copy(update={"samples": min(samples, application.work.samples or samples)})
    return request.model_copy(update={"application": application.model_copy(update={"work": work})})


def planned_datasets(
    request: Request, staging: Staging, packed: Collection[str], catalogue: Catalogue
) -> list[PlannedDataset]:
    """What the plan says of each dataset."""
    alone = len(request.datasets) == 1
    names = datasets_named(text for texts in _texts(request).values() for text in texts)
    planned = []
    for dataset in request.datasets:
        digest = digest_of(_identity(dataset))
        # the catalogue's data alone: a plan of it keeps the digest that it had before there was any other
        is_plain = alone and dataset.name in catalogue.datasets and dataset.name not in names
        planned.append(
            PlannedDataset(
                name=dataset.name,
                format=dataset.format,
                digest=digest,
                path=f"datasets/{dataset.name}-{digest[:12]}",
                sources=dataset.sources,
                size=dataset.size,
                staging="shared" if _stays(dataset, staging, packed) else staging,
                pack="squashfs" if dataset.name in packed else "shards" if dataset.pack == "shards" else "",
                damaged=dataset.damaged,
                mount_as=dataset.mount_as,
                mounted_file=_mounted_file(dataset),
                variable="" if is_plain else dataset_variable(dataset.name),
            )
        )
    return planned


def _stays(dataset: Dataset, staging: str, packed: Collection[str]) -> bool:
    """Whether a dataset is read where it lies, though others may be brought to the nodes."""
    has_parts = dataset.is_shards and dataset.name not in packed
    return dataset.sources[0].kind == ON_TARGET or (staging == "by-node" and not has_parts)


def _identity(dataset: Dataset) -> dict[str, object]:
    """What two datasets have in common that are one on the target: name and content, wherever it comes from."""
    sources = [_identity_of(source) for source in dataset.sources]
    own = {"format": dataset.format} if dataset.format == IDX else {}
    own |= {"pack": dataset.pack} if dataset.pack == "shards" else {}
    return {"name": dataset.name, **own, "sources": sources}


def _identity_of(source: DataSource) -> dict[str, object]:
    unpack = {"unpack": source.unpack} if source.unpack else {}
    if source.contents:
        return {"contents": source.contents.digest, **unpack}
    files = [file.model_dump() for file in source.files]
    place = {} if source.files or source.kind == "digits" else {"location": source.location}
    return {"kind": source.kind, "files": files, **place, **unpack}


# --- where it comes from


def _with_published(dataset: Dataset, name: str, catalogue: Catalogue) -> Dataset:
    """A dataset with the known addresses in place of the word ``published``."""
    published = catalogue.datasets.get(dataset.name)
    sources: list[DataSource] = []
    for source in dataset.sources:
        if source.kind == "published":
            if published is None:
                hint = nearest(dataset.name, catalogue.datasets) or "give a folder, or an address with checksums"
                raise CannotPlan(f"{name}.source", f"no addresses are known for the dataset {dataset.name}", hint)
            sources += [
                published_source.model_copy(update={"unpack": source.unpack}) for published_source in published.sources
            ]
        elif source.kind == "digits":
            sources.append(source.model_copy(update={"label": DIGITS_LABEL}))
        else:
            if published and source.kind in _LOCAL:
                _check_published(dataset.name, name, source, published.sources[0])
            sources.append(source)
        if source.kind in _LOCAL:
            break  # it is there, so nothing behind it will be tried
    size = dataset.size or (_DIGITS_SIZE if sources[0].kind == "digits" else sources[0].bytes_there)
    return dataset.model_copy(update={"sources": tuple(sources), "size": size})


def _samples_there(dataset: Dataset, catalogue: Catalogue) -> int | None:
    """Those that the first source has; None where its files are neither here nor the published ones."""
    first, published = dataset.sources[0], catalogue.datasets.get(dataset.name)
    if first.kind == "digits":
        return DIGITS_SAMPLES
    if first.kind in _LOCAL or first.contents:
        return dataset.samples
    return published.samples if published and any(_alike(first, source) for source in published.sources) else None


def _alike(one: DataSource, other: DataSource) -> bool:
    return {file.sha256 for file in one.files} == {file.sha256 for file in other.files}


def _check_published(dataset: str, name: str, source: DataSource, published: DataSource) -> None:
    expected = {file.name: file.sha256 for file in published.files}
    for file in source.files:
        if file.name in expected and file.sha256 != expected[file.name]:
            raise CannotPlan(
                f"{name}.source",
                f"{source.location}/{file.name} is not the published file of {dataset}: its SHA-256 differs",
                "fetch it again, or give this data another name",
            )  # fmt: skip


# --- how the script finds it


def _check_names(request: Request) -> None:
    names: dict[str, str] = {}
    for number, dataset in enumerate(request.datasets):
        variable = dataset_variable(dataset.name)
        if variable in names:
            reason = f"{request.training} has a dataset {names[variable]} already, and both would be {variable}"
            raise CannotPlan(f"{field_of(number)}.name", reason, "give one of them another name")
        names[variable] = dataset.name


def _check_placeholders(request: Request) -> None:
    names = [dataset.name for dataset in request.datasets]
    for field, texts in _texts(request).items():
        if field != "arguments" and not names:
            continue  # there it is a text like any other
        if not names and any("{dataset}" in text for text in texts):
            raise CannotPlan(field, "{dataset} is used, and the training has no dataset", "- dataset: its node")
        for name in sorted(datasets_named(texts) - set(names)):
            hint = nearest(name, names) or "- dataset: its node"
            raise CannotPlan(field, f"{{dataset.{name}}} is used, and the training has no dataset {name}", hint)


def _texts(request: Request) -> dict[str, list[str]]:
    """What of a request may hold placeholders, by field."""
    application = request.application
    values: dict[str, list[str | bool]] = {
        "arguments": [*(value for _, value in application.arguments), *application.words],
        "environment": [value for _, value in application.environment],
        "pre_execution": [*application.pre_execution],
        "post_execution": [*application.post_execution],
    }
    return {field: [value for value in texts if isinstance(value, str)] for field, texts in values.items()}


def _check_mounts(request: Request) -> None:
    """
    Raises:
        CannotPlan: a dataset would lie where the user's files or another dataset are.
    """
    folder = request.application.folder
    own = [file.path for file in request.application.files]
    places: list[str] = []
    for number, dataset in enumerate(request.datasets):
        place = dataset.mount_as
        if not place:
            continue
        about = f"{field_of(number)}.mount_as"
        for path in own:
            if _within(path, place) or _within(place, path):
                file = f"{folder}/{path}" if folder else path
                reason = f"{place} is already taken by {file} of the script's own files, which is not overwritten"
                raise CannotPlan(about, reason, "remove that file, or leave it out by files: of the training")
        for other in places:
            if _within(other, place) or _within(place, other):
                raise CannotPlan(
                    about,
                    f"{place} and {other} of another dataset are one inside the other",
                    "choose another place",
                )
        places.append(place)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _mounted_file(dataset: Dataset) -> str:
    """The only file of a dataset, where its place ends with its name."""
    names = [{file.name for file in source.files} for source in dataset.sources]
    last = re.sub(r".*/", "", dataset.mount_as)
    is_alone = all(name == {last} for name in names) and not any(source.unpack for source in dataset.sources)
    return last if last and is_alone else ""
