"""What of a workspace nobody uses: found, and removed without getting in the way of a deployment."""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Pattern, TypedDict

from ...errors import ModakError
from ..core.container import IMAGE_ENDINGS
from ..core.files import Lock, changed_at, read_json
from ..core.workspace import Workspace
from ..datasets.pack import ENDING
from ..images.runtimes import forget_stored
from .uses import Uses, is_at_work, used_mark

_IMAGE = re.compile(r"\.?([0-9a-f]{64})\.[\w.]+")
# a folder, or its image, with what belongs to it
_DATASET = re.compile(
    r"\.?(.+-[0-9a-f]{12}(?:\.sqsh)?)(?:\.(?:part|(?:unpacked|shards)\.(?:\w+\.)?part|lock|log|view|seal|(?:(?:status|manifest|wanted)\.)?json)|"
    r"\.(?:(?:(?:status|manifest|wanted)\.)?json|seal)\.\d+\.part)?"
)
# what a killed deployment leaves beside the folders: one half unpacked, or its files on their way
_HALF_STAGED = re.compile(r"\..+-[0-9a-f]{12}\.(?:\d+\.part|[0-9a-f]{32}\.tar\.gz)|\.incoming-[0-9a-f]{32}")
# what a killed rsync leaves of an image that one host brought to another
_HALF_BROUGHT = re.compile(r"\.[0-9a-f]{64}\.\w+\.[A-Za-z0-9]{6}")
_DEPLOYMENT_LOCK = re.compile(r"\.(.+-[0-9a-f]{12})\.(?:lock|gone)")
_LOGS = (".log", ".status.json")
_TRASH = ".trash-"
# What no lock guards, such as an archive on its way, is left alone for so many seconds in any case.
_LEAST = 3600.0


class GarbageItem(TypedDict, total=False):
    """Something that may be garbage, as it is told: its size is in bytes, and ``idle`` in seconds."""

    kind: str
    name: str
    path: str
    size: int
    idle: float
    keep: str  # why it stays; empty where nobody needs it


class Needs(NamedTuple):
    """What the deployments of a workspace need of the same paths on other hosts."""

    kept: Dict[str, str]  # images and datasets by their paths, with the reason
    names: List[str]  # the deployments of which that is known
    unknown: str  # why nobody knows what others need; empty where all is known


@dataclass
class Item:
    kind: str  # image, dataset, deployment, unfinished, log, lock, reservation or trash
    name: str  # for people
    paths: list[Path]  # all that belongs to it; the first one stands for it
    locks: tuple[Path, ...] = ()  # held by whoever makes it
    used: float = 0.0  # when it was used or written last, in seconds since the epoch
    keep: str = ""  # why it stays; empty where nobody needs it

    def as_dict(self) -> GarbageItem:
        return {
            "kind": self.kind,
            "name": self.name,
            "path": str(self.paths[0]),
            "size": sum(_size(path) for path in self.paths),
            "idle": round(max(0.0, time.time() - self.used), 1),
            "keep": self.keep,
        }


