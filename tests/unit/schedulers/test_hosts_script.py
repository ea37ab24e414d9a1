"""Ranks on several hosts without a scheduler, as the job script of the first one starts them.

Emulated: an ``ssh`` that enters a mount namespace, in which the workspace is another folder. The real one is tried on the testbed.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rank_scripts import Deployment

from modak_ansible.schedulers.base import JobRecord, JobState
from modak_ansible.schedulers.direct import Direct
from modak_ansible.schedulers.script import Ranks
from modak_ansible.target.jobs.markers import failed_rank
from modak_ansible.target.survey import usage

pytestmark = pytest.mark.component

_SSH = """#!/bin/bash
while :; do
    case $1 in
        -o) shift 2 ;;
        -G) printf 'user alice\\nhostname 127.0.0.%s\\nport 22\\n' "${2#host}"; exit ;;
        *) break ;;
    esac
done
echo "$$ $*" >> FOLDER/entered
host=$1
shift
if ! [ -e "FOLDER/$host" ]; then
    echo "ssh: connect to host $host port 22: Connection refused" >&2
    exit 255
fi
# what runs there does not end with the one who came
setsid unshare MORE --mount bash -c 'MODAK_HOST=$1; SHARE mount --bind "FOLDER/$1" "WORKSPACE" || exit 255
    exec env --default-signal=TERM -i "HOME=$HOME" "PATH=$PATH" MODAK_HOST="$1" sh -c "$2"' enter "$host" "$*" <&0 &
wait "$!"
"""
HOSTS = Ranks(4, 2, "ddp", timeout=20, is_local=True, hosts=("host2",))
TELL = (
    'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK ${MODAK_HOST:-here} [$MODAK_STRATEGY]'
    ' $GLOO_SOCKET_IFNAME $MASTER_ADDR"; echo "{}" > "$MODAK_METRICS"'
)


def _enters() -> tuple[str, ...] | None:
    """The flags with which a user may have a mount namespace; None where none may."""
    for flags in ((), ("--user", "--map-root-user")):
        done = subprocess.run(
            ["unshare", *flags, "--mount", "mount", "--bind", "/tmp", "/mnt"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return flags
    return None


@pytest.fixture
def workspace():
    return "workspace"


@pytest.fixture
def deployment(tmp_path, workspace):
    flags = _enters()
    if flags is None or shutil.which("rsync") is None:
        pytest.skip("nobody may have a mount namespace here, or rsync is not there")
    made = Deployment(tmp_path / workspace)
    (tmp_path / "host2").mkdir()
    made.outside = tmp_path
    text = _SSH.replace("FOLDER", str(tmp_path)).replace("WORKSPACE", str(tmp_path / workspace))
    made.ssh = text.replace("MORE", " ".join(flags))
    made.tool("ssh", made.ssh.replace("SHARE", ""))
    yield made
    for _ in range(100):
        if not made_there(made):
            break
        time.sleep(0.1)
    assert not made_there(made), "processes are left"


def made_there(deployment: Deployment) -> list[str]:
    """The processes of a deployment's job on its other hosts."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "environ").read_text(errors="replace").split("\0") if process.name.isdigit() else []
            if f"HOME={deployment.environment['HOME']}" in words and "MODAK_HOST=host2" in words:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def on_host2(deployment: Deployment, path: str) -> Path:
    return deployment.outside / "host2" / "deployments/one" / path


def has_begun(deployment: Deployment, rank: int) -> bool:
    path = deployment.folder / f"ranks/{rank}/output.log"
    return path.exists() and "began" in path.read_text()


