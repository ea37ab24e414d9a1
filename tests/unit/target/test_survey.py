"""The whole survey, of this machine, and of one with a scheduler that is only a few scripts."""

from __future__ import annotations

import json
import os

import pytest

from modak_ansible.target.core.commands import TimedRun
from modak_ansible.target.core.site import Site
from modak_ansible.target.survey import containers as survey_containers
from modak_ansible.target.survey import shell as survey_shell
from modak_ansible.target.survey import survey as survey_module
from modak_ansible.target.survey.containers import container_facts
from modak_ansible.target.survey.shell import shell_facts
from modak_ansible.target.survey.survey import survey

pytestmark = pytest.mark.component

WANTED = {
    "workspace": "modak", "scheduler": "", "container_runtime": "any", "modules": [], "folders": [], "site": {}, "node": False,
    "directives": "",
    "partition": "", "account": "", "patience": 5, "hosts": [],
}  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(survey_module, "read_site", lambda given: Site())  # apt takes its time
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def programs(folder, monkeypatch, **scripts: str):
    """Programs on PATH before all others."""
    folder.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_this_machine(home, monkeypatch, tmp_path):
    found = survey({**WANTED, "scheduler": "none", "folders": ["/tmp", "$NOSUCH/x", "~/y"]})
    json.dumps(found)
    assert (found["scheduler"], found["missing"], found["cluster"], found["node"]) == ("none", [], None, None)
    assert set(found["folders"]) == {"home", "workspace", "build", "/tmp", "~/y"}
    assert not (home / "modak").exists(), "it is looked at, not made"


def test_a_scheduler_that_is_found(home, monkeypatch, tmp_path):
    scripts = {"sbatch": "exit 1", "squeue": "exit 1", "scancel": "exit 1", "sacctmgr": "exit 1"}
    scontrol = """case "$*" in
*partition*) echo PartitionName=batch Default=YES MaxTime=01:00:00 State=UP Nodes=n1;;
*node*) echo NodeName=n1 CPUTot=8 RealMemory=1000 State=IDLE Partitions=batch;;
*) echo "SLURM_VERSION = 22.05";;
esac"""
    programs(tmp_path / "bin", monkeypatch, scontrol=scontrol, **scripts)
    found = survey(WANTED)
    assert (found["schedulers"], found["scheduler"]) == (["slurm"], "slurm")
    (partition,) = found["cluster"]["partitions"]
    assert (partition["name"], partition["walltime"], partition["kinds"][0]["cores"]) == ("batch", 3600, 8)


@pytest.mark.parametrize(("says", "name"), [("pbs_version = 20.0.1", "pbspro"), ("Version: 6.1.3", "torque")])
def test_schedulers_whose_commands_have_the_same_names_are_told_apart(home, monkeypatch, tmp_path, says, name):
    qstat = f'[ "$1" = --version ] && echo "{says}" || exit 2'
    programs(tmp_path / "bin", monkeypatch, qstat=qstat, qsub="exit 1", qdel="exit 1", pbsnodes="exit 1", qmgr="exit 1")
    found = survey(WANTED)
    assert (found["schedulers"], found["scheduler"], found["cluster"]["scheduler"]) == ([name], name, name)


def test_grid_engine_is_not_taken_for_torque(home, monkeypatch, tmp_path):
    """Its qstat knows no --version."""
    qstat = 'echo "usage: qstat [options]" >&2; exit 1'
    programs(tmp_path / "bin", monkeypatch, qstat=qstat, qsub="exit 1", qdel="exit 1", qconf="exit 1")
    found = survey(WANTED)
    assert (found["schedulers"], found["scheduler"], found["others"]) == ([], "none", ["Grid Engine"])


@pytest.mark.parametrize(
    ("says", "wanted", "others"),
    [
        ("pbs_version = 20.0.1", "torque", "PBS Professional"), ("Version: 6.1.3", "pbspro", "Torque"),
        ("", "pbspro", ""), ("", "torque", ""), ("Version: 6.1.3", "torque", ""),
    ],
)  # fmt: skip
def test_whose_commands_they_are_is_told_where_they_say_it(home, monkeypatch, tmp_path, says, wanted, others):
    qstat = f'[ "$1" = --version ] && [ "{says}" ] && echo "{says}" || exit 2'
    programs(tmp_path / "bin", monkeypatch, qstat=qstat, qsub="exit 1", qdel="exit 1", pbsnodes="exit 1", qmgr="exit 1")
    assert survey({**WANTED, "scheduler": wanted})["another"] == others


def test_what_is_left_of_grid_engine_elsewhere_hides_no_torque(home, monkeypatch, tmp_path):
    scripts = {"qsub": "exit 1", "qdel": "exit 1", "pbsnodes": "exit 1", "qmgr": "exit 1"}
    programs(tmp_path / "sge", monkeypatch, qconf="exit 1")
    programs(tmp_path / "bin", monkeypatch, qstat='[ "$1" = --version ] && echo "Version: 6.1.3" || exit 2', **scripts)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp_path / 'sge'}")
    assert survey(WANTED)["schedulers"] == ["torque"]


