"""How each container runtime builds, pulls, starts and describes an image that is one file."""

from __future__ import annotations

import json
import os
import re
import shlex
import tarfile
import tempfile
from pathlib import Path
from typing import Dict, Iterable, List, Optional

from ...schedulers.containers import CONTAINER_RUNTIMES, runtime_with
from ..core.commands import TimedRun, find_program
from ..core.container import knows_zstd
from ..core.files import free_bytes, write_whole
from ..core.plan import Layer

# A framework's image and the folder that it is built in, together; and one with the libraries of an accelerator.
NEEDED_BYTES = 5 * 10**9
ACCELERATED_BYTES = 20 * 10**9
# Packages of a definition or its lock, and names of images in a hub.
_ACCELERATED = re.compile(r"nvidia-|rocm|^docker://.*(?:nvidia|cuda|gpu)", re.MULTILINE)
_INSPECT_SECONDS = 300.0
_LOAD_SECONDS = 1800.0
# A fifth of gzip's processor time for an image that is 2 % larger.
_COMPRESSION = "-comp zstd -Xcompression-level 3"
# How the line of a Containerfile begins that makes the file system which it adds, and how it is added.
_ROOTFS = "# mmdebstrap "
_ADDED = "FROM scratch\nADD rootfs.tar /\n"
_HEX = re.compile("[0-9a-f]{64}")


def room_needed(layers: Iterable[Layer]) -> int:
    """Bytes that the layers of an image unpack to while it is made; the upper ones unpack the lower ones, too."""
    texts = [text for layer in layers for text in (layer["definition"], layer["source"])]
    return ACCELERATED_BYTES if any(map(_ACCELERATED.search, texts)) else NEEDED_BYTES


def build_folder(other: Path, needed: int = NEEDED_BYTES) -> Path:
    """Where Apptainer unpacks what it builds or pulls, unless the user's environment names a folder.

    Args:
        other: a folder in the workspace, for front ends whose /tmp is small or runs no programs.
        needed: bytes that it must have room for.
    """
    for name in ("APPTAINER_TMPDIR", "SINGULARITY_TMPDIR"):
        if os.environ.get(name):
            return Path(os.environ[name])
    temporary = Path(tempfile.gettempdir())
    runs = not os.statvfs(temporary).f_flag & os.ST_NOEXEC
    return temporary if runs and free_bytes(temporary) >= needed else other


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
        # an image of a registry is had once, and its copy in a small home folder would be for nobody
        options += ["--disable-cache"] if "--disable-cache" in offered else []
        if "--mksquashfs-args" in offered and knows_zstd():
            options += ["--mksquashfs-args", _COMPRESSION]
        # without --force the labels of the layer below would stay
        return [self._program, "build", "--force", "--fakeroot", *options, str(image), str(written)]

    def build_environment(self, scratch: Path, needed: int) -> Dict[str, str]:
        """What a build or a pull is told besides.

        Args:
            scratch: a folder for it, where front ends with a small /tmp have room.
            needed: bytes that it unpacks to.
        """
        roomy = str(build_folder(scratch, needed))
        return {"MODAK_SITE": str(scratch / "site"), "APPTAINER_TMPDIR": roomy, "SINGULARITY_TMPDIR": roomy}

    def below(self, image: Path) -> str:
        """What a definition calls an image that it stands on."""
        return str(image)

    def pull(self, source: str, image: Path, name: str) -> List[str]:  # noqa: ARG002
        """The command that has an image of a registry in a file.

        One of a registry of containers is made of its layers, each time another file: the cache keeps that one.
        """
        options = [] if source.startswith("docker://") else ["--disable-cache"]
        return [self._program, "pull", *options, str(image), source]

    def push(self, image: Path, address: str) -> List[str]:
        return [self._program, "push", "--allow-unsigned", str(image), address]

    def start(self, image: Path, words: List[str], devices: List[str]) -> List[str]:
        """The command that runs a program in an image; without words it is the image's own test.

        Args:
            devices: the makers of accelerators that it sees.
        """
        action = "exec" if words else "test"
        return [self._program, action, *self._flags(devices), str(image), *words]

    def _flags(self, devices: List[str]) -> List[str]:
        known = dict(runtime_with(Path(self._program).name).accelerators)
        return [known[device] for device in devices if device in known]

    def labels(self, image: Path) -> Dict[str, str]:
        """What an image says of itself; nothing where it cannot be read."""
        told = TimedRun(timeout=_INSPECT_SECONDS)([self._program, "inspect", "--json", "--labels", str(image)])
        try:
            return dict(json.loads(told.out)["data"]["attributes"]["labels"])
        except (ValueError, LookupError, TypeError):
            return {}


