"""What a machine's own configuration says about certificates, proxies, Python packages and Debian packages."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, TypedDict
from urllib.parse import SplitResult, unquote, urlsplit

from ...errors import ModakError
from .files import expanded, read_text
from .workspace import resolved

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# What says where packages come from and how they are reached; the rest of pip's settings is the machine's own matter.
_PIP_SETTING = re.compile(
    "(extra-)?index-url|no-index|find-links|trusted-host|cert|proxy|(default-)?timeout|retries"
    "|prefer-binary|only-binary|no-binary|pre|disable-pip-version-check"
)
_PIP_SOURCES = ("index-url", "extra-index-url", "find-links")
_APT_OPTION = re.compile(
    r'^Acquire::(?:Check-Valid-Until|Check-Date|Retries|ForceIPv[46]|https?(?:::[^ ]+)?) "(?P<value>.+)";$'
)
_APT_OF_THIS_MACHINE = re.compile(r"::(?:Proxy-Auto-Detect|ProxyAutoDetect|SslCert|SslKey)$", re.IGNORECASE)
# Folders that are never taken over whole.
_OWN_FOLDER = re.compile("/(dev|etc|home|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)?")


@dataclass
class Site:
    """What a build, or a root file system, needs to know of the machine it is made on."""

    # files with certificates, each content once; the first one serves alone
    bundles: list[str] = field(default_factory=list)
    # pip's settings by name, such as ``find-links``; several values in one text
    pip: dict[str, str] = field(default_factory=dict)
    proxies: dict[str, str] = field(default_factory=dict)  # environment variables
    mirror: str | None = None  # of Debian, as the blueprint has it
    other_mirror: str | None = None  # what serves where apt names none

    @cached_property
    def apt_mirror(self) -> str | None:
        """The address of a Debian mirror; None when there is none. Asking apt takes half a second."""
        return self.mirror or debian_mirror() or self.other_mirror or None

    @property
    def bundle(self) -> str | None:
        """The file with the certificates that downloads are checked against; None for the system's own.

        Raises:
            ModakError: it is not there.
        """
        path = self.bundles[0] if self.bundles else None
        if path and not Path(path).is_file():
            hint = "certificate_bundle of the target's site names a file there"
            raise ModakError(f"the certificates {path} are not on the target", hint=hint)
        return path


def read_site(settings: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Site:
    """The settings of this machine; what a blueprint gives for the site goes before what the machine says.

    Args:
        settings: the site settings of a plan; ``otherwise`` holds what serves where the machine says nothing.
    """
    otherwise = settings.get("otherwise") or {}
    pip = pip_settings(environment)
    if not any(name in pip for name in _PIP_SOURCES):
        pip.update(otherwise.get("pip") or {})
    if settings.get("pip_index_url"):
        pip["index-url"] = settings["pip_index_url"]
    for name, key in (("extra-index-url", "pip_extra_index_urls"), ("find-links", "pip_find_links")):
        if settings.get(key):
            pip[name] = " ".join([*settings[key], *pip.get(name, "").split()])
    own = settings.get("certificate_bundle")
    bundles = [str(resolved(own))] if own else certificate_bundles(environment, pip)
    return Site(bundles, pip, proxies(environment), settings.get("apt_mirror"), otherwise.get("apt_mirror"))


class PackageSources(TypedDict):
    """Where a machine gets packages from; ``pip`` has its settings by their names."""

    apt_mirror: Optional[str]
    pip: Dict[str, str]


def package_sources(environment: Mapping[str, str] = os.environ, *, apt: bool = True) -> PackageSources:
    """Where this machine gets packages from, as far as that means the same on another: what ``otherwise`` may hold."""
    pip = pip_settings(environment)
    addresses = {name: " ".join(filter(_is_public, pip.get(name, "").split())) for name in _PIP_SOURCES}
    return {
        "apt_mirror": debian_mirror() if apt else "",
        "pip": {name: value for name, value in addresses.items() if value},
    }


def _parts(location: str) -> SplitResult:
    """Of an address; of what is none, such as one with half a pair of brackets, all are empty."""
    try:
        return urlsplit(location)
    except ValueError:
        return urlsplit("")


def _is_public(location: str) -> bool:
    """Whether a location is an address of the network: no file, no loopback, no user's password."""
    parts = _parts(location)
    host = parts.hostname or ""
    return (
        parts.scheme in ("http", "https") and "@" not in parts.netloc and not re.match(r"localhost$|127\.|::1$", host)
    )


def pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """pip's settings in its own order: files, then [install] over [global], then the environment."""
    parser = configparser.RawConfigParser()
    for path in _pip_files(environment):
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip itself stops at such a file; nothing else needs to
    settings: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            settings.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    for variable, value in environment.items():
        if variable.startswith("PIP_") and value:
            settings[variable[len("PIP_") :].lower().replace("_", "-")] = value
    return {key: " ".join(value.split()) for key, value in sorted(settings.items()) if _PIP_SETTING.fullmatch(key)}


def _pip_files(environment: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, weakest first, as ``pip config debug`` lists them."""
    home = Path(environment.get("HOME") or "/root")
    user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    everywhere = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    files = [Path(folder) / "pip/pip.conf" for folder in everywhere] + [Path("/etc/pip.conf")]
    files += [home / ".pip/pip.conf", user / "pip/pip.conf", Path(sys.prefix) / "pip.conf"]
    chosen = environment.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    return [path for path in [*files, *([Path(chosen)] if chosen else [])] if os.access(path, os.R_OK)]


def local_path(entry: str) -> Path | None:
    """The folder or file of this machine that a location of pip's names; None for an address."""
    parts = _parts(entry)
    path = unquote(parts.path) if parts.scheme == "file" else str(expanded(entry))
    return Path(os.path.normpath(path)) if path.startswith("/") else None


def index_folder(index: Path) -> Path:
    """What must be there for a local index to work: its pages link to ../../files, beside it."""
    return index if _OWN_FOLDER.fullmatch(str(index.parent)) else index.parent


def pip_folders(settings: Mapping[str, str]) -> list[str]:
    """Folders of this machine that find-links and file:// indexes live in."""
    folders = [local_path(entry) for entry in settings.get("find-links", "").split()]
    for entry in (settings.get("index-url", "") + " " + settings.get("extra-index-url", "")).split():
        index = local_path(entry)
        folders.append(index_folder(index) if index else None)
    paths = {str(path if path.is_dir() else path.parent) for path in folders if path and path.exists()}
    return sorted(folder for folder in paths if not _OWN_FOLDER.fullmatch(folder))


def certificate_bundles(environment: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Certificate bundles in use, each content once, those that somebody chose first."""
    contents: dict[bytes, str] = {}
    for path in [*(environment.get(name) for name in CERTIFICATE_VARIABLES), settings.get("cert"), *_BUNDLES]:
        if path and Path(path).is_file():
            contents.setdefault(Path(path).read_bytes(), path)
    return list(contents.values())


def proxies(environment: Mapping[str, str]) -> dict[str, str]:
    names = [*PROXY_VARIABLES, *(name.upper() for name in PROXY_VARIABLES)]
    return {name: environment[name] for name in names if environment.get(name)}


def apt_options(bundle: str) -> tuple[list[str], list[str]]:
    """apt's Acquire options, for this machine and for a root file system where its paths mean nothing.

    Args:
        bundle: where the certificates are there.
    """
    host_options, root_options = [], []
    for line in _output("apt-config", "dump").splitlines():
        option = _APT_OPTION.match(line)
        if not option:
            continue
        host_options.append(line)
        name = line.split(" ", 1)[0]
        if not _APT_OF_THIS_MACHINE.search(name):
            root_options.append(f'{name} "{bundle}";' if option["value"].startswith("/") else line)
    return host_options, root_options


def debian_mirror() -> str:
    """The mirror that apt takes Debian itself from, whichever way its sources are written; empty without one."""
    # A default release that apt has no list of, as on a machine that fetched none yet, would stop it.
    apt = ("apt-get", "-o", "APT::Default-Release=")
    fields = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"
    mirrors = []
    for line in _output(*apt, "indextargets", "--format", fields, "Created-By: Packages").splitlines():
        *origin, url = line.split("|")
        if origin == ["Debian", "Debian", "main"]:
            mirrors.append(url)
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', read_text(Path("/etc/os-release")), re.MULTILINE))
    if not mirrors and release.get("ID") == "debian":
        # No list was fetched: then the addresses that an update would ask are all that apt knows.
        index = f"/dists/{re.escape(release.get('VERSION_CODENAME', ''))}/main/binary-[^/]+/Packages"
        mirrors = re.findall(f"^'(.+){index}", _output(*apt, "--print-uris", "update"), re.MULTILINE)
    return next(filter(None, map(_plain_address, mirrors)), "")


def _plain_address(url: str) -> str:
    if url.startswith("mirror+file:"):
        lines = read_text(Path("/" + url.split(":", 1)[1].strip("/"))).splitlines()
        url = next((line.split()[0] for line in lines if line.strip() and not line.startswith("#")), "")
    return url.rstrip("/") if url.startswith(("http:", "https:")) else ""


def _output(*command: str) -> str:
    """What a command prints; nothing where it is not there."""
    environment = dict(os.environ, LC_ALL="C")
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment).stdout
    except OSError:
        return ""
