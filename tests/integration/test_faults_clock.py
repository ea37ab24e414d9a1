"""The clocks of front end and nodes, of the file system and of this machine differ by an hour.

What runs on the front end (modak's modules, rsync, Slurm's commands) runs under Debian's libfaketime, which gives it
another time, and the dates of files as they are; so the nodes, their files, and this machine are of another time than
the front end.
"""

from __future__ import annotations

import time

import pytest
from daemons import comes_to, end_of
from faults import finishes
from test_faults_cluster import SHORT, status

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]
_INSTALL = (
    "dpkg -s libfaketime > /dev/null 2>&1 || (apt-get update -q && apt-get install -q -y libfaketime) > /dev/null 2>&1"
)
# Sessions of sshd have it; a job's tasks do without.
_SET = (
    "library=$(dpkg -L libfaketime | grep /libfaketime.so.1); cp /etc/ssh/sshd_config /etc/ssh/sshd_config.right; "
    "cp /usr/local/libexec/testbed/task-prolog /run/task-prolog.right; "
    'sed -i "s|^SetEnv |SetEnv LD_PRELOAD=$library FAKETIME={shift} NO_FAKE_STAT=1 DONT_FAKE_MONOTONIC=1 |" '
    "/etc/ssh/sshd_config; echo 'echo unset LD_PRELOAD' >> /usr/local/libexec/testbed/task-prolog; "
    "kill -HUP $(</run/testbed/sshd.pid)"
)
_RESET = (
    "mv /etc/ssh/sshd_config.right /etc/ssh/sshd_config; kill -HUP $(</run/testbed/sshd.pid); "
    "cp /run/task-prolog.right /usr/local/libexec/testbed/task-prolog"
)


@pytest.fixture(params=[3600, -3600], ids=["ahead", "behind"])
def skewed(project, request):
    """A project whose front end has another time."""
    testbed = project.testbed
    try:
        testbed.root(_INSTALL)
    except AssertionError:
        pytest.skip("libfaketime cannot be installed in the testbed")
    testbed.root(_SET.format(shift=f"{request.param:+d}"))
    try:
        time.sleep(1)
        yield project
    finally:
        project.undeploy()
        testbed.root(_RESET)


def test_the_front_ends_clock_is_wrong_by_an_hour(skewed):
    there = float(skewed.testbed.ssh("date +%s"))
    assert abs(abs(there - time.time()) - 3600) < 60
    process = skewed.script(SHORT.format(seconds=10)).start()
    said = comes_to(process, "epoch 1")
    row = status(skewed)
    assert row["state"] == "RUNNING"
    assert row["elapsed_seconds"] < 600, row
    said += end_of(process)
    assert process.returncode == 0, said
    finishes(skewed)


def test_a_job_without_a_last_word_is_missed_for_as_long_as_ever(skewed):
    """The scheduler says success and its own marker does not come, as where a node dies: that is waited for 15 s."""
    process = skewed.script("import os\nprint('epoch 1', flush=True)\nos.unlink('../state/claim')\n").start()
    comes_to(process, "waiting for the job's own marker")
    began = time.monotonic()
    said = end_of(process)
    assert process.returncode == 5, said
    assert "ended as LOST" in said
    assert 10 < time.monotonic() - began < 60
