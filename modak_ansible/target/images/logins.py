"""Which registry an image comes from, how the runtime is told a login (by its environment, never by arguments), and
what a registry's refusal means."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, TypedDict

from ...errors import ModakError
from ..core.plan import Layer

_HUB = "docker.io"
_FROM = re.compile(r"^Bootstrap: (docker|oras)\n(?:.*\n)*?From: (\S+)$", re.MULTILINE | re.IGNORECASE)
_ADDRESS = re.compile(r"\b(?:docker|oras|library)://[^\s\"']*[^\s\"':,.]")
_NOT_THERE = r"manifest unknown|name unknown|not found|status code:? 404|statuscode: 404"
# What the runtime says at the end of a line about an image, what that means, and what to do.
_REFUSALS = (
    (
        r"toomanyrequests|pull rate limit",
        "{registry} gives this machine's address no more images for some hours",
        "a login has a limit of its own: MODAK_REGISTRY={registry}, MODAK_REGISTRY_USERNAME and "
        "MODAK_REGISTRY_PASSWORD in the environment of modak; or deploy again later",
    ),
    (
        r"authentication required|unauthorized|denied|status code:? 40[13]|statuscode: 40[13]",
        "{registry} wants a login for {address}, or refuses the one that it is given",
        "MODAK_REGISTRY={registry}, MODAK_REGISTRY_USERNAME and MODAK_REGISTRY_PASSWORD in the environment of modak; "
        "or once, on the target: apptainer registry login --username NAME docker://{registry}",
    ),
    (
        _NOT_THERE,
        "{registry} has no image {address}, or shows it only to those who have a login",
        "check its name and its tag",
    ),
    (
        r"failed to verify certificate|certificate signed by|x509",
        "the certificate of {registry} is not trusted on the target",
        "certificate_bundle of the target's site names a file there with the authorities that are",
    ),
    (
        r"http response to https client",
        "{registry} answers without TLS",
        "where that is meant, a login shell of the target may export APPTAINER_NOHTTPS=1",
    ),
    (
        r"no such host|connection refused|no route|unreachable|time-?out|connection reset|deadline exceeded",
        "{registry} cannot be reached from the target",
        "pull it where there is a way, copy the .sif file to the target, and give its path there as source",
    ),
    (
        r"invalid reference format",
        "{address} is not the name of an image",
        "such as docker://registry.example/team/image:1, all but the tag in small letters",
    ),
    (
        r"invalid layer mediatype",
        "{address} does not hold an image for Apptainer",
        "docker:// pulls what docker and podman push",
    ),
)
# What it says without an address.
_NO_LIBRARY = "remote has no library client"


class NoImage(ModakError):
    """Where an image was looked for there is none."""


class Login(TypedDict):
    registry: str
    username: str
    password: str


class Secrets(TypedDict, total=False):
    """What making an image needs to be told; ``pip`` has addresses that hold tokens, by the names of its settings."""

    logins: List[Login]
    pip: Dict[str, str]


def registry_of(source: str) -> str:
    """The host of an image's address, such as ``docker://registry.example/team/image:1``; empty where it has none."""
    scheme, separator, name = source.partition("://")
    if not separator or scheme not in ("docker", "oras"):
        return ""
    host, slash, _ = name.partition("/")
    return host if slash and ("." in host or ":" in host or host == "localhost") else _HUB


def registry_of_layer(layer: Layer) -> str:
    """The registry that making a layer asks; empty where it asks none."""
    if layer["kind"] == "pull":
        return registry_of(layer["source"])
    found = _FROM.search(layer["definition"]) if layer["kind"] == "build" else None
    return registry_of(f"{found.group(1).lower()}://{found.group(2)}") if found else ""


def login_for(layer: Layer, secrets: Secrets) -> Optional[Login]:
    """The login for the registry that making a layer asks; None where there is none."""
    return _login_at(registry_of_layer(layer), secrets)


def _login_at(registry: str, secrets: Secrets) -> Optional[Login]:
    return next((login for login in secrets.get("logins") or () if registry and login["registry"] == registry), None)


def login_environment(layer: Layer, secrets: Secrets) -> dict[str, str]:
    """The variables by which Apptainer and Singularity log in to a layer's registry; none where no login is for it."""
    return _of_login(login_for(layer, secrets))


def login_of(address: str, secrets: Secrets) -> dict[str, str]:
    """The same for the registry of an address."""
    return _of_login(_login_at(registry_of(address), secrets))


def _of_login(login: Optional[Login]) -> dict[str, str]:
    if login is None:
        return {}
    values = {"DOCKER_USERNAME": login["username"], "DOCKER_PASSWORD": login["password"]}
    return {f"{runtime}_{name}": value for runtime in ("APPTAINER", "SINGULARITY") for name, value in values.items()}


def refused_image(lines: List[str], about: str = "") -> Optional[ModakError]:
    """What it means that a runtime could not have an image of a registry; None where its log tells of none.

    Args:
        lines: the end of its log.
        about: the image's address, for a runtime that does not say it again.
    """
    line = next((line for line in reversed(lines) if "FATAL" in line or "ERROR" in line), "")
    if _NO_LIBRARY in line:
        hint = "there: apptainer remote add and apptainer remote use"
        return ModakError("the target's runtime has no server for addresses of library://", hint=hint)
    found = _ADDRESS.search(line)
    if found is None and not (about and line):
        return None
    address = found.group() if found else about
    registry = registry_of(address) or address.partition("://")[0]
    reason = line[found.end() if found else line.find(": ") :].strip(": ")
    for sign, words, hint in _REFUSALS:
        if re.search(sign, reason, re.IGNORECASE):
            told = words.format(registry=registry, address=address)
            if sign == _NOT_THERE:
                return NoImage(f"{told}: {reason}", hint=hint.format(registry=registry))
            return ModakError(f"{told}: {reason}", hint=hint.format(registry=registry))
    return None
