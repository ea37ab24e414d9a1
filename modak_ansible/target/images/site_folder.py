"""The folder through which a definition learns the site's settings: see modak_ansible/recipes/site.py."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..core.files import write_whole
from ..core.site import CERTIFICATE_VARIABLES, Site, apt_options, index_folder, local_path

INSIDE = "/.modak-site"
_MOUNTS = "/mnt"


def write_site_folder(site: Site, folder: Path) -> list[str]:
    """Writes the folder that definitions read through MODAK_SITE, and gives the binds that the build needs.

    Folders of this machine that pip is told to look into are bound below /mnt, which every distribution has.
    """
    folder.mkdir(mode=0o700, parents=True)
    mounts = _Mounts()
    lines = []
    for name, value in site.pip.items():
        if name != "cert":
            variable = "PIP_" + name.upper().replace("-", "_")
            lines.append(_export(variable, " ".join(mounts.inside(word, name) for word in value.split())))
    lines += [_export(name, value) for name, value in site.proxies.items()]
    lines.append("export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore")
    if site.bundle:
        write_whole(folder / "certificates.crt", b"\n".join(Path(path).read_bytes() for path in site.bundles))
        lines += [_export(name, f"{INSIDE}/certificates.crt") for name in (*CERTIFICATE_VARIABLES, "PIP_CERT")]
    options = apt_options(f"{INSIDE}/certificates.crt")[1]
    if options:
        write_whole(folder / "apt.conf", "".join(f"{line}\n" for line in options))
        lines.append(_export("APT_CONFIG", f"{INSIDE}/apt.conf"))
    write_whole(folder / "environment", "".join(f"{line}\n" for line in lines))
    write_whole(folder / "mount-points", "".join(f"{inside}\n" for inside in mounts.folders.values()))
    return [f"{outside}:{inside}:ro" for outside, inside in mounts.folders.items()]


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


class _Mounts:
    """Folders of this machine and where a build finds them."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}

    def inside(self, location: str, setting: str) -> str:
        """A location of pip's as the build sees it; addresses stay as they are."""
        path = local_path(location)
        if path is None or not path.exists():
            return location
        if not setting.endswith("index-url"):
            return self._mount(path)
        top = index_folder(path)
        return f"file://{self._mount(top)}/{path.relative_to(top)}" if top != path else f"file://{self._mount(path)}"

    def _mount(self, folder: Path) -> str:
        return self.folders.setdefault(str(folder), f"{_MOUNTS}/{len(self.folders)}")
