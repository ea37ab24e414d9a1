"""What a job uses of a node, by files as /proc, cgroups of both versions and nvidia-smi have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.direct import Direct
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.campaign import Campaign
from modak_ansible.target.jobs.query import query
from modak_ansible.target.survey import usage as counters

# As Linux 6.18 wrote them of a job of Slurm 24.11.
STAT = (
    "{pid} ({name}) {state} {parent} 40681 40681 0 -1 4194304 104 0 0 0 {user} {system} {waited} 0 20 0 1 0 {started} "
    "5697856 436 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
IO = "rchar: 9991\nwchar: 7\nsyscr: 8\nsyscw: 0\nread_bytes: {}\nwrite_bytes: {}\ncancelled_write_bytes: 0\n"
ROLLUP = (
    "55654d6db000-7ffcfbca3000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:                1852 kB\nPss:                 {} kB\nPss_Dirty:           112 kB\n"
)
STATUS = "Name:\tpython3\nUid:\t2000\t2000\t2000\t2000\nVmRSS:\t    2176 kB\nCpus_allowed:\t3\nCpus_allowed_list:\t{}\n"
V1 = "9:name=systemd:/\n4:memory:/slurm_node01/uid_2000/job_97/{}\n2:cpuacct:/\n1:cpu:/\n0::/\n"
V2 = "0::/system.slice/slurmstepd.scope/job_97/{}\n"
MARKS = ["SLURM_JOB_ID=97", "SLURMD_NODENAME=node01"]
OURS = b"PATH=/usr/bin\0SLURM_JOB_ID=97\0SLURMD_NODENAME=node01\0"


def test_a_process_whose_environment_nobody_may_read_keeps_nobody_out(monkeypatch):
    """As a runtime's that was installed with rights of root, or one that has just ended."""
    stat = counters.Stat(1, 0, 0, 0)
    monkeypatch.setattr(counters, "processes", lambda proc, marks: {2**31: counters.Process("", stat, 0, 0)})
    with pytest.raises(SystemExit, match="the job's training is not running"):
        counters.enter(MARKS, ["true"])


class Machine:
    """A /proc and a /sys/fs/cgroup."""

    def __init__(self, folder):
        self.proc, self.cgroups = folder / "proc", folder / "cgroup"

    def process(self, pid, parent=1, user=0, environment=b"", cgroup="", **more):
        given = {"name": "python3", "state": "R", "system": 0, "waited": 0, "started": 5, "read": 0, "written": 0}
        values = {**given, "pss": 1000, "cpus": "0-1", **more}
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(STAT.format(pid=pid, parent=parent, user=user, **values))
        (folder / "io").write_text(IO.format(values["read"], values["written"]))
        (folder / "smaps_rollup").write_text(ROLLUP.format(values["pss"]))
        (folder / "status").write_text(STATUS.format(values["cpus"]))
        (folder / "environ").write_bytes(environment)
        (folder / "cgroup").write_text(cgroup)

    def cgroup(self, path, pids=(), **files):
        folder = self.cgroups / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(f"{text}\n")


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    made.process(1)
    made.process(10, environment=OURS)  # the job's script
    made.process(11, 10, environment=OURS + b"RANK=0\0")
    made.process(12, 11)  # in a container that cleans its environment
    made.process(13, 10, environment=OURS + b"RANK=1\0", name="a) R 7 (b")
    made.process(20, environment=b"SLURM_JOB_ID=98\0SLURMD_NODENAME=node01\0")
    made.process(21, environment=b"SLURM_JOB_ID=97\0SLURMD_NODENAME=node02\0")
    made.process(30, environment=OURS)  # the step that looks, and what it starts
    made.process(os.getpid(), 30, environment=OURS)
    made.process(31, os.getpid())
    made.process(14, 10, state="Z")
    return made


def test_the_jobs_processes_are_those_with_its_marks_and_all_that_they_start(machine):
    found = counters.processes(machine.proc, MARKS)
    assert {pid: each.rank for pid, each in found.items()} == {10: "", 11: "0", 12: "0", 13: "1"}
    assert set(counters.processes(machine.proc, ["pid=11"])) == {11, 12}
    assert counters.processes(machine.proc, ["pid=99"]) == {}


def measured(machine, monkeypatch, *, meanwhile, seconds=2.0):
    """What is found when something happens meanwhile, by a clock of its own."""
    clock = iter([100.0, 100.0 + seconds])
    passing = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: meanwhile(), time=lambda: 5.0)
    monkeypatch.setattr(counters, "time", passing)
    monkeypatch.setattr(counters, "_nvidia", lambda query: "")
    return counters.usage(machine.proc, machine.cgroups, MARKS, seconds)


