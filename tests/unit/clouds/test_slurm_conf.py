"""The one template of slurm.conf, as the role of a cluster of a cloud's machines has it."""

from __future__ import annotations

from pathlib import Path

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from golden import assert_golden

ROLE = Path(__file__).parents[3] / "roles" / "cluster"
FACTS = "NodeName=ip CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory={memory}"


def host(number, *, unified):
    return {
        "ansible_facts": {"hostname": f"ip-10-0-0-{number}", "default_ipv4": {"address": f"10.0.0.{number}"}},
        "cluster_processor": {"stdout_lines": [FACTS.format(memory=15000 + number), "UpTime=0-00:01:00"]},
        "cluster_unified": {"stat": {"exists": unified}},
    }


def rendered(*, unified=(True, True)):
    """The file for so many hosts, each with unified control groups or without."""
    known = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    known |= yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
    known["hostvars"] = {f"host_{number}": host(number, unified=each) for number, each in enumerate(unified, 1)}
    known["cluster_hosts"], known["inventory_hostname"] = [*known["hostvars"]], "host_1"
    text = (ROLE / "templates" / "slurm.conf.j2").read_text()
    return Templar(DataLoader(), variables=trusted(known)).template(trusted(text))


def trusted(value):
    if isinstance(value, dict):
        return {name: trusted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [trusted(each) for each in value]
    return trust_as_template(value) if isinstance(value, str) else value


def test_it_follows_from_the_facts_of_the_hosts():
    assert_golden("cloud/slurm.conf", rendered())


def test_jobs_are_limited_by_control_groups_where_all_hosts_have_them():
    assert "ProctrackType=proctrack/cgroup\n" in rendered()
    mixed = rendered(unified=(True, False))
    assert "ProctrackType=proctrack/linuxproc\n" in mixed
    assert "OverMemoryKill" in mixed
