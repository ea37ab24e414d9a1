"""The datasets: there already, or brought from the first source that has them, verified, and packed if so planned."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError, NotReached
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.model.quantities import counted, format_size
from modak_ansible.sources import kind_of
from modak_ansible.stages.base import Answer, Outcome, Stage, until_ended
from modak_ansible.target.core.files import Lock, make_private, write_whole
from modak_ansible.target.core.plan import Plan, PlannedDataset
from modak_ansible.target.core.staging import datasets_of
from modak_ansible.target.datasets.dataset import Staged
from modak_ansible.target.datasets.listed import Access
from modak_ansible.target.datasets.pack import Packed
from modak_ansible.transport.lifeline import passing_folder
from modak_ansible.transport.rsync import push, push_below


def ensure_dataset(stage: Stage) -> Outcome:
    """Makes sure that the plan's datasets are on the target.

    Raises:
        ModakError: no source has one of them, a checksum is wrong, or there is no room; with what each source said.
    """
    outcomes = [_ensure(stage, dataset) for dataset in datasets_of(stage.plan)]
    if not outcomes:
        return Outcome(False, "none")
    refusals = [refusal for outcome in outcomes for refusal in outcome.data.get("refusals", [])]
    data = {**outcomes[0].data, **({"refusals": refusals} if refusals else {})}
    return Outcome(
        any(outcome.changed for outcome in outcomes), "; ".join(outcome.message for outcome in outcomes), data
    )


def data_of(plan: Plan) -> str:
    """What data a plan wants, and in which form: deployments that want the same have it brought once."""
    return " ".join(f"{dataset['digest']}{dataset.get('pack', '')}" for dataset in datasets_of(plan))


def _ensure(stage: Stage, dataset: PlannedDataset) -> Outcome:
    if dataset.get("pack") == "squashfs":
        return ensure_packed(stage, dataset, lambda: _ensure_files(stage, dataset))
    return _ensure_files(stage, dataset)


def _ensure_files(stage: Stage, dataset: PlannedDataset) -> Outcome:
    answer = _call(stage, dataset, action="look")
    if answer.get("damaged"):
        stage.say(
            f"{answer['damaged']} on the target is no longer what was staged: {dataset['name']} is transferred again"
        )
    if answer["dataset"]:
        _note(stage, dataset, answer["dataset"])
        return Outcome(False, _message(answer["dataset"]), {"dataset": answer["dataset"]})
    if stage.check:
        return Outcome(True, f"would transfer {dataset['name']}")
    refusals: list[str] = []
    for source in dataset["sources"]:
        try:
            staged = _Carrier(stage, dataset, answer).bring(DataSource.model_validate(source))
        except ModakError as error:
            name = source["location"] or source["kind"]
            refusal = error.message if name in error.message else f"{name}: {error.message}"
            if source is dataset["sources"][-1]:
                if not refusals:
                    raise
                raise ModakError(
                    f"no source has the dataset {dataset['name']}: {'; '.join([*refusals, refusal])}", hint=error.hint
                ) from error
            refusals.append(refusal)
            stage.say(refusal)
        else:
            _note(stage, dataset, staged)
            return Outcome(True, _message(staged), {"dataset": staged, "refusals": refusals})
    raise ModakError(f"the dataset {dataset['name']} has no source")


def _note(stage: Stage, dataset: PlannedDataset, staged: Staged) -> None:
    """Has the record know which of the first dataset's sources it was: what was predicted holds for the first."""
    if not stage.check and dataset is stage.plan["dataset"]:
        stage.record.update(data=staged["label"])


def _call(stage: Stage, dataset: PlannedDataset, **arguments: Any) -> Answer:
    target = stage.plan["target"]
    return stage.call(
        "modak_dataset",
        workspace=target["workspace"],
        deployment=stage.deployment,
        dataset=dataset,
        site=target["site"],
        **arguments,
    )


def _message(staged: Staged) -> str:
    size = f"{format_size(staged['size'])} in {counted(staged['files'], 'file')}"
    if staged.get("is_whole", True):
        return f"{staged['label']}, {size}"
    return f"{staged['label']}, more than {size}: of so many, {staged['sample']} were looked at"