def test_what_each_rank_has_used_meanwhile(machine, monkeypatch):
    hertz = os.sysconf("SC_CLK_TCK")

    def meanwhile():
        machine.process(12, 11, user=hertz, system=hertz // 2, read=4_000_000, written=10, cpus="0,3-4")
        machine.process(13, 10, user=hertz // 10, environment=OURS + b"RANK=1\0", pss=5)
        machine.process(15, 13, user=hertz // 10, started=900)  # is new

    found = measured(machine, monkeypatch, meanwhile=meanwhile)
    first, second = found["ranks"]
    assert (first["rank"], first["cpu_percent"], first["memory_bytes"], first["processes"]) == (0, 75.0, 2_048_000, 2)
    assert (first["read_bytes_per_second"], first["written_bytes_per_second"]) == (2_000_000, 5)
    assert (second["rank"], second["cpu_percent"], second["memory_bytes"]) == (1, 10.0, 1_029_120)
    assert (found["cpu_percent"], found["processes"], found["cores"], found["seconds"]) == (85.0, 5, 4, 2.0)
    assert (found["gpus"], found["memory_limit_bytes"]) == ([], None)


def test_what_has_ended_meanwhile_is_counted_by_its_parent_and_only_once(machine, monkeypatch):
    hertz = os.sysconf("SC_CLK_TCK")
    machine.process(12, 11, user=3 * hertz)

    def meanwhile():
        (machine.proc / "12" / "stat").unlink()
        machine.process(11, 10, waited=4 * hertz, environment=OURS + b"RANK=0\0")

    assert measured(machine, monkeypatch, meanwhile=meanwhile)["ranks"][0]["cpu_percent"] == 50.0


def test_a_job_that_has_just_ended_uses_nothing(machine, monkeypatch):
    def meanwhile():
        for pid in (10, 11, 12, 13):
            (machine.proc / str(pid) / "stat").unlink()

    found = measured(machine, monkeypatch, meanwhile=meanwhile)
    assert (found["processes"], found["cpu_percent"], found["memory_bytes"], found["ranks"]) == (0, 0.0, 0, [])


def test_the_training_is_the_first_ranks_first_process(machine):
    found = counters.processes(machine.proc, MARKS)
    trains = {"MODAK_LAUNCHED": "1.0"}
    assert counters.training_of(found, {11: {}, 12: trains, 13: trains}) == 12
    assert counters.training_of(found, {13: trains}) == 13
    assert counters.training_of(found, {12: trains, 13: trains}, "1") == 13
    assert counters.training_of(found, {12: trains}, "1") == 0
    assert counters.training_of(found, {10: {}}) == 0


# --- cgroups


@pytest.mark.parametrize(
    ("text", "step", "files", "limit_above"),
    [
        (V1, "memory/slurm_node01/uid_2000/job_97", ("memory__usage_in_bytes", "memory__limit_in_bytes"), 2**63 - 4096),
        (V2, "system.slice/slurmstepd.scope/job_97", ("memory__current", "memory__max"), "max"),
    ],
    ids=["v1", "v2"],
)
def test_the_memory_of_the_jobs_own_cgroup(machine, text, step, files, limit_above):
    used, limit = files
    for pid in (11, 13):
        machine.process(pid, 10, cgroup=text.format(f"step_{pid % 11}/user/task_0"), environment=OURS)
        machine.cgroup(f"{step}/step_{pid % 11}/user/task_0", [pid])
    machine.cgroup(f"{step}/step_extern", [30, os.getpid(), 4_000_000])
    machine.cgroup(step, **{used: 5_000_000, limit: limit_above})
    pids = {11, 13}
    assert counters.cgroup_of(machine.proc, machine.cgroups, pids) == {"memory_bytes": 5_000_000}
    machine.cgroup(step, **{limit: 9_000_000})
    machine.cgroup(step.rpartition("/")[0], **{limit: 8_000_000})  # what holds above, holds here
    found = counters.cgroup_of(machine.proc, machine.cgroups, pids)
    assert found == {"memory_bytes": 5_000_000, "limit_bytes": 8_000_000}
    machine.cgroup(f"{step}/other", [20])  # it is not the job's alone
    assert counters.cgroup_of(machine.proc, machine.cgroups, pids) == {}


@pytest.mark.parametrize("text", ["0::/\n", "4:memory:/\n0::/\n", "0::/../../elsewhere\n", "", "no cgroup\n"])
def test_the_whole_machine_is_nobodys_cgroup(machine, text):
    machine.process(11, 10, cgroup=text)
    machine.cgroup("", memory__current=1)
    machine.cgroup("memory", memory__usage_in_bytes=1)
    assert counters.cgroup_of(machine.proc, machine.cgroups, {11}) == {}


# --- accelerators


def test_the_accelerators_that_the_processes_are_on():
    gpus = "0, GPU-aa, 97, 40960, 81559, 512.34\n1, GPU-bb, 0, 4, 81559, 70.10\n2, GPU-cc, [N/A], 7, [N/A], [N/A]\n"
    applications = "11, GPU-aa, 40000\n12, GPU-aa, 900\n20, GPU-bb, 4\n13, GPU-cc, [N/A]\n"
    first, third = counters.parse_gpus(gpus, applications, {11, 12, 13})
    assert first == {
        "gpu": "0", "percent": 97.0, "memory_bytes": 40960 << 20, "memory_total_bytes": 81559 << 20, "watts": 512.34,
        "pids": [11, 12],
    }  # fmt: skip
    assert (third["gpu"], third["percent"], third["watts"], third["pids"]) == ("2", None, None, [13])
    assert counters.parse_gpus("NVIDIA-SMI has failed\n", "NVIDIA-SMI has failed\n", {11}) == []


# --- whatever stands there


@given(st.text(), st.text())
def test_no_text_breaks_a_parser(text, other):
    counters.parse_stat(text)
    counters.parse_pairs(text)
    counters.parse_cpus(text)
    counters.parse_environment(text.encode("utf-8", "surrogatepass"))
    assert ".." not in counters.parse_cgroup(text).split("/")
    counters.parse_gpus(text, other, {1})


@given(st.text(st.characters(blacklist_characters="\n")), *[st.integers(0, 2**40)] * 4)
def test_a_processes_name_moves_no_field(name, user, system, waited, started):
    text = STAT.format(pid=7, name=name, state="S", parent=3, user=user, system=system, waited=waited, started=started)
    assert counters.parse_stat(text) == counters.Stat(3, user + system, waited, started)


@given(st.sets(st.integers(0, 300)))
def test_processors_are_read_as_linux_lists_them(numbers):
    assert counters.parse_cpus(",".join(map(str, sorted(numbers)))) == numbers
    if numbers:
        whole = set(range(min(numbers), max(numbers) + 1))
        assert counters.parse_cpus(f"{min(numbers)}-{max(numbers)}\n") == whole


# --- a real process


@pytest.mark.component
def test_a_process_of_this_machine(tmp_path):
    """All the way but for a cluster: the text of the module runs by itself, and finds the job."""
    code = "import time\nkept = bytearray(b'x') * (50 << 20)\nwhile True:\n    time.sleep(0.01)"
    workspace = Workspace(str(tmp_path))
    environment = {**os.environ, "RANK": "3", "MODAK_LAUNCHED": "1.0"}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment) as process:
        try:
            stat = (counters.Path("/proc") / str(process.pid) / "stat").read_text().rpartition(")")[2].split()
            job_id = f"{process.pid}.{stat[19]}"
            state = workspace.deployments / "trains" / "state"
            state.mkdir(parents=True)
            (state / "submitted.json").write_text(json.dumps({"job_id": job_id, "time": 0}))
            (state / "claim").write_text(job_id)
            (state / "started").write_text(f"1 {job_id} here\n")
            (job,) = query(workspace, Campaign(workspace, Direct.name), ["trains"], inside="usage")
            (quiet,) = query(workspace, Campaign(workspace, Direct.name), ["trains"])
            (way,) = query(workspace, Campaign(workspace, Direct.name), ["trains"], inside="way")
            said = "echo $RANK; pwd; cat; exit 7"
            words = [*way.way["plain"], json.dumps(["sh", "-c", said]).encode().hex()]
            entered = subprocess.run(words, input="typed", capture_output=True, text=True, check=False)
            nothing = [*way.way["plain"], json.dumps(["/nosuch"]).encode().hex()]
            missing = subprocess.run(nothing, capture_output=True, text=True, check=False)
        finally:
            process.kill()
    (node,) = job.usage
    assert node["node"] == os.uname().nodename
    (row,) = node["ranks"]
    assert (row["rank"], row["processes"]) == (3, 1)
    assert 50 << 20 < row["memory_bytes"] < 90 << 20
    assert 0 <= row["cpu_percent"] < 60
    assert (quiet.usage, quiet.way, job.way) == ([], {}, {})
    assert (entered.returncode, entered.stdout) == (7, f"3\n{tmp_path}\ntyped")
    assert (missing.returncode, missing.stderr) == (127, "modak: /nosuch: No such file or directory\n")


@pytest.mark.component
@pytest.mark.parametrize(
    ("says", "code", "found"),
    [
        ("NVIDIA H100 80GB HBM3, 81559", 0, ["NVIDIA H100 80GB HBM3, 81559"]),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9, []),
        ("No devices were found", 6, []),
        ("", 0, []),
    ],
)
def test_what_nvidia_smi_complains_of_is_no_accelerator(tmp_path, monkeypatch, says, code, found):
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "{says}"\nexit {code}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert counters.gpus_here() == found
