"""Whether the files of a dataset become one image, which the container mounts."""

from __future__ import annotations

from modak_ansible.model.dataset import Dataset
from modak_ansible.model.quantities import format_seconds
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.data.data_costs import Data, again, in_all, once, to_pack
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
    reaches = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.request.dataset is None:
            return ()
        reason = "one file is opened instead of many, and mounted in the container in place of the folder"
        found = (Option("none", "its files are read as they are"), Option(_IMAGE, reason, why_not=_why_not(draft)))
        if _SHARDS in _asked(draft):
            return (
                *found,
                Option(_SHARDS, "tar shards, each of many samples, which its script reads one after another"),
            )
        return found

    def wish(self, draft: Draft) -> str:
        asked = _asked(draft)
        return next((each for each in (_IMAGE, _SHARDS) if each in asked), "none" if asked == {"none"} else "")

    def default(self, draft: Draft) -> Default | None:
        return Default(*_chosen(draft))

    def apply(self, draft: Draft, value: str) -> None:
        if value == _IMAGE:
            weighed = _many(draft) if _chosen(draft)[0] == _IMAGE else []
            asked = [dataset for dataset in draft.request.datasets if dataset.pack == _IMAGE]
            draft.packed = tuple(dataset.name for dataset in (*asked, *weighed))


def _asked(draft: Draft) -> set[str]:
    return {dataset.pack for dataset in draft.request.datasets}


def _many(draft: Draft) -> list[Dataset]:
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
    asked = [dataset for dataset in draft.request.datasets if dataset.pack == _IMAGE]
    if theirs := next((dataset.name for dataset in asked if dataset.sources[0].kind == "on_target"), ""):
        return f"{theirs} is already on the target and is read in place"
    if single := next((dataset.name for dataset in asked if dataset.files == 1), ""):
        return f"{single} is one file"
    return ""


def _chosen(draft: Draft) -> tuple[str, str]:
    """What is taken where nobody asks, and why."""
    many = _many(draft)
    data = Data.of(many, draft.request.application.work.epochs, draft.node_memory)
    if data is None:
        counts = [dataset.files for dataset in draft.request.datasets if dataset.files]
        few = (
            f"{sum(counts):,} files are too few to matter"
            if counts
            else "how many files it has is not known beforehand"
        )
        return "none", few
    files, home = f"{data.files:,} files", draft.request.target.home
    if why_not := _why_not(draft):
        return "none", f"{files} are read as they are: {why_not}"
    lying, packed = once(home, data), once(home, data, packed=True)
    all_lying, all_packed = in_all(home, data, packed=False), in_all(home, data, packed=True)
    making = to_pack(home, data)
    if lying is None or packed is None or making is None or all_lying is None or all_packed is None:
        missing = "how fast the target opens files is not known (home: read_bandwidth, write_bandwidth, file_rate)"
        return "none", f"{files} are read as they are: {missing}; pack: squashfs asks for one image"
    later = again(home, data)
    memory = "" if later in (lying, None) else f" ({format_seconds(later)} in later epochs, out of memory)"
    each = (
        f"{files} take {format_seconds(lying)} an epoch as they are{memory} and {format_seconds(packed)} from one image"
    )
    each += f", which takes {format_seconds(making)} to make; with {data.epochs} epochs "
    if making + all_packed < _WORTH * all_lying:
        return _IMAGE, each + "that is faster"
    return "none", each + "that saves less than a fifth"