def test_lsf_is_found_by_its_commands(home, monkeypatch, tmp_path):
    queue = "printf 'QUEUE: normal\\nUSERS: all\\nHOSTS:  all\\n'"
    programs(tmp_path / "bin", monkeypatch, bsub="exit 1", bjobs="exit 1", bkill="exit 1", bqueues=queue)
    found = survey(WANTED)
    assert (found["schedulers"], found["scheduler"], found["cluster"]["scheduler"]) == (["lsf"], "lsf", "lsf")
    assert [each["name"] for each in found["cluster"]["partitions"]] == ["normal"]


def test_a_scheduler_that_is_not_there(home, tmp_path, monkeypatch):
    programs(tmp_path / "bin", monkeypatch)
    found = survey({**WANTED, "scheduler": "torque"})
    assert (found["scheduler"], found["missing"], found["cluster"]) == ("torque", ["qsub", "qstat", "qdel"], None)


MODULES = """\
module() {
  case "$1" in
    load) [ "$2" = good/1 ];;
    *) echo "apptainer/1.3.1(default)" >&2; echo "gcc/12" >&2;;
  esac
}
export LMOD_VERSION=8.7.32 SCRATCH=/scratch/alice
echo "Welcome, it is a fine day"
"""


def test_environment_modules(home):
    (home / ".bash_profile").write_text(MODULES)
    found = shell_facts(["good/1", "bad/2; touch x"])
    assert found["modules"] == "Lmod 8.7.32"
    assert found["loads"] == ["good/1"]
    assert found["offers"] == ["apptainer/1.3.1"]
    assert found["variables"]["SCRATCH"] == "/scratch/alice"
    assert found["problem"] == ""


@pytest.mark.parametrize(
    ("listed", "offers"),
    [
        ("/opt/apptainer/modulefiles: apptainer/ apptainer/1.3", ["apptainer/1.3"]), ("tacc-apptainer/1.3.3", ["tacc-apptainer/1.3.3"]),
        ("/opt/modulefiles: singularity(default) gcc/12", ["singularity"]), ("gcc/12", []),
        ("apptainer/1.3<L>", ["apptainer/1.3"]), ("apptainer/1.3(default)<aL:S>", ["apptainer/1.3"]),
    ],
)  # fmt: skip
def test_a_container_runtime_among_the_modules(home, listed, offers):
    """Beside them are their folders, and with Lmod names that have versions."""
    lines = "; ".join(f"echo '{word}' >&2" for word in listed.split())
    (home / ".bash_profile").write_text(f'module() {{ [ "$1" = load ] || {{ {lines}; }}; }}\n')
    assert shell_facts([])["offers"] == offers


def test_a_shell_without_modules(home):
    found = shell_facts(["good/1"])
    assert (found["modules"], found["loads"], found["offers"]) == ("", [], [])


def test_a_shell_that_never_ends(home, monkeypatch):
    (home / ".bash_profile").write_text("sleep 60\n")
    monkeypatch.setattr(survey_shell, "TimedRun", lambda timeout: TimedRun(timeout=0.5))
    assert "did not answer" in shell_facts([])["problem"]


def test_a_runtime_and_its_starter(home, tmp_path, monkeypatch):
    starter = tmp_path / "libexec" / "apptainer" / "bin" / "starter-suid"
    starter.parent.mkdir(parents=True)
    starter.write_text("")
    script = f'case "$1" in --version) echo apptainer version 1.3.1;; *) echo {tmp_path}/libexec;; esac'
    programs(tmp_path / "bin", monkeypatch, apptainer=script)
    found = container_facts("any")
    assert (found["runtime"], found["version"]) == (str(tmp_path / "bin" / "apptainer"), "apptainer version 1.3.1")
    assert not found["suid"]
    starter.chmod(0o4755)
    assert container_facts("any")["suid"]
    (tmp_path / "bin" / "singularity").symlink_to("apptainer")
    assert container_facts("singularity")["suid"], "it is a link to the other, as distributions have it"


def test_a_key_that_is_not_there(home, tmp_path, monkeypatch):
    programs(tmp_path / "bin", monkeypatch, apptainer="echo 1.3")
    found = container_facts("any", str(tmp_path / "key"))
    assert found["signing"] == f"the key {tmp_path}/key is not on the target"
    assert found["signing_hint"].startswith("openssl genpkey")
    assert container_facts("any")["signing"] == ""


def test_namespaces_that_the_kernel_refuses(home, tmp_path, monkeypatch):
    programs(tmp_path / "bin", monkeypatch, unshare="echo unshare: Operation not permitted >&2; exit 1")
    monkeypatch.setattr(survey_containers, "read_text", lambda path: "0" if "max_user" in str(path) else "")
    assert container_facts("any")["namespaces"] == "/proc/sys/user/max_user_namespaces is 0"
    monkeypatch.setattr(survey_containers, "read_text", lambda path: "")
    assert container_facts("any")["namespaces"] == "unshare: Operation not permitted"