class Engine(Apptainer):
    """Podman, as a user of its own rights: it keeps images in a store of its own, and the file is an archive of one.

    NERSC's podman-hpc is Podman with options of its own.
    """

    registry = "docker://"
    exists = "exists"  # the word of image by which it is asked for one
    labelled = ".Labels"  # where an image's description has its labels

    def build(self, definition: str, image: Path, name: str, binds: List[str]) -> List[str]:
        folder = image.parent
        write_whole(folder / "Containerfile", definition)
        build = [self._program, "build", "--isolation", "chroot", "--network", "host", "--format", "docker"]
        # one layer, of steps that nobody goes on from
        build += ["--layers=false", "--no-cache", "--force-rm"]
        for bind in [f"{folder / 'site'}:/.modak-site:ro", *binds]:
            build += ["--volume", bind]
        build += ["--tag", _tag(name), str(folder)]
        return _one_after_another(folder, *_rootfs(definition), shlex.join(build), self._saved(image, name))

    def build_environment(self, scratch: Path, needed: int) -> Dict[str, str]:  # noqa: ARG002
        return {}

    def below(self, image: Path) -> str:
        return f"docker-archive:{image}"

    def pull(self, source: str, image: Path, name: str) -> List[str]:
        pull = shlex.join([self._program, "pull", source])
        tag = shlex.join([self._program, "tag", source.rpartition("://")[2], _tag(name)])
        return _one_after_another(image.parent, pull, tag, self._saved(image, name))

    def push(self, image: Path, address: str) -> List[str]:
        # no engine pushes out of an archive
        return [self._program, "push", "--quiet", self._stored(image), address]

    def start(self, image: Path, words: List[str], devices: List[str]) -> List[str]:
        run = [self._program, "run", "--rm", "--init", "--pull=never", "--network=host", "--entrypoint="]
        # podman-hpc takes words of the program for its own that stand before this, or without it
        return [*run, *self._flags(devices), "--", self._stored(image), *words]

    def labels(self, image: Path) -> Dict[str, str]:
        form = f"{{{{json {self.labelled}}}}}"
        asked = [self._program, "image", "inspect", "--format", form, self._stored(image)]
        try:
            return dict(json.loads(TimedRun(timeout=_INSPECT_SECONDS)(asked).out))
        except (ValueError, TypeError):
            return {}

    def _stored(self, image: Path) -> str:
        """What an image is called in the engine's store, where it is put; of a broken one, one that there is not."""
        known = _configuration_of(image)
        asked = [self._program, "image", self.exists, known or ""]
        if known and TimedRun(timeout=_INSPECT_SECONDS)(asked).code == 0:
            return known
        told = TimedRun(timeout=_LOAD_SECONDS, keep_locks=True)(self._load(image))
        return told.out.strip().rpartition(": ")[2] or "localhost/modak:none"

    def _load(self, image: Path) -> List[str]:
        return [self._program, "load", "--quiet", "--input", str(image)]

    def _saved(self, image: Path, name: str) -> str:
        return shlex.join([self._program, "save", "--quiet", "--output", str(image), _tag(name)])


