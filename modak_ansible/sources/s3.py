"""Objects of S3, or of what speaks as it does, such as MinIO and Ceph; Amazon's own client asks for them.

The login is the client's: its variables, ``~/.aws``, a profile or a role. Without any, it is asked as by anybody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from modak_ansible.errors import close_to
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.sources.base import SourceProblem, Unreached, is_split
from modak_ansible.sources.listed import ListedSource, Listing, import_extra, path_not_found, root_of, select_names
from modak_ansible.target.datasets.listed import Access, etag_of

_SCHEME = "s3://"
_FORM = "s3://BUCKET/FOLDER, a file or a pattern; ?endpoint_url=https://HOST behind it for MinIO or Ceph"
_PLACE = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<path>.*?))?(?:\?(?P<query>\w+=[^?]*))?")
_SETTINGS = ("endpoint_url", "region", "profile")
_FROZEN = ("GLACIER", "DEEP_ARCHIVE")
_GOOD_FOR = 24 * 3600  # seconds that a signed address serves the target
_LOGIN = "aws configure, AWS_PROFILE, or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of modak"
_Answer = TypeVar("_Answer")


class _Place(NamedTuple):
    bucket: str
    path: str
    settings: dict[str, str]


class S3(ListedSource):
    """Fetched by the target itself, with addresses that are signed here for a day; no login leaves this machine."""

    kinds: ClassVar[tuple[str, ...]] = ("s3",)
    order = 5

    def knows(self, text: str) -> bool:
        return text.startswith(_SCHEME)

    def server(self) -> str:
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""

    def listing(self, text: str) -> Listing:
        place = _place(text)
        client, objects = _answer(place, lambda: _objects(place))
        file_objects = {name: facts for name, facts in objects.items() if not name.endswith("/")}
        where = f"{_SCHEME}{place.bucket}"
        if not file_objects and (root := root_of(place.path)):
            raise path_not_found(root, where, _answer(place, lambda: _beside(client, place.bucket, root)))
        chosen_keys = select_names(file_objects, place.path, where)
        base = _address(client, place.bucket)
        files = []
        for name, key in sorted(chosen_keys.items()):
            size, etag, kind = file_objects[key]
            if kind in _FROZEN:
                reason = f"{where}/{key} lies in the archive {kind}"
                raise SourceProblem(reason, "have it restored, or name the files that are meant")
            files.append(DataFile(name=name, size=size, version=etag_of(etag), address=base + quote(key, safe="/~")))
        return Listing(text, tuple(files))

    def fetched(self, source: DataSource, files: Sequence[DataFile]) -> tuple[list[DataFile], Access] | None:
        place = _place(source.location)
        client = _answer(place, lambda: _client(place))
        base = len(_address(client, place.bucket))
        keys = {file.name: unquote(file.address[base:]) for file in files}
        urls = _answer(place, lambda: {name: _signed(client, place.bucket, key) for name, key in keys.items()})
        addressed = [file.model_copy(update={"address": urls[file.name].partition("?")[0]}) for file in files]
        queries = {name: url.partition("?")[2] for name, url in urls.items()}
        return addressed, {"queries": queries} if any(queries.values()) else {}


def _place(text: str) -> _Place:
    match = _PLACE.fullmatch(text.removeprefix(_SCHEME))
    settings = dict(parse_qsl(match["query"] or "", keep_blank_values=True)) if match else {}
    if not match:
        raise SourceProblem(f"{text} names no bucket", _FORM)
    for name, value in settings.items():
        if name not in _SETTINGS:
            near = close_to(name, _SETTINGS)
            hint = f"did you mean {near}?" if near else "; ".join(_SETTINGS)
            raise SourceProblem(f"{text}: {name} is not a setting of this kind of source", hint)
        if name == "endpoint_url" and (
            not is_split(value) or urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc
        ):
            raise SourceProblem(f"{text}: {value} is not the address of a server", "https://HOST:PORT")
    return _Place(match["bucket"], match["path"] or "", settings)


def _client(place: _Place, region: str = "") -> Any:
    """A client with the login of this environment; to make one takes longer than to ask it."""
    login = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    return _client_of(tuple(sorted(place.settings.items())), region, login)


@lru_cache(maxsize=8)
def _client_of(items: tuple[tuple[str, str], ...], region: str, login: object) -> Any:  # noqa: ARG001 - it is the key's
    settings = dict(items)
    boto3, unsigned = import_extra("boto3", "s3"), import_extra("botocore", "s3").UNSIGNED
    config = import_extra("botocore.config", "s3").Config
    session = boto3.Session(profile_name=settings.get("profile") or None)
    return session.client(
        "s3",
        endpoint_url=settings.get("endpoint_url") or None,
        region_name=region or settings.get("region") or session.region_name or "us-east-1",
        config=config(
            signature_version="s3v4" if session.get_credentials() else unsigned, connect_timeout=10, read_timeout=60
        ),
    )


def _objects(place: _Place) -> tuple[Any, dict[str, tuple[int, str, str]]]:
    """A client for the bucket's own region, and of the objects that may be meant size, ETag and class by key."""
    client = _client(place)
    objects: dict[str, tuple[int, str, str]] = {}
    region = ""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=root_of(place.path)):
        region = page["ResponseMetadata"].get("HTTPHeaders", {}).get("x-amz-bucket-region") or region
        for entry in page.get("Contents", ()):
            objects[entry["Key"]] = (entry["Size"], entry["ETag"], entry.get("StorageClass", ""))
    is_elsewhere = region and region != client.meta.region_name
    return (_client(place, region) if is_elsewhere else client), objects


