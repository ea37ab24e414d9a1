"""Asks a Debian mirror for a release before a build spends minutes on finding out."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, build_opener

from ...errors import ModakError
from ..core.site import Site

_SECONDS = 20
# debootstrap takes either
_FILES = ("InRelease", "Release")
_NOT_THERE = (404, 410)
# where debootstrap looks for them
_KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")


def require_release(definition: str, base: str, site: Site) -> None:
    """Tells whether the mirror of a definition that begins with debootstrap has its release.

    A mirror that cannot be asked is left to the build.

    Args:
        definition: of the base image, with the mirror filled in.

    Raises:
        ModakError: the mirror says that it has not got the release.
    """
    mirror = re.search(r"^MirrorURL: (https?://\S+)$", definition, re.MULTILINE)
    suite = re.search(r"^OSVersion: (\S+)$", definition, re.MULTILINE)
    if not mirror or not suite:
        return
    folder = f"{mirror.group(1).rstrip('/')}/dists/{suite.group(1)}"
    if all(_is_missing(f"{folder}/{name}", site.bundle) for name in _FILES):
        raise ModakError(
            f"the target's Debian mirror has no {suite.group(1)}, which the base {base} is made of",
            hint="a release that left the mirrors is in an archive of Debian: name one as the site's apt_mirror",
        )


def _is_missing(url: str, bundle: str | None) -> bool:
    """Whether a server says that a file is not there; no answer, or another one, is no such word."""
    try:
        # proxies are those of the environment, as debootstrap's own downloads have them
        opener = build_opener(HTTPSHandler(context=ssl.create_default_context(cafile=bundle)))
        with opener.open(url, timeout=_SECONDS):
            return False
    except HTTPError as error:
        return error.code in _NOT_THERE
    except (OSError, ValueError):
        return False


def require_keyring(mirror: str) -> None:
    """Tells whether debootstrap can check what it fetches: without Debian's keys it only warns, and goes on.

    Args:
        mirror: its address; one with https is known at least to be the host that it says.

    Raises:
        ModakError: there are no keys, and anybody on the way could have written the packages.
    """
    if mirror.startswith("https:") or any(Path(keyring).is_file() for keyring in _KEYRINGS):
        return
    raise ModakError(
        f"the target cannot check the signatures of Debian's packages: {_KEYRINGS[0]} is not there",
        hint="install debian-archive-keyring there, or name a mirror with https as the site's apt_mirror",
    )
