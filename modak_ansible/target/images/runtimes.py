"""How each container runtime builds, pulls, starts and describes an image that is one file."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import Dict, List

from ..core.commands import TimedRun, find_program
from ..core.container import knows_zstd
from ..core.files import free_bytes, write_whole

# A framework's image and the folder that it is built in, together.
NEEDED_BYTES = 5 * 10**9
_INSPECT_SECONDS = 300.0
_LOAD_SECONDS = 1800.0
# A fifth of gzip's processor time for an image that is 2 % larger.
_COMPRESSION = "-comp zstd -Xcompression-level 3"
# How the line of a Containerfile begins that makes the file system which it adds.
_ROOTFS = "# mmdebstrap "


class Apptainer:
    """Apptainer or Singularity: an image is the file itself.

    Args:
        program: its path.

    Attributes:
        registry: how the address of a registry begins that has images of its kind.
    """

    registry = "oras://"

    def __init__(self, program: str) -> None:
        self._program = program

    def build(self, definition: str, image: Path, name: str, binds: List[str]) -> List[str]:  # noqa: ARG002
        """The command that builds an image without testing it, in a folder where the definition is written.

        Args:
            name: what is built, for a runtime that wants a name.
            binds: folders that the build sees, as ``OUTSIDE:INSIDE:ro``.
        """
        written = image.with_name("image.def")
        write_whole(written, definition)
        offered = TimedRun()([self._program, "build", "--help"]).out
        options = [part for bind in binds for part in ("--bind", bind)] if "--bind" in offered else []
        # a build that works and a probe that fails are told apart by probing afterwards
        options += ["--notest"] if "--notest" in offered else []
        if "--mksquashfs-args" in offered and knows_zstd():
            options += ["--mksquashfs-args", _COMPRESSION]
        # without --force the labels of the layer below would stay
        return [self._program, "build", "--force", "--fakeroot", *options, str(image), str(written)]

    def build_environment(self, scratch: Path) -> Dict[str, str]:
        """What a build is told besides; it works in the folder where front ends with a small /tmp have room."""
        environment = {"MODAK_SITE": str(scratch / "site")}
        if not os.environ.get("APPTAINER_TMPDIR") and not os.environ.get("SINGULARITY_TMPDIR"):
            temporary = Path(tempfile.gettempdir())
            roomy = temporary if free_bytes(temporary) >= NEEDED_BYTES else scratch
            environment["APPTAINER_TMPDIR"] = environment["SINGULARITY_TMPDIR"] = str(roomy)
        return environment

    def below(self, image: Path) -> str:
        """What a definition calls an image that it stands on."""
        return str(image)

    def pull(self, source: str, image: Path, name: str) -> List[str]:  # noqa: ARG002
        return [self._program, "pull", str(image), source]

    def fetch(self, address: str, image: Path, name: str) -> List[str]:  # noqa: ARG002
        """The command that has a file of an image that somebody pushed."""
        return [self._program, "pull", "--disable-cache", str(image), address]

    def push(self, image: Path, address: str) -> List[str]:
        return [self._program, "push", "--allow-unsigned", str(image), address]

    def start(self, image: Path, words: List[str], devices: List[str]) -> List[str]:
        """The command that runs a program in an image; without words it is the image's own test.

        Args:
            devices: the makers of accelerators that it sees.
        """
        flags = {"nvidia": "--nv", "amd": "--rocm"}
        action = "exec" if words else "test"
        return [self._program, action, *(flags[each] for each in devices), str(image), *words]

    def labels(self, image: Path) -> Dict[str, str]:
        """What an image says of itself; nothing where it cannot be read."""
        told = TimedRun(timeout=_INSPECT_SECONDS)([self._program, "inspect", "--json", "--labels", str(image)])
        try:
            return dict(json.loads(told.out)["data"]["attributes"]["labels"])
        except (ValueError, LookupError, TypeError):
            return {}


class Engine(Apptainer):
    """Podman, as a user of its own rights: it keeps images in a store of its own, and the file is an archive of one."""

    registry = "docker://"

    def build(self, definition: str, image: Path, name: str, binds: List[str]) -> List[str]:
        folder = image.parent
        write_whole(folder / "Containerfile", definition)
        made = [_alone(line[2:].split()) for line in definition.splitlines() if line.startswith(_ROOTFS)]
        build = [self._program, "build", "--isolation", "chroot", "--network", "host", "--format", "docker"]
        # one layer, of steps that nobody goes on from
        build += ["--layers=false", "--no-cache", "--force-rm"]
        for bind in [f"{folder / 'site'}:/.modak-site:ro", *binds]:
            build += ["--volume", bind]
        build += ["--tag", _tag(name), str(folder)]
        return _one_after_another(folder, *made, shlex.join(build), self._saved(image, name))

    def build_environment(self, scratch: Path) -> Dict[str, str]:  # noqa: ARG002
        return {}

    def below(self, image: Path) -> str:
        return f"docker-archive:{image}"

    def pull(self, source: str, image: Path, name: str) -> List[str]:
        pull = shlex.join([self._program, "pull", source])
        tag = shlex.join([self._program, "tag", source.partition("://")[2], _tag(name)])
        return _one_after_another(image.parent, pull, tag, self._saved(image, name))

    def fetch(self, address: str, image: Path, name: str) -> List[str]:
        return self.pull(address, image, name)

    def push(self, image: Path, address: str) -> List[str]:
        return [self._program, "push", "--quiet", f"docker-archive:{image}", address]

    def start(self, image: Path, words: List[str], devices: List[str]) -> List[str]:
        flags = {"nvidia": "--device=nvidia.com/gpu=all", "amd": "--device=amd.com/gpu=all"}
        run = [self._program, "run", "--rm", "--init", "--pull=never", "--network=host", "--entrypoint="]
        return [*run, *(flags[each] for each in devices), self._loaded(image), *words]

    def labels(self, image: Path) -> Dict[str, str]:
        asked = [self._program, "image", "inspect", "--format", "{{json .Labels}}", self._loaded(image)]
        try:
            return dict(json.loads(TimedRun(timeout=_INSPECT_SECONDS)(asked).out))
        except (ValueError, TypeError):
            return {}

    def _loaded(self, image: Path) -> str:
        """The name of an image in the engine's store, where it is put; of a broken one, one that there is not."""
        told = TimedRun(timeout=_LOAD_SECONDS, keep_locks=True)(
            [self._program, "load", "--quiet", "--input", str(image)]
        )
        return told.out.strip().rpartition(": ")[2] or "localhost/modak:none"

    def _saved(self, image: Path, name: str) -> str:
        return shlex.join([self._program, "save", "--quiet", "--output", str(image), _tag(name)])


def _tag(name: str) -> str:
    return f"localhost/modak:{name}"


def _one_after_another(folder: Path, *commands: str) -> List[str]:
    return ["bash", "-c", " && ".join([f"cd {shlex.quote(str(folder))}", *commands])]


def _alone(words: List[str]) -> str:
    """A command without the locks that are held here: mmdebstrap's shell knows no file of a number beyond 9."""
    close = 'for each in /proc/$BASHPID/fd/*; do [ "${each##*/}" -le 2 ] || eval "exec ${each##*/}>&-"; done'
    return f"( {close}; exec {shlex.join(words)} )"


def runtime_of(program: str) -> Apptainer:
    """The runtime whose program has this path."""
    return (Engine if Path(program).name == "podman" else Apptainer)(program)


def forget_stored(image: Path) -> None:
    """Removes what an engine keeps of an image whose archive is gone; one that runs there stays."""
    engine = find_program("podman") if image.suffix == ".tar" else None
    if engine:
        TimedRun(timeout=_INSPECT_SECONDS)([engine, "rmi", "--ignore", _tag(image.stem)])