def wait_for(condition, seconds=30):
    for _ in range(seconds * 20):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def test_the_first_host_starts_the_others_and_has_all_that_they_write(deployment):
    (deployment.folder / "code/data.txt").write_text("brought")
    assert deployment.run(f"{TELL}; cat data.txt; echo to stderr >&2", HOSTS) == 0
    assert deployment.log() == "0/4 0/2 0 here [ddp] lo 127.0.0.1\nbrought"
    assert deployment.log(1) == "1/4 1/2 0 here [ddp] lo 127.0.0.1\nbrought"
    assert deployment.log(3) == "3/4 1/2 1 host2 [ddp] lo 127.0.0.1\nbrought"
    assert deployment.log(2, "error") == "to stderr\n"
    assert (deployment.folder / "ranks/3/metrics.json").read_text() == "{}\n"
    assert (deployment.folder / "state/finished").read_text() == "0\n"
    assert not on_host2(deployment, "").exists(), "nothing of the deployment stays there"


@pytest.mark.parametrize("workspace", ["of a user", "run[1]", "an a*"])
def test_a_workspace_may_have_any_name_and_rsync_any_age(deployment, workspace):
    """Until 3.2.4 the shell there splits a path at its spaces, and until today rsync reads patterns in it."""
    (deployment.outside / "host2" / "deployments/one/state").mkdir(parents=True)
    for near in ("run1", "an ab"):
        (deployment.outside / near / "deployments/one/ranks").mkdir(parents=True)
    deployment.environment["RSYNC_OLD_ARGS"] = "1"
    (deployment.folder / "code/data.txt").write_text("brought")
    assert deployment.run(f"{TELL}; cat data.txt", HOSTS) == 0, deployment.log(name="error")
    assert deployment.log(3) == "3/4 1/2 1 host2 [ddp] lo 127.0.0.1\nbrought"
    assert (deployment.folder / "ranks/3/metrics.json").read_text() == "{}\n"


def test_what_the_job_has_in_its_environment_ranks_elsewhere_have_too(deployment):
    deployment.environment |= {"FROM_A_MODULE": "two\nlines 'and' \"more\"", "SSH_AUTH_SOCK": "/nowhere"}
    assert deployment.run('echo "$FROM_A_MODULE [${SSH_AUTH_SOCK:-}]"', HOSTS) == 0
    assert deployment.log(2) == "two\nlines 'and' \"more\" []\n"


def test_hosts_that_share_their_files_are_brought_nothing(deployment):
    deployment.tool(
        "ssh",
        deployment.ssh.replace(
            "SHARE", 'exec env --default-signal=TERM -i "HOME=$HOME" "PATH=$PATH" MODAK_HOST="$1" sh -c "$2";'
        ),
    )
    assert deployment.run(TELL, HOSTS) == 0
    assert deployment.log(2).startswith("2/4 0/2 1 host2")
    assert (deployment.folder / "ranks/2/metrics.json").exists()
    assert not list((deployment.outside / "host2").iterdir())


def test_the_login_shell_of_a_host_may_be_csh(deployment):
    """It ends a quoted word at the end of the line."""
    refuses = "case $* in *$'\\n'*) echo \"Unmatched quote.\" >&2; exit 1 ;; esac\nhost=$1\n"
    deployment.tool("ssh", deployment.ssh.replace("SHARE", "").replace("host=$1\n", refuses))
    assert deployment.run(TELL, HOSTS) == 0, deployment.log(name="error")
    assert not on_host2(deployment, "").exists()


def test_a_host_that_cannot_be_entered_is_named_with_its_address(deployment):
    shutil.rmtree(deployment.outside / "host2")
    begun = time.monotonic()
    assert deployment.run("echo began", HOSTS) == 68
    assert "the host host2 (alice@127.0.0.2:22) cannot be entered" in deployment.log(name="error")
    assert "Connection refused" in deployment.log(name="error")
    assert deployment.log() == ""
    assert time.monotonic() - begun < 15


def test_a_deployment_of_that_hosts_own_is_left_alone(deployment):
    on_host2(deployment, "state").mkdir(parents=True)
    on_host2(deployment, "state/claim").write_text("77")
    assert deployment.run("echo began", HOSTS) == 73
    assert "it has a deployment of its own" in deployment.log(name="error")
    assert on_host2(deployment, "state/claim").read_text() == "77"


