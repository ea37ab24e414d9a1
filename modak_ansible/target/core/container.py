"""The container runtime of a target: which one is there, whether it may build, and whose signature an image has."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...errors import ModakError
from ...schedulers.containers import CONTAINER_RUNTIMES
from .commands import TimedRun, find_program, user_name
from .files import read_text
from .workspace import resolved

# What a target may say of its container_runtime.
RUNTIMES = (*CONTAINER_RUNTIMES, "none")
# How the files of images end.
IMAGE_ENDINGS = tuple(sorted({runtime.ending for runtime in CONTAINER_RUNTIMES.values()}))
# Signing and verifying read a whole image.
_SIGNING_SECONDS = 900.0
# A smaller range is none to Apptainer and Singularity.
_LEAST_IDS = 65536


def find_runtime(preference: str) -> str:
    """The path of the container runtime.

    Raises:
        ModakError: it is not there.
    """
    names = CONTAINER_RUNTIMES[preference].programs
    program = find_program(*names)
    if program is None:
        raise ModakError(
            f"neither {' nor '.join(names)} is on the target" if len(names) > 1 else f"{names[0]} is not on the target",
            hint="module load it in a file that non-interactive shells there read, such as ~/.bashrc; "
            "or set container_runtime to none",
        )
    return program


def check_fakeroot() -> None:
    """
    Raises:
        ModakError: the user may not build with --fakeroot.
    """
    number, name = os.getuid(), user_name()
    if number == 0:
        return
    for path, options in (("/etc/subuid", []), ("/etc/subgid", ["-g"])):
        if _has_range(Path(path), name, number):
            continue
        if find_program("getsubids") and TimedRun()(["getsubids", *options, name]).code == 0:
            continue
        raise ModakError(
            f"{name} has no range in {path}, so images cannot be built with --fakeroot",
            hint=f"ask the administrator: usermod --add-sub{path[-3:]}s 100000-165535 {name}; or name a ready image",
        )


def _has_range(path: Path, name: str, number: int) -> bool:
    ranges = re.findall(r"(?m)^([^:\n]+):\d+:(\d+)\s*$", read_text(path))
    return any(owner in (name, str(number)) and int(count) >= _LEAST_IDS for owner, count in ranges)


def knows_zstd() -> bool:
    usage = TimedRun()(["mksquashfs", "-help-all"])
    return "zstd" in usage.out + usage.err


# --- signatures


def check_signing_key(runtime: str, key: str) -> None:
    """Tells before a build what would keep its image from being signed.

    Args:
        key: the path of a private key in PEM; its public half has the same path with ``.pub`` behind it.

    Raises:
        ModakError: a half of the key is not there, others may read the private one, or the runtime knows no such keys.
    """
    private = resolved(key)
    for path in (private, public_half(private)):
        if not path.is_file():
            hint = f"openssl genpkey -algorithm ed25519 -out {key}; openssl pkey -in {key} -pubout -out {key}.pub"
            raise ModakError(f"the key {path} is not on the target", hint=hint)
    if private.stat().st_mode & 0o077:
        raise ModakError(f"other users may read the key {private}", hint=f"chmod 600 {private}")
    if "--key " not in TimedRun()([runtime, "sign", "--help"]).out:
        raise ModakError(
            f"{runtime} cannot sign with a key from a file",
            hint="use Apptainer 1.2 or later, or leave signing_key out",
        )


def public_half(private: Path) -> Path:
    return private.with_name(f"{private.name}.pub")


def sign_image(runtime: str, image: Path, key: str) -> None:
    """Signs an image.

    Raises:
        ModakError: it could not be signed, as with a key that wants a passphrase.
    """
    path = str(resolved(key))
    result = TimedRun(timeout=_SIGNING_SECONDS, keep_locks=True)([runtime, "sign", "--key", path, str(image)])
    if result.code != 0:
        raise ModakError(
            f"the image could not be signed: {result.message}", hint=f"is {path} a key without passphrase?"
        )


def verify_image(runtime: str, image: Path, public: Path) -> None:
    """Checks that an image has a key's signature.

    Raises:
        ModakError: it has not.
    """
    if not public.is_file():
        raise ModakError(f"the key {public} is not on the target", hint="ask whoever signs images for it")
    path = str(public)
    result = TimedRun(timeout=_SIGNING_SECONDS, keep_locks=True)([runtime, "verify", "--key", path, str(image)])
    if result.code != 0:
        raise ModakError(
            f"the image {image} is not signed with {path}: {result.message}", hint="sign it, or give another image"
        )
