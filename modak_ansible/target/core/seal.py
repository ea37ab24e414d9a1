"""The seal of an image: what tells that it is still the one that was made, or the one that was looked at.

A seal is one line beside the image: its SHA-256, and a stamp of size, inode, and the moments of its last changes of
content and of anything. Whoever writes into a file, or puts another in its place, changes the stamp, and only the
system's own clock sets the last part of it. So a run compares stamps, which costs nothing, and reads the whole image
only where they differ, as after a copy.
"""

from __future__ import annotations

from pathlib import Path

from .files import read_text, sha256_of, write_whole

ENDING = ".seal"


def seal_path(images: Path, digest: str) -> Path:
    return images / f"{digest}{ENDING}"


def stamp_of(file: Path) -> str:
    """What ``stat -L -c '%s %i %.9Y %.9Z'`` prints of a file, of an image or a dataset.

    Raises:
        OSError: it is not there.
    """
    stat_result = file.stat()
    moments = (
        f"{moment // 10**9}.{moment % 10**9:09}" for moment in (stat_result.st_mtime_ns, stat_result.st_ctime_ns)
    )
    return f"{stat_result.st_size} {stat_result.st_ino} {' '.join(moments)}"


def write_seal(seal: Path, image: Path, sha256: str) -> None:
    """Seals an image whose content is known; the stamp is taken first, so that a later change is seen."""
    write_whole(seal, f"{sha256} {stamp_of(image)}\n")


def sealed_digest(seal: Path) -> str:
    """The SHA-256 that an image was sealed with; empty where it was not."""
    return read_text(seal).partition(" ")[0]


def is_intact(image: Path, seal: Path, sha256: str = "") -> bool:
    """Whether an image is the one that was sealed; the seal of one that was only touched or copied is renewed.

    Args:
        sha256: serves where there is no seal yet.
    """
    digest, _, stamp = read_text(seal).partition(" ")
    try:
        current_stamp = stamp_of(image)
        if digest and stamp == current_stamp:
            return True
        if sha256_of(image) != (digest or sha256):
            return False
        write_whole(seal, f"{digest or sha256} {current_stamp}\n")
    except OSError:
        return False
    return True