def ensure_packed(stage: Stage, dataset: PlannedDataset, bring: Callable[[], Outcome]) -> Outcome:
    """Makes sure that the image of a dataset is on the target; its folder is brought where it is not.

    Raises:
        ModakError: the folder cannot be brought, or there is no mksquashfs, or no room.
    """
    call = partial(
        stage.call, "modak_pack", workspace=stage.plan["target"]["workspace"], deployment=stage.deployment,
        dataset=dataset,
    )  # fmt: skip
    packed = call(action="look")["packed"]
    if packed:
        return Outcome(False, _packed_message(dataset, packed), {"packed": packed})
    if stage.check:
        return Outcome(True, f"would transfer {dataset['name']} and pack it")
    outcome = bring()
    stage.say(f"packing {dataset['name']} into one image on the target")
    answer = until_ended(stage.say, call, call(action="pack"))
    if answer["packed"] is None:
        status = answer["status"]
        if status["state"] != "failed":
            raise ModakError(f"packing {dataset['name']} was interrupted", hint="deploy again: it starts over")
        raise ModakError(status["message"], hint=status.get("hint", ""))
    call(action="tidy")
    return Outcome(True, _packed_message(dataset, answer["packed"]), {**outcome.data, "packed": answer["packed"]})


def _packed_message(dataset: PlannedDataset, packed: Packed) -> str:
    return f"{dataset['name']}: {packed['files']:,} files in one image of {format_size(packed['packed'])}"


class _Carrier:
    """Brings one dataset to the target; what sources bring their files with."""

    def __init__(self, stage: Stage, dataset: PlannedDataset, answer: Answer) -> None:
        self._stage, self._dataset, self._answer = stage, dataset, answer
        self._known: Staged | None = None
        self.folder = stage.blueprint_folder
        self._lock = Lock(stage.folder.parent.parent / "downloads" / f".{dataset['digest'][:12]}.lock")
        self._is_fetching = False
        self.downloads = stage.folder.parent.parent / "downloads" / dataset["digest"][:12]

    def bring(self, source: DataSource) -> Staged:
        """Has a source bring its files; gives what lies on the target then.

        Raises:
            ModakError: it has them not, or they do not arrive.
        """
        kind_of(source).bring(source, self)
        if self._known is None:
            raise ModakError(f"{source.location} provided nothing")
        return self._known

    def say(self, text: str) -> None:
        self._stage.say(text)

    def passing(self) -> AbstractContextManager[str]:
        return passing_folder("modak-data-")

    @property
    def is_local(self) -> bool:
        return self._stage.connection.is_local

    @contextmanager
    def fetching(self) -> Iterator[bool]:
        with self._lock:
            make_private(self.downloads)
            self._is_fetching = True
            try:
                yield not self._is_there()
                shutil.rmtree(self.downloads, ignore_errors=True)
            finally:
                self._is_fetching = False

    def _is_there(self) -> bool:
        """Whether the dataset is on the target: another deploy may have brought it meanwhile."""
        self._known = _call(self._stage, self._dataset, action="look")["dataset"]
        return bool(self._known)

    def send(self, source: DataSource, root: Path, files: Sequence[DataFile]) -> None:
        if self._is_fetching:
            self._send(source, root, files)
            return
        with self._lock:
            if not self._is_there():
                self._send(source, root, files)

    def _send(self, source: DataSource, root: Path, files: Sequence[DataFile]) -> None:
        size = sum(file.size or 0 for file in files)
        manifest_path = Path(self._answer["wanted"])
        with self.passing() as folder:
            manifest = Path(folder) / manifest_path.name
            write_whole(manifest, json.dumps({"files": [file.model_dump() for file in files]}))
            push(self._stage.connection, [manifest], str(manifest_path.parent), self.say)
        space = size + (source.bytes_there or 0 if source.unpack else 0)
        present = _call(self._stage, self._dataset, action="prepare", size=space)["taken"]
        if present:
            self.say(f"{counted(present, 'file')} of {len(files)} are there already, in another dataset")
        if present < len(files):
            self.say(f"sending {format_size(size)} in {counted(len(files), 'file')}")
            names = [file.name for file in files]
            push_below(self._stage.connection, root, names, self._answer["folder"], self.say)
        self._finish(source, "commit", "what was sent")

    def have_fetched(self, source: DataSource, access: Access | None = None) -> None:
        self._finish(source, "download", source.location, access or {})

    def _finish(self, source: DataSource, action: str, transfer: str, access: Access | None = None) -> None:
        """Has the target do what takes it a while, and waits for it.

        Raises:
            ModakError: it failed there, or was cut short.
        """
        # many files are known there from the manifest that was sent
        sent_source = source.model_copy(update={"files": ()}) if action == "commit" else source
        arguments = {"access": access} if access else {}
        answer = _call(
            self._stage, self._dataset, action=action, source=sent_source.model_dump(mode="json"), **arguments
        )
        answer = until_ended(self.say, partial(_call, self._stage, self._dataset), answer)
        if answer["dataset"]:
            self._known = answer["dataset"]
            return
        if answer["status"]["state"] != "failed":
            raise ModakError(f"{transfer}: it was interrupted", hint="deploy again: it continues where it stopped")
        kind = NotReached if answer["status"].get("is_unreached") else ModakError
        raise kind(answer["status"]["message"], hint=answer["status"].get("hint", ""))