class Docker(Engine):
    """Docker, whose daemon builds by BuildKit: what a build sees besides is mounted in each of its steps."""

    exists = "inspect"
    labelled = ".Config.Labels"

    def build(self, definition: str, image: Path, name: str, binds: List[str]) -> List[str]:
        folder = image.parent
        first = _rootfs(definition)
        if below := _BELOW_LINE.search(definition):
            first.append(shlex.join(self._load(Path(below.group(1)))))
            definition = _BELOW_LINE.sub(f"FROM {_tag(Path(below.group(1)).stem)}", definition)
        build = ["env", "DOCKER_BUILDKIT=1", self._program, "build", "--network", "host", "--no-cache"]
        mounts = ["--mount=type=bind,source=site,target=/.modak-site"]
        for number, bind in enumerate(binds):
            outside, inside = (Path(part) for part in re.sub(":ro$", "", bind).split(":"))
            place, source = (outside, "") if outside.is_dir() else (outside.parent, f",source={outside.name}")
            build += ["--build-context", f"bound{number}={place}"]
            mounts.append(f"--mount=type=bind,from=bound{number}{source},target={inside}")
        write_whole(folder / "Containerfile", re.sub("(?m)^RUN ", f"RUN {' '.join(mounts)} ", definition))
        build += ["--file", str(folder / "Containerfile"), "--tag", _tag(name), str(folder)]
        return _one_after_another(folder, *first, shlex.join(build), self._saved(image, name))

    def below(self, image: Path) -> str:
        return str(image)

    def pull(self, source: str, image: Path, name: str) -> List[str]:
        return super().pull(source.partition("://")[2], image, name)

    def push(self, image: Path, address: str) -> List[str]:
        place = address.partition("://")[2]
        tag = shlex.join([self._program, "tag", _tag(image.stem), place])
        push = shlex.join([self._program, "push", "--quiet", place])
        return _one_after_another(image.parent, shlex.join(self._load(image)), tag, push)

    def _saved(self, image: Path, name: str) -> str:
        return shlex.join([self._program, "save", "--output", str(image), _tag(name)])


class Charliecloud(Apptainer):
    """Charliecloud, as a user without any rights: each build has a storage, and the file is a squashfs image."""

    def build(self, definition: str, image: Path, name: str, binds: List[str]) -> List[str]:
        folder = image.parent
        first = _rootfs(definition)
        if first:
            first.append(self._in_storage(folder, "ch-image", "import", "rootfs.tar", _BELOW))
        elif below := _BELOW_LINE.search(definition):
            first = [self._in_storage(folder, "ch-convert", "-i", "squash", "-o", "ch-image", below.group(1), _BELOW)]
        definition = _BELOW_LINE.sub(f"FROM {_BELOW}", definition.replace(_ADDED, f"FROM {_BELOW}\n"))
        write_whole(folder / "Containerfile", definition)
        build = ["ch-image", "build", "--no-cache", "--force=seccomp", "--file", "Containerfile", "--tag", _tag(name)]
        for bind in [f"{folder / 'site'}:/.modak-site", *binds]:
            build += ["--bind", re.sub(":ro$", "", bind)]
        return _one_after_another(folder, *first, self._in_storage(folder, *build, "."), self._packed(image, name))

    def build_environment(self, scratch: Path, needed: int) -> Dict[str, str]:  # noqa: ARG002
        return {}

    def pull(self, source: str, image: Path, name: str) -> List[str]:
        pull = self._in_storage(image.parent, "ch-image", "pull", source.partition("://")[2], _tag(name))
        return _one_after_another(image.parent, pull, self._packed(image, name))

    def start(self, image: Path, words: List[str], devices: List[str]) -> List[str]:  # noqa: ARG002 - it sees them all
        return [self._program, "--write-fake", "--set-env", str(image), "--", *words]

    def labels(self, image: Path) -> Dict[str, str]:
        asked = [self._program, str(image), "--", "cat", "/ch/metadata.json"]
        try:
            return dict(json.loads(TimedRun(timeout=_INSPECT_SECONDS)(asked).out)["labels"])
        except (ValueError, LookupError, TypeError):
            return {}

    def _in_storage(self, folder: Path, program: str, *words: str) -> str:
        """A command of a builder that lies beside the runtime; its storage goes with the build's folder."""
        # ch-convert does not tell ch-image of the storage that it is told of itself
        storage = f"CH_IMAGE_STORAGE={folder / 'storage'}"
        more = ["--tmp", str(folder)] if program == "ch-convert" else []
        return shlex.join(["env", storage, str(Path(self._program).with_name(program)), *more, *words])

    def _packed(self, image: Path, name: str) -> str:
        return self._in_storage(image.parent, "ch-convert", "-i", "ch-image", "-o", "squash", _tag(name), str(image))


