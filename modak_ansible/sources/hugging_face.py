"""Datasets of the Hugging Face Hub, or of a mirror of it, at one commit; the Hub's own client asks it.

The login is the client's: ``HF_TOKEN``, or what ``hf auth login`` has kept. ``HF_ENDPOINT`` names a mirror.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import unquote

from modak_ansible.errors import close_to, nearest
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.sources.base import Carrier, SourceProblem, Unreached
from modak_ansible.sources.listed import ListedSource, Listing, import_extra, select_names
from modak_ansible.store.cache import cache_folder, keep_json
from modak_ansible.target.core.files import NO_ROOM, read_json
from modak_ansible.target.datasets.listed import STREAMS, Access

_SCHEME = "hf://"
_FORM = "hf://datasets/OWNER/NAME, and behind it @REVISION and /FOLDER, /FILE or a pattern such as /data/*.parquet"
_PAGE = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/datasets/([^?#]+)", re.IGNORECASE)
_PART = r"[A-Za-z0-9][\w.-]*"
_PLACE = re.compile(
    rf"datasets/(?P<name>{_PART}(?:/{_PART})?)(?:@(?P<revision>refs/(?:convert|pr)/[^/@]+|[^/@]+))?(?:/(?P<path>.*))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ATTEMPTS = 3
_LONGEST_WAIT = 30.0  # seconds
_Answer = TypeVar("_Answer")


class _Place(NamedTuple):
    name: str
    revision: str
    path: str

    def at(self, commit: str) -> str:
        return f"{_SCHEME}datasets/{self.name}@{commit}{'/' if self.path else ''}{self.path}"


class HuggingFace(ListedSource):
    """Fetched by the target itself, with the user's token where one is needed; else by the Hub's client, here."""

    kinds: ClassVar[tuple[str, ...]] = ("hugging_face",)
    order = 5  # before any other address

    def knows(self, text: str) -> bool:
        return text.startswith(_SCHEME) or bool(_page(text))

    def server(self) -> str:
        return _endpoint() or ""

    def listing(self, text: str) -> Listing:
        place = _place(text)
        commit, files, samples = _tree(place)
        chosen_names = select_names(files, place.path, f"{place.name}@{commit[:12]}")
        data_files = tuple(_file(name, files[hub_name]) for name, hub_name in sorted(chosen_names.items()))
        return Listing(place.at(commit), data_files, samples if not place.path else None)

    def fetched(self, source: DataSource, files: Sequence[DataFile]) -> tuple[list[DataFile], Access] | None:
        hub = import_extra("huggingface_hub", "hf")
        place, hub_names = _place(source.location), self._own_names(source)
        of_place = {"repo_type": "dataset", "revision": place.revision, "endpoint": _endpoint()}
        urls = {file.name: hub.hf_hub_url(place.name, hub_names[file.name], **of_place) for file in files}
        addressed = [file.model_copy(update={"address": urls[file.name]}) for file in files]
        token = hub.get_token()
        return addressed, {"headers": {"Authorization": f"Bearer {token}"}} if token else {}

    def download(self, source: DataSource, files: Sequence[DataFile], carrier: Carrier) -> None:
        hub = import_extra("huggingface_hub", "hf")
        place, hub_names = _place(source.location), self._own_names(source)
        started = time.monotonic()

        def one(file: DataFile) -> None:
            destination = carrier.downloads / file.name
            if destination.is_file() and destination.stat().st_size == file.size:
                return
            path = hub.hf_hub_download(
                place.name,
                hub_names[file.name],
                repo_type="dataset",
                revision=place.revision,
                endpoint=_endpoint(),
                local_dir=carrier.downloads / ".hub",
            )
            destination.parent.mkdir(parents=True, exist_ok=True)
            Path(path).replace(destination)

        hub.utils.disable_progress_bars()
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - slow to import, and plans fetch nothing

        with ThreadPoolExecutor(STREAMS) as pool:
            tasks = [pool.submit(_answer, place, lambda file=file: one(file)) for file in files]
            try:
                for number, task in enumerate(tasks, 1):
                    task.result()
                    if time.monotonic() - started > 2:
                        started = time.monotonic()
                        carrier.say(f"fetched {number} of {len(tasks)} files")
            except BaseException:
                for task in tasks:
                    task.cancel()
                raise

    def _own_names(self, source: DataSource) -> dict[str, str]:
        """By the name that a file gets, that which it has on the Hub."""
        place = _place(source.location)
        return select_names(_tree(place)[1], place.path, place.name)


def _page(text: str) -> str:
    """What a page of the Hub's shows, as a source; empty for the address of a file, or of anything else."""
    match = _PAGE.match(text)
    if not match or "/resolve/" in text:
        return ""
    name, _, rest = match.group(1).strip("/").partition("/tree/")
    name, _, rest = (name, "", rest) if rest else name.partition("/blob/")
    name = "/".join(name.split("/")[:2])
    revision, _, path = rest.partition("/")
    return f"{_SCHEME}datasets/{name}{'@' if revision else ''}{revision}{'/' if path else ''}{path}"


