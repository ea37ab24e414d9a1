"""modak top on a real cluster, beside what the node's own counters say of the same processes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
from contextlib import contextmanager

import pytest
from cluster import MODAK, modak
from test_deployment import wait_for

pytestmark = pytest.mark.testbed

# Each rank keeps a processor busy for a share of the time, and holds memory of its own.
WORKS = """\
import os, time
rank = int(os.environ["RANK"])
kept = os.urandom(1 << 20) * (60 + 120 * rank)
busy = 0.06 - 0.02 * rank
print("pid", os.getpid(), flush=True)
for _ in range(3000):
    until = time.process_time() + busy
    while time.process_time() < until:
        pass
    time.sleep(0.1 - busy)
"""


# What the kernel counts of two processes, twenty times a second: the moment, and the ticks of each.
COUNTS = """\
import sys, time
while True:
    texts = [open(f"/proc/{pid}/stat").read() for pid in sys.argv[1:]]
    print(time.time(), *(sum(map(int, text.rpartition(")")[2].split()[11:13])) for text in texts), flush=True)
    time.sleep(0.05)
"""


_OFF = 0.1  # seconds


@contextmanager
def counted(project, pids):
    """Gives a function of two moments: the least and the most ticks that each process had between them, where each
    moment may be off by as long as a busy node takes to read what all of its processes have. The front end shares its
    machine with the nodes."""
    command = f"exec python3 -c {shlex.quote(COUNTS)} {' '.join(pids)}"
    moments = []
    with subprocess.Popen(
        ["ssh", "-F", str(project.testbed.folder / "ssh_config"), "testbed", command], stdout=subprocess.PIPE, text=True
    ) as counter:

        def read():
            moments.extend([*map(float, line.split())] for line in counter.stdout)

        reader = threading.Thread(target=read)
        reader.start()

        def between(start, end):
            def grown(first, last):
                before, after = (min(moments, key=lambda each: abs(each[0] - moment)) for moment in (first, last))
                return [now - was for was, now in zip(before, after, strict=True)][1:]

            return list(zip(grown(start + _OFF, end - _OFF), grown(start - _OFF, end + _OFF), strict=True))

        yield between
        counter.terminate()
        reader.join()


def test_what_each_rank_uses_is_what_its_node_counts(project):
    project.script(WORKS).training.update(resources={"nodes": 2}, distributed_training=True)
    refused = modak("top", project.write(), "--once", cwd=project.path)
    assert refused.returncode == 2
    assert "was not deployed" in refused.stderr
    done = project.deploy("--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    logs = f"cat {project.remote}/output.log {project.remote}/ranks/1/output.log 2> /dev/null || true"
    wait_for(lambda: len(project.testbed.ssh(logs).split("pid ")) == 3, seconds=180)
    pids = re.findall(r"pid (\d+)", project.testbed.ssh(logs))

    seen = []
    with counted(project, pids) as between:
        for _ in range(3):
            shown = modak("top", project.path, "--once", "--json", cwd=project.path)
            assert shown.returncode == 0, shown.stdout + shown.stderr
            seen.append(json.loads(shown.stdout)["nodes"])
    sizes = project.testbed.ssh(f"grep -h ^Pss: {' '.join(f'/proc/{pid}/smaps_rollup' for pid in pids)}").split()[1::3]
    for rank in (0, 1):
        rows = [(node, row) for look in seen for node in look for row in node["ranks"] if row["rank"] == rank]
        assert [node["node"] for node, _ in rows] == [f"node0{rank + 1}"] * 3
        told = [between(node["time"] - node["seconds"], node["time"])[rank] for node, _ in rows]
        # a tick is a hundredth of a second
        ticks = sum(row["cpu_percent"] * node["seconds"] for node, row in rows)
        assert sum(least for least, _ in told) <= ticks <= sum(most for _, most in told)
        assert ticks > 0
        assert rows[-1][1]["memory_bytes"] == pytest.approx(1024 * int(sizes[rank]), rel=0.05)
        assert rows[-1][1]["gpus"] == []

    shown = modak("top", project.path, "--once", cwd=project.path).stdout.splitlines()
    assert "is running on node[01-02]" in shown[0]
    assert shown[1].split()[:4] == ["node", "rank", "cpu", "cores"]
    assert [line.split()[:2] for line in shown[2:]] == [["node01", "0"], ["node02", "1"]]

    said = "pwd; echo rank $RANK in $APPTAINER_CONTAINER; tr '\\0' ' ' < /proc/$0/cmdline; cat; exit 7"
    inside = modak("shell", project.path, "--", "sh", "-c", said, pids[0], cwd=project.path)
    assert inside.returncode == 7, inside.stdout + inside.stderr
    folder, rank, training = inside.stdout.splitlines()
    assert folder.endswith(f"{project.deployment}/code")
    assert re.fullmatch(r"rank 0 in /.*\.sif", rank)
    assert "train.py" in training
    assert modak("shell", project.path, "--", "nosuch", cwd=project.path).returncode == 127
    typed = subprocess.run(
        ["script", "-qec", shlex.join([str(MODAK), "shell", str(project.path)]), "/dev/null"],
        input="echo from $((20 + 22)) $MODAK_LAUNCHED; exit 5\n", capture_output=True, text=True, cwd=project.path, check=False,
    )  # fmt: skip
    assert typed.returncode == 5, typed.stdout + typed.stderr
    assert re.search(r"from 42 \d+\.\d+", typed.stdout)

    modak("cancel", project.path, cwd=project.path)
    assert "is cancelled" in modak("shell", project.path, cwd=project.path).stderr
    over = modak("top", project.path, cwd=project.path)
    assert over.returncode == 1
    assert "is cancelled" in over.stderr
    assert "modak results" in over.stderr