class Enroot(Apptainer):
    """Enroot, which makes squashfs images of those of registries, and builds none."""

    registry = "docker://"

    def build_environment(self, scratch: Path, needed: int) -> Dict[str, str]:  # noqa: ARG002
        return {"ENROOT_TEMP_PATH": str(scratch)}

    def pull(self, source: str, image: Path, name: str) -> List[str]:  # noqa: ARG002
        # it wants # behind a registry's name, and takes all of an address without one for a path of Docker Hub's
        place, slash, path = source.partition("://")[2].partition("/")
        is_host = slash and (place == "localhost" or "." in place or ":" in place)
        address = f"{place}#{path}" if is_host else f"{place}{slash}{path}"
        return [self._program, "import", "--output", str(image), f"docker://{address}"]

    def start(self, image: Path, words: List[str], devices: List[str]) -> List[str]:
        return [self._program, "start", *self._flags(devices), "--", str(image), *words]

    def labels(self, image: Path) -> Dict[str, str]:  # noqa: ARG002 - it leaves them out
        return {}


# What Charliecloud's builds call the image that they stand on, and the line of a definition that names its file.
_BELOW = "modak-below"
_BELOW_LINE = re.compile(r"^FROM (/.+)$", re.MULTILINE)


def _rootfs(definition: str) -> List[str]:
    """The command that makes the file system which a definition adds, in a list; an empty one where it adds none."""
    return [_alone(line[2:].split()) for line in definition.splitlines() if line.startswith(_ROOTFS)]


def _configuration_of(image: Path) -> Optional[str]:
    """The digest of an archive's configuration, which is the image's own in every store; None where none is told."""
    try:
        with tarfile.open(image, "r:") as archive:
            told = archive.extractfile("manifest.json")
            found = _HEX.search(json.loads(told.read())[0]["Config"]) if told else None
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError):
        return None
    return found.group() if found else None


def _tag(name: str) -> str:
    return f"localhost/modak:{name}"


def _one_after_another(folder: Path, *commands: str) -> List[str]:
    return ["bash", "-c", " && ".join([f"cd {shlex.quote(str(folder))}", *commands])]


def _alone(words: List[str]) -> str:
    """A command without the locks that are held here: mmdebstrap's shell knows no file of a number beyond 9."""
    close = 'for each in /proc/$BASHPID/fd/*; do [ "${each##*/}" -le 2 ] || eval "exec ${each##*/}>&-"; done'
    return f"( {close}; exec {shlex.join(words)} )"


_KINDS = {"": Apptainer, "podman": Engine, "docker": Docker, "charliecloud": Charliecloud, "enroot": Enroot}


def runtime_of(program: str) -> Apptainer:
    """The runtime whose program has this path."""
    return _KINDS[runtime_with(Path(program).name).entry](program)


def forget_stored(image: Path) -> None:
    """Removes what engines keep of an image whose archive is gone; one that runs there stays."""
    for runtime in CONTAINER_RUNTIMES.values():
        is_engine = runtime.entry in ("podman", "docker") and image.suffix == runtime.ending
        if is_engine and (engine := find_program(*runtime.programs)):
            ignore = ["--ignore"] if runtime.entry == "podman" else []
            TimedRun(timeout=_INSPECT_SECONDS)([engine, "rmi", *ignore, _tag(image.stem)])
