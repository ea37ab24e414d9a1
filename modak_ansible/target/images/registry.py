"""Which digest a registry has for a tag. It is asked before an image is pulled, which then comes by that digest."""

from __future__ import annotations

import base64
import json
import re
import ssl
from http.client import HTTPException
from typing import Any, Mapping, Optional, Tuple
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from ...errors import unwrapped
from .logins import Login, registry_of

_SECONDS = 20
_HUB, _HUB_HOST = "docker.io", "registry-1.docker.io"
_NAME = re.compile(r"(?P<name>[a-z0-9][a-z0-9._/-]*)(?::(?P<tag>\w[\w.-]{0,127}))?", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_PART = re.compile(r'(\w+)="([^"]*)"')
# What a tag may stand for: an image, or a list of them by processor.
_KINDS = ", ".join((
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip


class NoDigest(Exception):
    """The registry does not say which digest a tag has; the reason is in words for people."""


class NoRedirect(HTTPRedirectHandler):
    """What is shown to a server, such as a login, is shown to nobody else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def tag_of(source: str) -> Optional[Tuple[str, str, str]]:
    """Host, name and tag of an image's address; None where it names a digest already, or is none of docker://."""
    host = registry_of(source)
    rest = source.partition("://")[2]
    found = _NAME.fullmatch(rest[len(host) + 1 :] if rest.startswith(f"{host}/") else rest)
    if not source.startswith("docker://") or not host or found is None:
        return None
    name = found.group("name")
    name = f"library/{name}" if host == _HUB and "/" not in name else name
    return host, name, found.group("tag") or "latest"


def by_digest(source: str, digest: str) -> str:
    """The address of an image by its digest in place of its tag."""
    head, slash, last = source.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}@{digest}"


def digest_of_tag(
    source: str, login: Optional[Login], environment: Mapping[str, str], bundle: Optional[str] = None
) -> str:
    """The digest that a registry has for the tag of an image; empty where the address has no tag.

    Args:
        source: such as docker://registry.example/team/image:1.
        login: for that registry.
        environment: of the runtime, whose word on TLS counts.
        bundle: a file of certificates to trust in place of the system's.

    Raises:
        NoDigest: the registry cannot be asked, or does not say.
    """
    parts = tag_of(source)
    if parts is None:
        return ""
    host, name, tag = parts
    is_plain = any(environment.get(f"{runtime}_NOHTTPS", "") for runtime in ("APPTAINER", "SINGULARITY"))
    place = f"{'http' if is_plain else 'https'}://{_HUB_HOST if host == _HUB else host}/v2/{name}/manifests/{tag}"
    opener = build_opener(NoRedirect(), HTTPSHandler(context=ssl.create_default_context(cafile=bundle)))
    headers = {"Accept": _KINDS}
    try:
        try:
            answer = _ask(opener, place, headers)
        except HTTPError as error:
            if error.code != 401:
                raise
            shown = _shown(opener, error.headers.get("WWW-Authenticate") or "", login, place)
            if not shown:
                raise
            answer = _ask(opener, place, {**headers, "Authorization": shown})
    except HTTPError as error:
        raise NoDigest(f"it answers {error.code}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise NoDigest(unwrapped(error)) from error
    digest = answer.get("Docker-Content-Digest") or ""
    if not _DIGEST.fullmatch(digest):
        raise NoDigest("it names no digest")
    return digest


def _ask(opener: OpenerDirector, place: str, headers: Mapping[str, str]) -> Any:
    with opener.open(Request(place, headers=dict(headers), method="HEAD"), timeout=_SECONDS) as answer:  # noqa: S310 - of ours
        return answer.headers


def _shown(opener: OpenerDirector, wanted: str, login: Optional[Login], place: str) -> str:
    """What a registry wants to be shown, by what it says of that; empty where we have nothing for it."""
    basic = ""
    if login:
        words = f"{login['username']}:{login['password']}".encode()
        basic = f"Basic {base64.b64encode(words).decode()}"
    scheme, _, rest = wanted.partition(" ")
    if scheme.lower() == "basic":
        return basic
    said = dict(_PART.findall(rest))
    realm = said.pop("realm", "")
    is_same = urlsplit(realm)[:2] == urlsplit(place)[:2]
    is_safe = urlsplit(realm).scheme == "https" or is_same
    if scheme.lower() != "bearer" or not is_safe:
        return ""
    headers = {"Authorization": basic} if basic else {}
    asked = f"{realm}?{urlencode({name: said[name] for name in ('service', 'scope') if name in said})}"
    with opener.open(Request(asked, headers=headers), timeout=_SECONDS) as answer:  # noqa: S310 - looked at above
        told = json.loads(answer.read(1 << 20).decode("utf-8", errors="replace"))
    told = told if isinstance(told, dict) else {}
    token = told.get("token") or told.get("access_token") or ""
    return f"Bearer {token}" if isinstance(token, str) and token.isprintable() and token else ""