class Garbage:
    """The garbage of a workspace.

    Args:
        workspace: where it lies.
        older_than: what was used or written within so many seconds stays.
        needs: of the host that brings things here, where this is another one of its target.
    """

    def __init__(self, workspace: Workspace, older_than: float, needs: Needs | None = None) -> None:
        self._workspace = workspace
        self._older_than = older_than
        self._needs = needs or Needs({}, [], "")
        self._is_elsewhere = needs is not None
        self._uses = Uses(workspace)

    def survey(self) -> list[Item]:
        """What nobody needs, and the images and datasets that stay, with the reason; changes nothing."""
        self._users = self._uses.users()
        self._left = [path for path in self._uses.brought() if self._is_abandoned(path)]
        known_paths = {*self._left, *(self._workspace.deployments / name for name in self._needs.names)}
        unreadable = [path for path in self._uses.unreadable() if path not in known_paths]
        self._unknown = f"it is not known what {unreadable[0]} uses" if unreadable else self._needs.unknown
        items = [*self._images(), *self._datasets(), *self._deployment_items(), *self._trash()]
        return [item for item in items if not item.keep or item.kind in ("image", "dataset")]

    def collect(self, *, remove: bool, only: list[str] | None) -> dict[str, list[GarbageItem]]:
        """What is ``removed``, what may be (``garbage``), and what stays with the reason (``kept``).

        Raises:
            ModakError: something could not be removed.
        """
        removed = self.remove(only) if remove else []
        items = [item.as_dict() for item in self.survey()]
        garbage, kept = ([item for item in items if bool(item["keep"]) is stays] for stays in (False, True))
        return {"removed": removed, "garbage": garbage, "kept": kept}

    def needs(self) -> Needs:
        """What other hosts, to which deployments of this workspace bring things, are to keep."""
        reasons = {str(item.paths[0]): item.keep for item in self.survey() if item.keep}
        reasons.update({str(path): _used_by(names) for path, names in self._users.items()})
        return Needs(reasons, sorted({name for names in self._users.values() for name in names}), self._unknown)

    def remove(self, only: list[str] | None = None) -> list[GarbageItem]:
        """Removes what nobody needs; whoever looks for it meanwhile finds it whole or not at all.

        Args:
            only: the paths of what may go, as a survey gave them; None for all.

        Returns:
            What is gone.

        Raises:
            ModakError: something could not be removed.
        """
        if not self._workspace.path.is_dir():
            return []
        name, removed = f"{_TRASH}{uuid.uuid4().hex}", []
        with self._uses.lock():  # deployments reserve under it: none can find what goes now
            for item in self.survey():
                if item.keep or (only is not None and str(item.paths[0]) not in only):
                    continue
                description = item.as_dict()
                if _move(item, name):
                    removed.append(description)
                    for path in item.paths:
                        forget_stored(path)
        for trash in (folder / name for folder in self._folders()):
            shutil.rmtree(trash, ignore_errors=True)
            if trash.exists():
                raise ModakError(f"{trash} could not be removed", hint="remove it by hand")
        return removed

    def _folders(self) -> list[Path]:
        """Those of which each may be on a file system of its own, as one that is a link may."""
        workspace = self._workspace
        return [workspace.path, workspace.images, workspace.datasets, workspace.deployments]

    # --- what there is

    def _images(self) -> Iterator[Item]:
        for digest, paths in _group_files(self._workspace.images, _IMAGE).items():
            names = {f"{digest}{ending}" for ending in (*IMAGE_ENDINGS, ".venv")}
            tops = [path for path in paths if path.name in names]
            locks = (self._workspace.images / f".{digest}.lock", self._workspace.images / f"{digest}.lock")
            record = read_json(self._workspace.images / f"{digest}.json") or {}
            name = f"{record['name']} ({digest[:12]})" if "name" in record else digest[:12]
            marker = f"{digest}.json" if record.get("refused") else ""  # it is remembered until it is tried again
            own_paths = [path for path in paths if path.name != marker]
            yield from self._parts("image", name, tops, own_paths, locks)

    def _datasets(self) -> Iterator[Item]:
        for name, paths in _group_files(self._workspace.datasets, _DATASET).items():
            tops = [path for path in paths if path.name == name and (path.is_dir() or name.endswith(ENDING))]
            locks = (self._workspace.datasets / f"{name}.lock",)
            yield from self._parts("dataset", name, tops, paths, locks)

    def _parts(
        self, kind: str, name: str, tops: list[Path], paths: list[Path], locks: tuple[Path, ...]
    ) -> Iterator[Item]:
        """A thing with all that belongs to it; where it stays or is not there, what is left over beside it."""
        if tops:
            used = max(self._used_at(tops[0]), *(changed_at(top) or 0.0 for top in tops))
            item = Item(kind, name, [*tops, *(path for path in paths if path not in tops)], locks, used)
            item.keep = self._why_kept(item, tops)
            yield item
            if not item.keep:
                return
        is_part = [path for path in paths if path.name.endswith(".part") or _HALF_BROUGHT.fullmatch(path.name)]
        leftovers = {"unfinished": is_part}
        leftovers["log"] = [path for path in paths if path.name.endswith(_LOGS)]
        if not tops:
            endings = (".sh", ".json", *((".view", ".seal") if kind == "dataset" else ()))
            leftovers["unfinished"] += [
                path for path in paths if path.suffix in endings and path not in leftovers["log"]
            ]
            leftovers["lock"] = [path for path in paths if path.suffix == ".lock"]
        products = [product for path in leftovers["unfinished"] for product in _products_of(path)]
        for left_kind, left_paths in leftovers.items():
            if left_paths:
                leftover = Item(left_kind, name, left_paths, locks, max(map(_newest, left_paths)))
                leftover.keep = self._why_kept(leftover, products if left_kind == "unfinished" else [])
                yield leftover

    def _used_at(self, top: Path) -> float:
        """When an image or a dataset was used; what was brought here has the dates that it had there, and no mark."""
        used = changed_at(used_mark(top))
        return top.lstat().st_ctime if used is None and self._is_elsewhere else used or 0.0

    def _deployment_items(self) -> Iterator[Item]:
        folder = self._workspace.deployments
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            lock = _DEPLOYMENT_LOCK.fullmatch(path.name)
            if _HALF_STAGED.fullmatch(path.name):
                item = Item("unfinished", path.name, [path], used=_newest(path))
                item.keep = self._why_kept(item, [], _LEAST)
            elif lock and not (folder / lock.group(1)).exists():
                item = Item("lock", path.name, [path], (path,), _newest(path))
                item.keep = self._why_kept(item, [])
            else:
                continue
            yield item
        for path in self._left:
            yield Item("deployment", path.name, [path], used=_newest(path))
        for path in self._uses.stale_reservations():
            yield Item("reservation", path.name, [path], used=_newest(path))

    def _is_abandoned(self, path: Path) -> bool:
        """Whether a deployment that another host brought here is over, though that host could not say so any more."""
        is_new = time.time() - _newest(path) < max(self._older_than, _LEAST)
        return not is_new and not is_at_work(self._workspace, path)

    def _trash(self) -> Iterator[Item]:
        """What was cut short while it removed."""
        for path in sorted(path for folder in self._folders() for path in folder.glob(f"{_TRASH}*")):
            if any(path.glob("*")):
                yield Item("trash", path.name, [path], used=_newest(path))

    # --- who needs it

    def _why_kept(self, item: Item, paths: list[Path], minimum_age: float = 0.0) -> str:
        """Why something stays; empty where nobody needs it.

        Args:
            things: the images or datasets that it is, or would become.
            least: how long it stays in any case, in seconds.
        """
        users = [name for path in paths for name in self._users.get(path, [])]
        reason = next((self._needs.kept[str(path)] for path in paths if str(path) in self._needs.kept), "")
        if users or reason:
            return _used_by(users) if users else reason
        if paths and self._unknown:
            return self._unknown
        if any(Lock(lock).is_taken() for lock in item.locks):
            return "being made"
        return "used lately" if time.time() - item.used < max(self._older_than, minimum_age) else ""


