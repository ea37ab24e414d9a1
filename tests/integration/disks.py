"""File systems of a test's own in the testbed, which get full when a test says so."""

from __future__ import annotations

import shlex
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster import Testbed

# Mounts a folder's file system at the same place for the compute nodes, whose mounts are their own.
_SHARE = """
import ctypes, glob, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for pidfile in glob.glob("/run/testbed/slurmd-*.pid"):
    tree = libc.open_tree(-100, sys.argv[1].encode(), 1)  # AT_FDCWD, OPEN_TREE_CLONE
    if tree < 0:
        sys.exit("open_tree: " + os.strerror(ctypes.get_errno()))
    if os.fork() == 0:
        os.setns(os.open("/proc/%s/ns/mnt" % open(pidfile).read().strip(), os.O_RDONLY), os.CLONE_NEWNS)
        if libc.move_mount(tree, b"", -100, sys.argv[1].encode(), 4):  # MOVE_MOUNT_F_EMPTY_PATH
            os._exit(ctypes.get_errno())
        os._exit(0)
    if os.wait()[1]:
        sys.exit("move_mount failed in " + pidfile)
"""


def _until(pattern: str) -> str:
    """Words of a shell that wait, two minutes at most, until something fits a pattern."""
    return f"timeout 120 bash -c 'until ls -d {pattern}; do sleep 0.01; done > /dev/null 2>&1' || exit"


class Disk:
    """A file system in the testbed, at the same place on its front end and its nodes.

    Attributes:
        path: where it is mounted.
        megabytes: how large it is.
        lack: what modak says when there is no room.
        error: what the system says then.
    """

    lack, error = "the disk is full", "No space left on device"

    def __init__(self, testbed: Testbed, megabytes: int) -> None:
        self._testbed = testbed
        self.megabytes = megabytes
        self.path = f"/home/modak/disk-{uuid.uuid4().hex[:8]}"
        testbed.ssh(f"mkdir {self.path}")
        try:
            self._mount()
        except BaseException:
            testbed.ssh(f"rmdir {self.path}")
            raise
        testbed.root(f"chown modak: {self.path} && python3 -c {shlex.quote(_SHARE)} {self.path}")

    @property
    def _folder(self) -> str:
        return f"/var/tmp/below-{self.path.rpartition('-')[2]}"

    def _mount(self) -> None:
        self._testbed.root(f"mount -t tmpfs -o size={self.megabytes}m,mode=700 disk {self.path}")

    @property
    def refusal(self) -> str:
        """What modak says at the beginning of a deployment when there is no room."""
        return f"the disk is full: {self.path}/modak has 0 MB left"

    def fill(self) -> None:
        """Takes all room that is left: the file system is as large as what is on it."""
        self._testbed.root(self._fill)

    def fill_at(self, pattern: str) -> subprocess.Popen[bytes]:
        """Fills it the moment that something of the workspace fits a pattern; the process that waits for that."""
        wait = _until(f"{self.path}/modak/{pattern}")
        return self._testbed.root_process(f"{wait}; {self._fill}")

    @property
    def _fill(self) -> str:
        used = f"$(($(df --output=used -B 1 {self.path} | tail -n 1)))"
        return f"until mount -o remount,size={used} {self.path}; do :; done 2> /dev/null"  # it may just be growing

    def clear(self) -> None:
        """Gives the room back."""
        self._testbed.root(f"mount -o remount,size={self.megabytes}m {self.path}")

    def remove(self) -> None:
        nodes = "for each in /run/testbed/slurmd-*.pid; do nsenter --target $(<$each) --mount umount -l {0}; done; umount -l {0}"
        self._testbed.root(nodes.format(self.path) + f"; rmdir {self.path}")


