"""Whether the files of a dataset become one image, which the container mounts."""

from __future__ import annotations

from modak_ansible.model.dataset import Dataset
from modak_ansible.model.quantities import format_seconds
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.data.data_costs import Data, all_epochs, first_epoch, later_epoch, packing_seconds
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES

# Fewer are opened in less time than an image is made, wherever that was measured.
MANY = 2000
# An image has to save this part of the time at least: how fast a file system answers depends on who else asks it.
_WORTH = 0.8
_IMAGE, _SHARDS = "squashfs", "shards"


class Pack(Optimisation):
    name = "pack"
    about = "dataset.pack"
    stock = ("none",)
    is_switch = False
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.request.dataset is None:
            return ()
        reason = "one file is opened instead of many, and mounted in the container in place of the folder"
        options = (Option("none", "its files are read as they are"), Option(_IMAGE, reason, why_not=_why_not(draft)))
        if _SHARDS in _requested_formats(draft):
            return (
                *options,
                Option(_SHARDS, "tar shards, each of many samples, which its script reads one after another"),
            )
        return options

    def requested(self, draft: Draft) -> str:
        formats = _requested_formats(draft)
        return next((kind for kind in (_IMAGE, _SHARDS) if kind in formats), "none" if formats == {"none"} else "")

    def default(self, draft: Draft) -> Default | None:
        return Default(*_choice(draft))

    def apply(self, draft: Draft, value: str) -> None:
        if value == _IMAGE:
            chosen_datasets = _many_file_datasets(draft) if _choice(draft)[0] == _IMAGE else []
            requested_datasets = [dataset for dataset in draft.request.datasets if dataset.pack == _IMAGE]
            draft.packed = tuple(dataset.name for dataset in (*requested_datasets, *chosen_datasets))


def _requested_formats(draft: Draft) -> set[str]:
    return {dataset.pack for dataset in draft.request.datasets}


def _many_file_datasets(draft: Draft) -> list[Dataset]:
    """The datasets that are left to the plan and have many files."""
    return [
        dataset
        for dataset in draft.request.datasets
        if dataset.pack == "auto" and (dataset.files or 0) >= MANY and dataset.sources[0].kind != "on_target"
    ]


def _why_not(draft: Draft) -> str:
    application = draft.request.application
    if not draft.in_container:
        return "the container runtime mounts an image, and this runs without one"
    runtime = draft.request.target.container_runtime
    if draft.request.target.pods or CONTAINER_RUNTIMES[runtime].reads_containerfiles:
        return f"{runtime} mounts no such image"
    lines = "\n".join((*application.pre_execution, *application.post_execution))
    if "{dataset" in lines or "MODAK_DATASET" in lines:
        return "the shell lines before or after the training name the data, and run outside the container"
    requested_datasets = [dataset for dataset in draft.request.datasets if dataset.pack == _IMAGE]
    if on_target := next(
        (dataset.name for dataset in requested_datasets if dataset.sources[0].kind == "on_target"), ""
    ):
        return f"{on_target} is already on the target and is read in place"
    if single := next((dataset.name for dataset in requested_datasets if dataset.files == 1), ""):
        return f"{single} is one file"
    return ""


def _choice(draft: Draft) -> tuple[str, str]:
    """What is taken where nobody asks, and why."""
    datasets = _many_file_datasets(draft)
    data = Data.of(datasets, draft.request.application.work.epochs, draft.node_memory)
    if data is None:
        counts = [dataset.files for dataset in draft.request.datasets if dataset.files]
        reason = (
            f"{sum(counts):,} files are too few to matter"
            if counts
            else "how many files it has is not known beforehand"
        )
        return "none", reason
    files, home = f"{data.files:,} files", draft.request.target.home
    if why_not := _why_not(draft):
        return "none", f"{files} are read as they are: {why_not}"
    plain, image = first_epoch(home, data), first_epoch(home, data, packed=True)
    all_plain, all_image = all_epochs(home, data, packed=False), all_epochs(home, data, packed=True)
    making_seconds = packing_seconds(home, data)
    if plain is None or image is None or making_seconds is None or all_plain is None or all_image is None:
        problem = "how fast the target opens files is not known (home: read_bandwidth, write_bandwidth, file_rate)"
        return "none", f"{files} are read as they are: {problem}; pack: squashfs asks for one image"
    later = later_epoch(home, data)
    memory = "" if later in (plain, None) else f" ({format_seconds(later)} in later epochs, out of memory)"
    comparison = (
        f"{files} take {format_seconds(plain)} an epoch as they are{memory} and {format_seconds(image)} from one image"
    )
    comparison += f", which takes {format_seconds(making_seconds)} to make; with {data.epochs} epochs "
    if making_seconds + all_image < _WORTH * all_plain:
        return _IMAGE, comparison + "that is faster"
    return "none", comparison + "that saves less than a fifth"