def _group_files(folder: Path, pattern: Pattern[str]) -> dict[str, list[Path]]:
    """The files of a folder by what they belong to; those of other people's are left out."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = pattern.fullmatch(path.name)
        if match:
            groups.setdefault(match.group(1), []).append(path)
    return groups


def _products_of(path: Path) -> list[Path]:
    """What something unfinished would become: an image of one kind or another, or a dataset."""
    image = _IMAGE.fullmatch(path.name)
    if image and path.parent.name == "images":
        return [path.with_name(image.group(1) + ending) for ending in IMAGE_ENDINGS]
    dataset = _DATASET.fullmatch(path.name)
    return [path.with_name(dataset.group(1)) if dataset else path]


def _used_by(names: list[str]) -> str:
    return f"used by {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def _move(item: Item, trash: str) -> bool:
    """Moves something out of everybody's way in one step each; False where it is being made.

    Args:
        trash: the name of a folder beside it.
    """
    locks = [Lock(path) for path in item.locks]
    if not all(lock.take(wait=False) for lock in locks):
        for lock in locks:
            lock.release()
        return False
    for path in item.paths:
        if path not in item.locks and os.path.lexists(path):
            place = path.parent / trash
            place.mkdir(mode=0o700, exist_ok=True)
            path.rename(place / f"{len(os.listdir(place))}{path.name}")
    for lock in locks:
        lock.remove()
    return True


def _size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_symlink() or not path.is_dir():
        return _file_size(path)
    return sum(_file_size(Path(folder) / name) for folder, _, names in os.walk(path) for name in names)


def _file_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # it went away meanwhile
        return 0


def _newest(path: Path) -> float:
    """When anything of a file or a folder was written last."""
    paths = [path]
    if path.is_dir() and not path.is_symlink():
        paths += [Path(folder) / name for folder, _, names in os.walk(path) for name in (".", *names)]
    return max(changed_at(entry) or 0.0 for entry in paths)