class QuotaDisk(Disk):
    """A file system with room for all, of which a quota leaves the user nothing (btrfs: a kernel's own EDQUOT)."""

    lack, error = "the quota is used up", "Disk quota exceeded"
    _LIMITED = "0/256"  # the first subvolume, as btrfs numbers them

    @property
    def refusal(self) -> str:
        return f"{self.lack} at {self.path}/modak"

    def _mount(self) -> None:
        folder, image = self._folder, f"{self._folder}.img"
        loop = "loop=$(losetup --find); loop=${loop%% *}; [ -e $loop ] || mknod $loop b 7 ${loop#/dev/loop}"
        if "btrfs" not in self._testbed.root("modprobe btrfs 2> /dev/null; cat /proc/filesystems"):
            pytest.skip("this kernel has no btrfs, whose quotas need no more than a file")
        # what is limited is a part of it: who is at the limit could not even lift it
        self._testbed.root(
            f"set -e; [ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237; {loop}; "
            f"truncate -s {self.megabytes}M {image}; mkfs.btrfs -q {image} > /dev/null; mkdir {folder}; "
            f"mount -o loop=$loop {image} {folder}; rm {image}; btrfs quota enable {folder}; "
            f"btrfs subvolume create {folder}/home > /dev/null; mount --bind {folder}/home {self.path}; chmod 700 {self.path}"
        )

    @property
    def _fill(self) -> str:
        used = f"$(btrfs qgroup show --raw --sync {self._folder} | awk '$1 == \"{self._LIMITED}\" {{print $2}}')"
        return f"btrfs qgroup limit {used} {self._LIMITED} {self._folder}"

    def clear(self) -> None:
        self._testbed.root(f"btrfs qgroup limit none {self._LIMITED} {self._folder}")

    def remove(self) -> None:
        super().remove()
        self._testbed.root(f"umount -l {self._folder}; rmdir {self._folder}")


class HungDisk(Disk):
    """A file system that a process serves (FUSE), which is stopped: whoever touches it waits."""

    def _mount(self) -> None:
        folder = self._folder
        options = f"allow_other,lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        self._server = self._testbed.root(
            f"mkdir -p {folder}/lower {folder}/upper {folder}/work; chmod 755 {folder} {folder}/*; "
            f"setsid fuse-overlayfs -f -o {options} {self.path} > {folder}/log 2>&1 < /dev/null & echo $!; "
            f"until mountpoint -q {self.path}; do sleep 0.05; done"
        )

    def hang_at(self, pattern: str, seconds: int) -> subprocess.Popen[bytes]:
        """Stops it for some seconds from the moment that something of the workspace fits a pattern."""
        wait = _until(f"{self.path}/modak/{pattern}")
        stop = f"kill -STOP {self._server}; sleep {seconds}; kill -CONT {self._server}"
        return self._testbed.root_process(f"{wait}; {stop}")

    def remove(self) -> None:
        self._testbed.root(f"kill -CONT {self._server}")
        super().remove()
        self._testbed.root(f"kill {self._server} || true; rm -rf {self._folder}")


@contextmanager
def disk(testbed: Testbed, megabytes: int = 2000, kind: type[Disk] = Disk) -> Iterator[Disk]:
    """A file system that is there for the block."""
    new_disk = kind(testbed, megabytes)
    try:
        yield new_disk
    finally:
        new_disk.remove()


@contextmanager
def full_scratch(testbed: Testbed, node: str = "*", folder: str = "/scratch") -> Iterator[None]:
    """The scratch of a node's own, or of all of them, has room for 64 kB."""
    on_each = f"for each in /run/testbed/slurmd-{node}.pid; do nsenter --target $(<$each) --mount "
    testbed.root(on_each + f"mount -t tmpfs -o size=64k,mode=1777 full {folder}; done")
    try:
        yield
    finally:
        testbed.root(on_each + f"umount -l {folder}; done")


@contextmanager
def hung_disk(testbed: Testbed) -> Iterator[HungDisk]:
    """A file system that hangs when a test says so, for the block."""
    new_disk = HungDisk(testbed, 0)
    try:
        yield new_disk
    finally:
        new_disk.remove()
