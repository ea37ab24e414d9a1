"""Faults on purpose, and what they must not leave behind on either side."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shlex
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Project, wait_for


class Line:
    """The line between modak and the testbed's sshd: a TCP proxy on loopback that a test cuts, slows and restores.

    Attributes:
        port: where it listens.
        speed: bytes in a second that pass in each direction; None for no limit.
        passed: bytes that have passed.
    """

    def __init__(self, address: str, port: int) -> None:
        self._target = (address, port)
        self._open: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self.speed: float | None = None
        self.passed = 0
        self.port = 0
        self._listen()

    def cut(self) -> None:
        """Ends all connections; new ones are refused."""
        with contextlib.suppress(OSError):  # wakes who waits in accept()
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._flows.set()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        """Lets connections through again, those that were kept silent too."""
        self._flows.set()
        if self._server.fileno() < 0:
            self._listen()

    def silence(self) -> None:
        """Keeps connections open, and lets nothing through, as a network does that loses all packets."""
        self._flows.clear()

    def _listen(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                try:
                    upstream = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                self._open |= {client, upstream}
                for pair in ((client, upstream), (upstream, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                if self.speed:
                    time.sleep(len(data) / self.speed)
                sink.sendall(data)
                self.passed += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            self._open.discard(end)


@pytest.fixture
def line(project: Project, tmp_path: Path) -> Iterator[Line]:
    """The project's only way to the testbed; the tests' own goes past it."""
    state = project.testbed.state
    proxy = Line(state["address"], state["port"])
    folder = tmp_path / "testbed-behind-the-line"
    shutil.copytree(project.testbed.folder, folder)
    config = (folder / "ssh_config").read_text()
    for old, new in (
        (f"HostName {state['address']}", "HostName 127.0.0.1"),
        (f"Port {state['port']}", f"Port {proxy.port}"),
    ):
        assert old in config
        config = config.replace(old, new)
    (folder / "ssh_config").write_text(f"{config}  HostKeyAlias [{state['address']}]:{state['port']}\n")
    link = project.path / ".modak" / "testbed"
    link.unlink()
    link.symlink_to(folder)
    yield proxy
    proxy.restore()
    proxy.speed = None


# --- what a fault must not leave behind

# Prints a line for each thing that is left on the target.
_ON_THE_TARGET = r"""
import fcntl, glob, os, pwd, re
given = %(given)r
user = pwd.getpwnam("modak")
workspace = os.path.join(user.pw_dir, given["workspace"])
parents, names, owners = {}, {}, {}
for folder in glob.glob("/proc/[0-9]*"):
    try:
        text = open(folder + "/stat").read()
        pid = int(folder[6:])
        names[pid] = text[text.index("(") + 1:text.rindex(")")]
        parents[pid] = int(text[text.rindex(")"):].split()[2])
        owners[pid] = os.stat(folder).st_uid
    except OSError:
        continue
def is_ours(pid):
    # neither a job of Slurm's nor a session of sshd's own; what a session runs is
    line = []
    while pid:
        line.append(names.get(pid, ""))
        pid = parents.get(pid, 0)
    return not any(name.startswith("slurmstepd") for name in line) and not line[0].startswith("sshd")
for pid, owner in sorted(owners.items()):
    if owner == user.pw_uid and is_ours(pid):
        try:
            words = open("/proc/%%d/cmdline" %% pid).read().replace("\0", " ").strip()
        except OSError:
            continue
        print("process %%d there: %%s" %% (pid, (words or names[pid])[:200]))
seen = set()
for pid in owners:
    try:
        for row in open("/proc/%%d/mountinfo" %% pid):
            place = row.split()[4]
            if place.startswith((workspace + "/", "/tmp/")) or "/apptainer/mnt/session" in place:
                if place not in seen and (owners[pid] != user.pw_uid or is_ours(pid)):
                    seen.add(place)
                    print("mount there:", place)
    except OSError:
        continue
for path in glob.glob(workspace + "/.*.lock") + glob.glob(workspace + "/*/.*.lock") + glob.glob(workspace + "/*/*.lock"):
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("lock held there:", path)
    except OSError:
        continue
for kind in ("images", "datasets", "deployments"):
    for path in glob.glob(workspace + "/" + kind + "/.*"):
        name = os.path.basename(path)
        is_ours = any(each in name for each in given["names"])
        if name.startswith(".incoming-") or (name.endswith(".part") and is_ours):
            print("unfinished there:", path)
for path in glob.glob("/tmp/ansible_*") + glob.glob(user.pw_dir + "/.ansible/tmp/*") + glob.glob("/tmp/modak-*"):
    if os.stat(path).st_uid == user.pw_uid and os.stat(path).st_mtime > given["since"]:
        print("temporary there:", path)