def _place(text: str) -> _Place:
    if page := _page(text):
        raise SourceProblem(f"{text} is a page for browsers", f"write {page}")
    rest = text.removeprefix(_SCHEME)
    match = _PLACE.fullmatch(rest)
    if not match:
        is_model = re.fullmatch(rf"(?:models/)?{_PART}/{_PART}", rest) and not rest.startswith(("datasets/", "spaces/"))
        hint = f"write {_SCHEME}datasets/{rest}" if is_model else _FORM
        raise SourceProblem(f"{text} names no dataset of the Hub", hint)
    return _Place(match["name"], unquote(match["revision"] or ""), match["path"] or "")


def _endpoint() -> str | None:
    return (os.environ.get("HF_ENDPOINT") or "").rstrip("/") or None


def _file(name: str, record: Sequence[Any]) -> DataFile:
    size, sha256, git = record
    return DataFile(name=name, size=size, sha256=sha256, version="" if sha256 else f"git:{git}")


def _tree(place: _Place) -> tuple[str, dict[str, list[Any]], int | None]:
    """The commit that is meant, what it has by name (size, SHA-256 or None, git's SHA-1), and its training samples.

    A commit never changes: it is asked for once.
    """
    if _COMMIT.fullmatch(place.revision) and (listing := read_json(_listing_path(place.name, place.revision))):
        return place.revision, listing["files"], listing["samples"]
    hub = import_extra("huggingface_hub", "hf")
    api = hub.HfApi(endpoint=_endpoint())
    info = _answer(place, lambda: api.dataset_info(place.name, revision=place.revision or None))
    commit = info.sha
    if listing := read_json(_listing_path(place.name, commit)):
        return commit, listing["files"], listing["samples"]
    entries = _answer(
        place, lambda: list(api.list_repo_tree(place.name, recursive=True, revision=commit, repo_type="dataset"))
    )
    files = {
        entry.path: [entry.size, entry.lfs.sha256 if entry.lfs else None, entry.blob_id]
        for entry in entries
        if isinstance(entry, hub.hf_api.RepoFile) and entry.path != ".gitattributes"
    }
    samples = _samples(info.card_data)
    keep_json(_listing_path(place.name, commit), {"files": files, "samples": samples})
    return commit, files, samples


def _listing_path(name: str, commit: str) -> Path:
    key = hashlib.sha256(f"{_endpoint() or ''} {name} {commit}".encode()).hexdigest()
    return cache_folder() / "listings" / f"{key}.json"


def _samples(card: Any) -> int | None:
    """What the dataset's card says of the part ``train``, where there is one such part."""
    info = (card.to_dict() if card else {}).get("dataset_info")
    info = info[0] if isinstance(info, list) and len(info) == 1 else info
    splits = info.get("splits") if isinstance(info, dict) else None
    if not isinstance(splits, list):
        return None
    counts = [
        split.get("num_examples")
        for split in splits
        if isinstance(split, dict) and (split.get("name") == "train" or len(splits) == 1)
    ]
    return counts[0] if len(counts) == 1 and isinstance(counts[0], int) and counts[0] > 0 else None


