"""Which registry an image comes from, and how the runtime is told a login: by its environment, never by arguments."""

from __future__ import annotations

import re
from typing import Dict, List, TypedDict

from ..core.plan import Layer

_HUB = "docker.io"
_FROM = re.compile(r"^Bootstrap: (docker|oras)\n(?:.*\n)*?From: (\S+)$", re.MULTILINE | re.IGNORECASE)


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


def login_environment(layer: Layer, secrets: Secrets) -> dict[str, str]:
    """The variables by which Apptainer and Singularity log in to a layer's registry; none where no login is for it."""
    registry = registry_of_layer(layer)
    login = next((login for login in secrets.get("logins") or () if registry and login["registry"] == registry), None)
    if login is None:
        return {}
    values = {"DOCKER_USERNAME": login["username"], "DOCKER_PASSWORD": login["password"]}
    return {f"{runtime}_{name}": value for runtime in ("APPTAINER", "SINGULARITY") for name, value in values.items()}
