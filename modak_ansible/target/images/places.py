"""Images that are made already: found, by the digest of what they are made from, in a registry or in a folder."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Callable, Dict, List, Mapping

from ...errors import ModakError
from ..core.files import read_json, sha256_of, write_json
from ..core.plan import Layer
from ..core.workspace import resolved
from .logins import NoImage, Secrets, login_of
from .runtimes import Apptainer, runtime_of

_REGISTRIES = ("oras://", "docker://")
_LABEL = "modak.definition-digest"
# Runs a command about an address with more in its environment, its output in a log; an error says what that means.
Act = Callable[[List[str], Dict[str, str], str], None]


class Place:
    """Where images are for others: a registry, a folder, or the folder of another workspace.

    A registry is ``oras://HOST/REPOSITORY`` for files of Apptainer's, and ``docker://HOST/REPOSITORY`` for Podman's.

    In a registry an image has its digest as its tag, and in a folder its digest is its name, as in a workspace.

    Args:
        runtime: the container runtime's path.
        text: the place.
        bundle: the certificates that a registry is checked against; None for the machine's own.
        act: runs the runtime.
    """

    def __init__(self, runtime: str, text: str, secrets: Secrets, bundle: str | None, act: Act) -> None:
        self._runtime = runtime
        self.text = text.rstrip("/")
        certificates = {"SSL_CERT_FILE": bundle} if bundle else {}
        self._environment = {**certificates, **login_of(text, secrets)}
        self._act = act

    @property
    def _is_registry(self) -> bool:
        return self.text.startswith(_REGISTRIES)

    def _made_by(self) -> Apptainer:
        """The runtime.

        Raises:
            ModakError: the registry's images are of another kind than its own.
        """
        made = runtime_of(self._runtime)
        if not self.text.startswith(made.registry):
            hint = f"use the same registry as {made.registry}{self.text.partition('://')[2]}"
            raise ModakError(f"{Path(self._runtime).name} cannot make or run images of {self.text}", hint=hint)
        return made

    def fetch(self, layer: Layer, fresh: Path) -> None:
        """Has a layer's image in a file, and is sure that it was made from what the layer is made from.

        Raises:
            NoImage: it is not there.
            ModakError: it cannot be had, or it is another one.
        """
        if self._is_registry:
            address = f"{self.text}:{layer['digest']}"
            self._act(self._made_by().pull(address, fresh, layer["digest"]), self._environment, address)
        else:
            self._copy(layer, fresh)
        check_made_from(self._runtime, fresh, layer)

    def _copy(self, layer: Layer, fresh: Path) -> None:
        name = Path(layer["path"]).name
        folder = resolved(self.text)
        found = next((each for each in (folder / name, folder / "images" / name) if each.is_file()), None)
        if found is None:
            if not folder.is_dir():
                raise ModakError(f"{self.text} is not a folder on the target", hint="check its name")
            raise NoImage(f"{self.text} has no image {name}", hint="modak catalogue push puts it there")
        known = (read_json(found.with_suffix(".json")) or {}).get("sha256")
        try:
            shutil.copyfile(found, fresh)
        except OSError as error:
            raise ModakError(f"{found} cannot be read: {error.strerror}", hint="check who may read it") from error
        if known and sha256_of(fresh) != known:
            raise ModakError(f"{found} has the SHA-256 {sha256_of(fresh)}, not {known}", hint="push it again")

    def push(self, image: Path, layer: Layer, known: Mapping[str, object], tags: List[str]) -> List[str]:
        """Puts a layer's image there; gives the names that it has there.

        Args:
            known: what is kept beside it.
            tags: names for people; a folder has none.

        Raises:
            ModakError: it cannot be.
        """
        if self._is_registry:
            addresses = [f"{self.text}:{tag}" for tag in (layer["digest"], *tags)]
            made = self._made_by()
            for address in addresses:
                self._act(made.push(image, address), self._environment, address)
            return addresses
        folder = resolved(self.text)
        part, there = folder / f".{image.name}.part", folder / image.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, part)
            part.chmod(0o755)  # it is for others
            write_json(there.with_suffix(".json"), known)
            there.with_suffix(".json").chmod(0o644)
            part.replace(there)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            hint = "check who may write there, and the free space"
            raise ModakError(f"{there} cannot be written: {error.strerror}", hint=hint) from error
        return [str(there)]


def check_made_from(runtime: str, image: Path, layer: Layer) -> None:
    """Tells whether an image says that it was made from what a layer is made from.

    Raises:
        ModakError: it does not, or says nothing.
    """
    digest = runtime_of(runtime).labels(image).get(_LABEL, "")
    if digest != layer["digest"]:
        made = f"was made from {digest[:12]}" if digest else "does not say what it was made from"
        text = f"the image of {layer['name']} {made}, where {layer['digest'][:12]} is wanted"
        raise ModakError(text, hint="whoever put it there has to push the right one")