def _answer(place: _Place, ask: Callable[[], _Answer]) -> _Answer:
    """What the Hub answers.

    Raises:
        SourceProblem: it has no such thing, refuses it, or does not answer.
    """
    errors = import_extra("huggingface_hub.errors", "hf")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return ask()
        except (errors.HTTPError, OSError, ValueError) as error:
            if getattr(error, "errno", None) in NO_ROOM:
                raise
            answer = getattr(error, "response", None)
            code = getattr(answer, "status_code", 0)
            if attempt == _ATTEMPTS or (code and code < 500 and code not in (408, 429)):
                raise _problem(place, error, code, errors) from error
            retry_after = str(answer.headers.get("Retry-After") or "") if answer is not None else ""
            time.sleep(min(float(retry_after), _LONGEST_WAIT) if retry_after.isdigit() else attempt)
    raise AssertionError


def _problem(place: _Place, error: Exception, code: int, errors: Any) -> SourceProblem:
    where = _endpoint() or "https://huggingface.co"
    login = "hf auth login, or HF_TOKEN in the environment of modak"
    if isinstance(error, errors.GatedRepoError):
        hint = f"accept its terms at {where}/datasets/{place.name}, and {login}"
        return SourceProblem(f"{place.name} is only available to those who have accepted its terms", hint)
    # the client knows a missing one by the addresses of the Hub itself, not by those of each mirror
    is_missing = code == 404 or (code == 401 and not import_extra("huggingface_hub", "hf").get_token())
    if isinstance(error, errors.RevisionNotFoundError):
        reason = f"{place.name} has no revision {place.revision or 'main'}"
        return SourceProblem(reason, nearest(place.revision, _revisions(place)))
    if is_missing or isinstance(error, errors.RepositoryNotFoundError):
        reason = f"{where} has no dataset {place.name}, or it is private"
        near = _similar_name(place)
        return SourceProblem(reason, f"did you mean {near}?" if near else f"a private one: {login}")
    if code in (401, 403):
        return SourceProblem(f"{where} refuses the login for {place.name}", f"the token may have expired: {login}")
    if code == 429:
        return SourceProblem(f"{where} is asked too often", f"wait a while; or {login}")
    if code:
        return SourceProblem(f"{where} answers {code} for {place.name}", "try again later")
    why = " ".join(str(error).split())[:200] or type(error).__name__
    hint = "the network, and HTTPS_PROXY and HF_ENDPOINT of this machine; or fetch it there, and say on_target:"
    return Unreached(f"{where} cannot be asked for {place.name}: {why}", hint)


def _similar_name(place: _Place) -> str:
    """The dataset's name that another was mistyped from, as the Hub finds it."""
    hub = import_extra("huggingface_hub", "hf")
    api = hub.HfApi(endpoint=_endpoint())
    with suppress(hub.errors.HTTPError, OSError, ValueError):
        owner, _, name = place.name.rpartition("/")
        ids = [dataset.id for word in (name, owner) if word for dataset in api.list_datasets(search=word, limit=20)]
        last = close_to(name, [identifier.rpartition("/")[2] for identifier in ids])
        return close_to(place.name, ids) or next(
            (identifier for identifier in ids if last and identifier.endswith(last)), ""
        )
    return ""


def _revisions(place: _Place) -> list[str]:
    hub = import_extra("huggingface_hub", "hf")
    with suppress(hub.errors.HTTPError, OSError, ValueError):
        refs = hub.HfApi(endpoint=_endpoint()).list_repo_refs(place.name, repo_type="dataset")
        return [ref.name for ref in (*refs.branches, *refs.tags, *refs.converts)]
    return []