def test_the_first_that_failed_counts_wherever_it_was(deployment):
    shell = 'if [ "$RANK" = 3 ]; then sleep 0.5; echo broken >&2; exit 7; fi; exec sleep 50'
    begun = time.monotonic()
    assert deployment.run(shell, HOSTS) == 7
    assert deployment.failed == (3, 7)
    assert failed_rank(deployment.folder / "state").node == "host2"
    assert deployment.log(3, "error") == "broken\n"
    assert time.monotonic() - begun < 25


def test_one_of_the_first_host_that_fails_ends_those_of_the_others(deployment):
    assert deployment.run('if [ "$RANK" = 1 ]; then sleep 1; exit 5; fi; exec sleep 50', HOSTS) == 5
    assert deployment.failed == (1, 5)


def test_one_that_ends_for_the_sake_of_another_says_so_from_there(deployment):
    lost = 'echo "1 68 first silent" > "${MODAK_APPLIED%/*}/lost"'
    assert deployment.run(f'if [ "$RANK" = 2 ]; then {lost}; exit 68; fi; exec sleep 50', HOSTS) == 68
    assert deployment.failed == (1, 68)


def test_a_job_that_is_cancelled_leaves_nothing_anywhere(deployment):
    deployment.write("echo began; (exec sleep 50) & wait", HOSTS)
    process = deployment.start()
    wait_for(lambda: has_begun(deployment, 3))
    process.terminate()
    assert process.wait(40) == 143
    wait_for(lambda: not made_there(deployment), 5)
    assert deployment.failed is None


def test_what_runs_elsewhere_ends_when_all_of_the_first_host_is_killed(deployment):
    deployment.write("echo began; exec sleep 100", HOSTS)
    process = subprocess.Popen(["setsid", "bash", "job.sh"], cwd=deployment.folder, env=deployment.environment)
    wait_for(lambda: has_begun(deployment, 3))
    for each in _children(process.pid):
        with suppress(ProcessLookupError):  # it has ended since, for its parent was killed
            os.kill(each, signal.SIGKILL)
    process.wait(5)
    wait_for(lambda: not made_there(deployment), 40)


def _children(pid: int) -> list[int]:
    """A process and all that it started on its own host."""
    found = [pid]
    for parent in found:
        listed = subprocess.run(
            ["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False
        ).stdout.split()
        for each in map(int, listed):
            with suppress(OSError):  # it has ended since
                name = Path(f"/proc/{each}/cmdline").read_text().replace("\0", " ")
                if not name.startswith("unshare") and " enter " not in name:
                    found.append(each)
    return found


def test_who_looks_finds_the_processes_of_each_host(deployment):
    deployment.write("echo began; exec sleep 100", HOSTS)
    process = deployment.start()
    wait_for(lambda: has_begun(deployment, 3))
    job_id, hosts = (deployment.folder / "state/started").read_text().split()[1:]
    assert hosts.split(",")[1:] == ["host2"]
    job = JobRecord(job_id, JobState.RUNNING, nodes=hosts)
    look = [sys.executable, "-c", inspect.getsource(usage), "0.1", *Direct().marks(job_id)]
    here, there = Direct().enter(None, job, 2, look)
    told = [json.loads(subprocess.check_output(words)) for words in (here, ["sh", "-c", there[-1]])]
    assert [each["rank"] for each in told[0]["ranks"][:2]] == [0, 1]  # and what the emulated ssh has started here
    assert [each["rank"] for each in told[1]["ranks"]] == [2, 3]
    assert told[1]["node"] == "host2"
    process.terminate()
    assert process.wait(40) == 143


def test_a_line_that_breaks_ends_all_and_names_the_host(deployment):
    deployment.write("echo began; exec sleep 100", HOSTS)
    process = deployment.start()
    wait_for(lambda: has_begun(deployment, 2) and has_begun(deployment, 3))
    lines = (deployment.outside / "entered").read_text().splitlines()
    number = next(line.split()[0] for line in lines if line.endswith("rank.sh' 3"))
    os.kill(int(number), signal.SIGKILL)
    assert process.wait(60) in (68, 137)
    assert deployment.failed[0] == 3