def _beside(client: Any, bucket: str, path: str) -> list[str]:
    """The first names in the folder above a path."""
    above = f"{path.rpartition('/')[0]}/".lstrip("/")
    page = client.list_objects_v2(Bucket=bucket, Prefix=above, Delimiter="/")
    names = [prefix["Prefix"] for prefix in page.get("CommonPrefixes", ())] + [
        entry["Key"] for entry in page.get("Contents", ())
    ]
    return [name[len(above) :].strip("/") for name in names]


def _signed(client: Any, bucket: str, key: str) -> str:
    parameters = {"Bucket": bucket, "Key": key}
    return str(client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=_GOOD_FOR))


def _address(client: Any, bucket: str) -> str:
    """What the addresses of a bucket's objects begin with."""
    return _signed(client, bucket, "x").partition("?")[0].removesuffix("x")


def _answer(place: _Place, ask: Callable[[], _Answer]) -> _Answer:
    """What the client answers.

    Raises:
        SourceProblem: the bucket is not there, refuses the login, or cannot be asked.
    """
    errors = import_extra("botocore.exceptions", "s3")
    try:
        return ask()
    except errors.ClientError as error:
        details = error.response.get("Error", {})
        code, status = str(details.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise _refused(place, code, status) from error
    except (errors.BotoCoreError, ValueError) as error:
        why = " ".join(str(error).split())[:300]
        reason = f"{_SCHEME}{place.bucket} cannot be asked: {why}"
        is_login = "credential" in why.lower() or "profile" in why.lower() or "sso" in why.lower()
        hint = _LOGIN if is_login else "the network of this machine, and endpoint_url; or fetch it, and give its path"
        raise (SourceProblem if is_login else Unreached)(reason, hint) from error


def _refused(place: _Place, code: str, status: int) -> SourceProblem:
    bucket = f"{_SCHEME}{place.bucket}"
    if code in ("NoSuchBucket", "404"):
        near = close_to(place.bucket, _buckets(place))
        hint = f"did you mean {near}?" if near else "its name; and endpoint_url, where it is not Amazon's"
        return SourceProblem(f"there is no bucket {place.bucket}", hint)
    if code.startswith("Expired") or code in ("TokenRefreshRequired", "RequestExpired"):
        return SourceProblem(f"the login for {bucket} has expired", f"log in again: {_LOGIN}")
    if status in (401, 403):
        return SourceProblem(f"{bucket} cannot be read with this login: {code}", _LOGIN)
    return SourceProblem(f"{bucket} answers {code or status}", "try again later")


def _buckets(place: _Place) -> list[str]:
    errors = import_extra("botocore.exceptions", "s3")
    with suppress(errors.ClientError, errors.BotoCoreError):
        return [bucket["Name"] for bucket in _client(place).list_buckets()["Buckets"]]
    return []
