"""Shows a folder through a file system that answers each question late: a parallel file system, emulated.

It speaks the kernel's FUSE protocol (linux/fuse.h, 7.31) itself, read-only, and mounts by fusermount3, which ordinary
users may. Each lookup, open, read and listing waits for the latency before it is answered, several of them side by
side; folders that the kernel has asked for it knows for a minute. A client of NFS or Lustre is like that in what counts
here: a file that is opened costs a few questions to a server, however small it is. What it is not like: the server here
is never busy with others, and never faster than Python.
"""

from __future__ import annotations

import array
import errno
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT = 1, 2, 3, 14, 15, 17, 18, 26
OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 27, 28, 29, 34, 36, 38, 42
LATE = {LOOKUP, OPEN, READ, READDIR}
UNANSWERED = {FORGET, BATCH_FORGET, INTERRUPT}
ASYNC_READ, PARALLEL_FOLDERS, MAX_PAGES, KEEP_CACHE = 1, 1 << 18, 1 << 22, 2
HEADER = struct.Struct("<IIQQIIII")
ATTRIBUTES = struct.Struct("<6Q10I")
SERVERS = 16
ROOT = 1
LARGEST = 1 << 20


class Shown:
    """A folder, as the kernel asks for it.

    Args:
        folder: that is shown.
        latency: seconds before an answer.
        descriptor: of /dev/fuse.
    """

    def __init__(self, folder: Path, latency: float, descriptor: int) -> None:
        self._latency, self._descriptor = latency, descriptor
        self._paths = {ROOT: str(folder)}
        self._nodes = {str(folder): ROOT}
        self._lists: dict[int, list[bytes]] = {}
        self._lock = threading.Lock()
        self.asked = 0

    def serve(self) -> None:
        """Answers until the file system is unmounted."""
        threads = [threading.Thread(target=self._answer_all) for _ in range(SERVERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _answer_all(self) -> None:
        while True:
            try:
                request = os.read(self._descriptor, LARGEST + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return  # ENODEV: it is unmounted
            _, operation, unique, node, *_ = HEADER.unpack_from(request)
            if operation in UNANSWERED:
                continue
            if operation in LATE:
                time.sleep(self._latency)
            try:
                problem, answer = 0, self._answer(operation, node, request[HEADER.size :])
            except OSError as error:
                problem, answer = -(error.errno or errno.EIO), b""
            try:
                os.write(self._descriptor, struct.pack("<IiQ", 16 + len(answer), problem, unique) + answer)
            except OSError:  # nobody waits for it any more
                continue

    def _answer(self, operation: int, node: int, body: bytes) -> bytes:
        if operation == INIT:
            ahead = struct.unpack_from("<III", body)[2]
            flags = ASYNC_READ | PARALLEL_FOLDERS | MAX_PAGES
            return struct.pack(
                "<IIIIHHIIHHI28x", 7, 31, ahead, flags, SERVERS, SERVERS, LARGEST, 1, LARGEST // 4096, 0, 0
            )
        if operation == LOOKUP:
            return self._entry(os.path.join(self._paths[node], os.fsdecode(body.rstrip(b"\0"))))
        if operation == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + _attributes(node, os.lstat(self._paths[node]))
        if operation in (OPEN, OPENDIR):
            return self._opened(operation, node)
        if operation == READ:
            handle, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(handle, size, offset)
        if operation == READDIR:
            handle, offset, size = struct.unpack_from("<QQI", body)
            return _page(self._lists[handle], offset, size)
        if operation == RELEASE:
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if operation == RELEASEDIR:
            self._lists.pop(struct.unpack_from("<Q", body)[0], None)
            return b""
        if operation == STATFS:
            return struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        if operation in (ACCESS, DESTROY):
            return b""
        raise OSError(errno.ENOSYS, "")

    def _entry(self, path: str) -> bytes:
        found = os.lstat(path)
        with self._lock:
            node = self._nodes.setdefault(path, len(self._nodes) + 1)
            self._paths[node] = path
        # who opens a file asks for it by its name each time; folders are known for a while
        known = 60 if stat.S_ISDIR(found.st_mode) else 0
        return struct.pack("<4QII", node, 0, known, 60, 0, 0) + _attributes(node, found)

    def _opened(self, operation: int, node: int) -> bytes:
        if operation == OPEN:
            return struct.pack("<QII", os.open(self._paths[node], os.O_RDONLY), KEEP_CACHE, 0)
        entries = []
        with os.scandir(self._paths[node]) as found:
            for number, each in enumerate(sorted(found, key=lambda each: each.name), start=1):
                name, kind = os.fsencode(each.name), 4 if each.is_dir(follow_symlinks=False) else 8
                entry = struct.pack("<QQII", each.inode(), number, len(name), kind) + name
                entries.append(entry + b"\0" * (-len(entry) % 8))
        with self._lock:
            self.asked += 1
            self._lists[self.asked] = entries
            return struct.pack("<QII", self.asked, 0, 0)


def _attributes(node: int, found: os.stat_result) -> bytes:
    times = [divmod(each, 10**9) for each in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
    return ATTRIBUTES.pack(
        node, found.st_size, found.st_blocks, *(whole for whole, _ in times), *(rest for _, rest in times),
        found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0,
    )  # fmt: skip


def _page(entries: list[bytes], offset: int, size: int) -> bytes:
    page = b""
    for entry in entries[offset:]:
        if len(page) + len(entry) > size:
            break
        page += entry
    return page


def mounted(place: Path) -> int:
    """Mounts a file system that this process is to serve, and returns the descriptor of /dev/fuse.

    Raises:
        OSError: fusermount3 is not there, or refuses.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        done = subprocess.run(
            ["fusermount3", "-o", "ro,fsname=latency,default_permissions", "--", str(place)],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise OSError(errno.EPERM, done.stderr.strip() or "fusermount3 refuses")
        _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2][:4])
        return descriptors[0]


def main() -> None:
    """FOLDER PLACE MILLISECONDS: serves until PLACE is unmounted."""
    folder, place, milliseconds = sys.argv[1:]
    shown = Shown(Path(folder), float(milliseconds) / 1000, mounted(Path(place)))
    print("mounted", flush=True)
    shown.serve()


if __name__ == "__main__":
    main()