for path in glob.glob("/var/lib/testbed/scratch/*/modak-*") + glob.glob("/var/lib/testbed/scratch/modak-*"):
    if os.stat(path).st_mtime > given["since"]:
        print("scratch of a job there:", path)
"""


def leftovers(project: Project, *, names: tuple[str, ...] = ()) -> list[str]:
    """What a project's commands have left running, mounted, locked or half-done, there and here; empty is as it should be.

    Jobs in the queue, connections of SSH that wait for the next command, and whole images, data and deployments are none.

    Args:
        project: none of its commands runs now.
        names: of deployments, images or datasets of which nothing may be unfinished, besides the project's own.
    """
    parameters = {
        "workspace": project.target["properties"].get("workspace", "modak"),
        "names": [*names, *_names(project)],
        "since": project.created,
    }
    script = _ON_THE_TARGET % {"given": parameters}
    return [*project.testbed.root(f"python3 -c {shlex.quote(script)}").splitlines(), *left_here(project)]


def _names(project: Project) -> list[str]:
    plan = project.plan()
    images = [layer["digest"] for layer in plan["image"]["layers"]]
    data = [Path(plan["dataset"]["path"]).name] if plan["dataset"] else []
    return [f"{plan['name']}-{plan['digest'][:12]}", *images, *data]


def left_here(project: Project) -> list[str]:
    """What a project's commands have left on this machine that should not be there."""
    lines = [f"process {pid} here: {words[:200]}" for pid, words in processes_of(project)]
    state = project.path / ".modak"
    for path in state.rglob("*.lock"):
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lines.append(f"lock held here: {path}")
    lines += [f"unfinished here: {path}" for path in state.rglob("*.part")]
    lines += [f"temporary here: {path}" for path in project.temporary.iterdir()]
    return lines


def processes_of(project: Project) -> list[tuple[int, str]]:
    """The processes here that work for a project's commands, with their words; without SSH's shared connections."""
    processes = []
    mark = f"MODAK_TEST={project.name}\0".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environment.read_bytes():
                words = (
                    (environment.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                )
                if words and "[mux]" not in words:
                    processes.append((int(environment.parent.name), words))
    return processes


def nothing_runs_here(project: Project, seconds: float = 20) -> None:
    """Fails where a process works for a project's commands for longer, though they have ended."""
    deadline = time.monotonic() + seconds
    while processes := processes_of(project):
        assert time.monotonic() < deadline, "\n".join(f"process {pid} here: {words}" for pid, words in processes)
        time.sleep(0.5)


def nothing_is_left(project: Project, seconds: float = 40, **options: object) -> None:
    """Fails where something is left for longer than a look of modak's at the target may take."""
    deadline = time.monotonic() + seconds
    while lines := leftovers(project, **options):
        assert time.monotonic() < deadline, "\n".join(lines)
        time.sleep(1)


def results_are_whole(project: Project) -> Path:
    """The folder of the results; fails where a file of theirs is not here as it was there."""
    results = project.folder / "results"
    files = json.loads((results / "manifest.json").read_text())["files"]
    assert files
    for file in files:
        assert hashlib.sha256((results / file["path"]).read_bytes()).hexdigest() == file["sha256"], file["path"]
    checksums = project.testbed.ssh(
        f"cd {project.remote} && sha256sum {' '.join(shlex.quote(file['path']) for file in files)}"
    )
    assert [row.split()[0] for row in checksums.splitlines()] == [file["sha256"] for file in files]
    return results


def one_job_completed(project: Project) -> str:
    """The id of the only job that ever had the deployment's name; fails unless it ran to its end once."""
    name = shlex.quote(project.deployment)
    command = f"sacct --noheader --parsable2 --allocations --duplicates --starttime=now-1days --endtime=now+1days --name={name} --format=JobIDRaw,State"
    rows: list[str] = []

    def is_noted() -> bool:
        rows[:] = project.testbed.ssh(command).split()
        return bool(rows) and not any(row.endswith(("RUNNING", "PENDING")) for row in rows)

    wait_for(is_noted, 30)  # it runs a little behind
    assert [row.partition("|")[2] for row in rows] == ["COMPLETED"], rows
    return rows[0].partition("|")[0]


def finishes(project: Project, *options: object) -> str:
    """Runs the same command again, and gives what it said; fails unless all is well behind it."""
    result = project.deploy(*options)
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    assert "Traceback" not in output
    one_job_completed(project)
    results_are_whole(project)
    nothing_is_left(project)
    return output
