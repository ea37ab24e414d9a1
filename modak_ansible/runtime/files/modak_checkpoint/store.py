"""Checkpoints in a folder: each whole or absent, the last two, named by number and by the digest of their content."""

import hashlib
import os
import re

from modak_runtime.report import warn

_KEPT = 2
_NAME = re.compile(r"(\d{8})-([0-9a-f]{32})\.checkpoint")
_PART = re.compile(r"\.\d{8}\.part")


class Store:
    """The checkpoints of one training, which alone writes them.

    Args:
        folder: is made where it is not there; what a killed process left half written is removed.
    """

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if _PART.fullmatch(name):
                os.unlink(os.path.join(folder, name))

    def save(self, write):
        """Adds a checkpoint, which is on the disk when this comes back, and removes all but the newest two.

        Args:
            write: is given the path of a new file, and writes it.

        Returns:
            its path.

        Raises:
            OSError: there is no room, or nothing can be written; the older checkpoints are as they were.
        """
        names = self._names()
        number = int(_NAME.fullmatch(names[-1]).group(1)) + 1 if names else 1
        part = os.path.join(self.folder, ".%08d.part" % number)
        try:
            write(part)
            digest = _digest(part, is_new=True)
            path = os.path.join(self.folder, "%08d-%s.checkpoint" % (number, digest))
            os.replace(part, path)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
        _settle(self.folder)
        for name in self._names()[:-_KEPT]:
            os.unlink(os.path.join(self.folder, name))
        return path

    def discard(self, path):
        """Removes a checkpoint that turned out to be of no use."""
        os.unlink(path)

    def newest(self):
        """The paths of all that are whole, newest first; of others is told, and they are removed."""
        for name in reversed(self._names()):
            path = os.path.join(self.folder, name)
            try:
                digest = _digest(path)
            except OSError as error:
                warn("the checkpoint %s cannot be read: %s" % (path, error.strerror))
                continue
            if digest == _NAME.fullmatch(name).group(2):
                yield path
            else:
                warn("the checkpoint %s is damaged; an older one is used" % path)
                os.unlink(path)

    def _names(self):
        return sorted(filter(_NAME.fullmatch, os.listdir(self.folder)))


def _digest(path, is_new=False):
    """The first half of a file's SHA-256; of a new one when the disk has it."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        if is_new:
            os.fsync(file.fileno())
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()[:32]


def _settle(folder):
    """Has the disk hold the folder's names, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
