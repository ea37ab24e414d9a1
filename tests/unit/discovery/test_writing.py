"""What is written is read again: as YAML, by the shipped blueprints, and as a target; whatever a cluster calls things."""

from __future__ import annotations

import dataclasses
import re

import pytest
import yaml
from example_blueprint import ROOT
from hypothesis import given
from hypothesis import strategies as st
from surveyed import BATCH, CLUSTER, NODE, bare, surveyed

from modak_ansible.discovery.description import Value, describe
from modak_ansible.discovery.limits import partition_from
from modak_ansible.discovery.writing import inputs_text, template_text
from modak_ansible.planning.service import check_blueprint, request_of
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_blueprint, read_targets
from modak_ansible.schedulers.cluster import NodeKind, PartitionFacts
from modak_ansible.store.project import find_blueprint

DATE = "2026-11-21 12:00"
ALIKE = dataclasses.replace(CLUSTER, partitions=(BATCH,))
PEAKS = {
    "peak_gflops": Value(812.5, "measured"), "peak_gflops_bf16": Value(1650.0, "measured"),
    "memory_bandwidth": Value(95.1, "measured"),
    "network_latency": Value(271.0, "measured"), "network_bandwidth": Value(0.118, "measured"),
    "home": Value("~", "measured"), "home_read_bandwidth": Value(800.0, "measured"),
    "home_write_bandwidth": Value(500.0, "measured"), "home_file_rate": Value(250.0, "measured"),
    "home_warm_file_rate": Value(410.0, "measured"), "scratch_file_rate": Value(8800.0, "measured"),
}  # fmt: skip


def described(cluster=ALIKE, aim=None, peaks=None, **changes):
    return describe(aim or bare(), surveyed(cluster, **{"node": NODE, **changes}), peaks)


@pytest.mark.parametrize(
    ("scheduler", "blueprint"), [("slurm", "mnist-pytorch-slurm"), ("torque", "mnist-pytorch-torque")]
)
def test_inputs_that_a_shipped_blueprint_takes(tmp_path, scheduler, blueprint):
    found = described(dataclasses.replace(ALIKE, scheduler=scheduler), scheduler=scheduler)
    path = tmp_path / "site.yaml"
    path.write_text(inputs_text(found, DATE))
    mistakes = Mistakes()
    assert check_blueprint(find_blueprint(blueprint), Inputs(path), mistakes)
    assert [str(mistake) for mistake in mistakes] == []
    target = request_of(find_blueprint(blueprint), Inputs(path)).target
    assert (target.address, target.username) == ("login.example", "alice")
    assert target.partitions == tuple(partition for partition, _ in found.partitions)
    assert (target.scratch.path, target.processor.model) == ("$TMPDIR", NODE["cpuinfo"]["model name"])
    assert target.processor.architecture == "skylake_avx512"


def read_back(tmp_path, text):
    (tmp_path / "target.yaml").write_text(text)
    if not (tmp_path / "types").exists():
        (tmp_path / "types").symlink_to(ROOT / "tosca" / "types")
    mistakes = Mistakes()
    targets = read_targets(tmp_path / "target.yaml", Inputs(), mistakes)
    assert [str(mistake) for mistake in mistakes] == []
    return targets["cluster"]


def test_a_node_of_tosca(tmp_path):
    target = read_back(tmp_path, template_text(described(CLUSTER, peaks=PEAKS), DATE))
    assert (target.scheduler.value, target.address, target.username) == ("slurm", "login.example", "alice")
    assert target.partitions == tuple(map(partition_from, CLUSTER.partitions))
    assert (target.processor.peak_gflops, target.processor.memory_bandwidth) == (812.5, 95.1)
    assert target.processor.peak_gflops_bf16 == 1650.0
    assert (target.network.latency, target.network.bandwidth) == (271.0, 0.118)
    assert (target.accelerator.vendor, target.accelerator.model, target.accelerator.count) == ("nvidia", "a100", 4)
    assert (target.scratch.path, target.scratch.sharing) == ("$TMPDIR", "node-local")
    assert (target.home.path, target.home.read_bandwidth, target.home.write_bandwidth) == ("~", 800.0, 500.0)
    assert (target.home.file_rate, target.home.warm_file_rate, target.scratch.file_rate) == (250.0, 410.0, 8800.0)


@pytest.mark.parametrize("cluster", [CLUSTER, dataclasses.replace(CLUSTER, scheduler="torque"), None])
@pytest.mark.parametrize("text", ["local", "host.example"])
def test_what_is_written_describes_the_target_of_any_blueprint(blueprint, tmp_path, cluster, text):
    found = described(cluster, bare(text), peaks=PEAKS, scheduler=cluster.scheduler if cluster else "none")
    path = tmp_path / "site.yaml"
    path.write_text(inputs_text(found, DATE))
    mistakes = Mistakes()
    target = read_blueprint(blueprint.service, Inputs(path), mistakes).targets["cluster"]
    assert [str(mistake) for mistake in mistakes] == []
    meant = read_back(tmp_path, template_text(found, DATE))
    for name in ("scheduler", "local", "address", "container_runtime", "image_base", "accelerator", "home", "scratch"):
        assert getattr(target, name) == getattr(meant, name), name
    assert target.partitions == meant.partitions
    assert target.processor.architecture == meant.processor.architecture
    assert (target.processor.peak_gflops, target.processor.memory_bandwidth) == (812.5, 95.1)
    assert target.processor.peak_gflops_bf16 == 1650.0
    assert (target.network.latency, target.network.bandwidth) == (271.0, 0.118)


@pytest.mark.parametrize("text", ["local", "host.example"])
def test_a_plain_host(tmp_path, text):
    target = read_back(tmp_path, template_text(described(None, bare(text)), DATE))
    assert (target.scheduler.value, target.local) == ("none", text == "local")
    assert (target.processor.cores, target.processor.memory) == (8, 64 * 2**30)


def test_a_front_end_on_which_modak_itself_runs_submits_jobs(tmp_path):
    """As this machine it would train on the front end, with what a partition allows."""
    target = read_back(tmp_path, template_text(described(ALIKE, bare("local")), DATE))
    assert (target.scheduler.value, target.local, target.address) == ("slurm", False, "localhost")


def test_every_value_says_where_it_comes_from():
    for text in (inputs_text(described(), DATE), template_text(described(CLUSTER), DATE)):
        for line in text.splitlines():
            key, _, value = line.strip().partition(":")
            if (
                value.strip()
                and not key.startswith("#")
                and key not in ("tosca_definitions_version", "- { name", "type")
            ):
                assert "# " in line, line


def test_a_comment_stands_apart_from_what_is_long():
    """A space goes before it in YAML, which not every reader insists on."""
    long = {**NODE, "cpuinfo": {**NODE["cpuinfo"], "model name": "Intel(R) Xeon(R) Processor family 6 model 207"}}
    lines = inputs_text(described(node=long), DATE).splitlines()
    assert any("model 207" in line for line in lines)
    assert not [line for line in lines if re.search(r"\S#", line)]


def test_all_that_is_said_of_a_partition_is_written():
    """What a job has of memory that asks for none came last, and was cut off."""
    note = "; ".join(f"word {number} of the administrators" for number in range(9))
    lines = inputs_text(
        described(dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(BATCH, note=note),))), DATE
    ).splitlines()
    words = " ".join(line.strip(" #") for line in lines if line.startswith("  # "))
    assert note in words
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize("write", [inputs_text, template_text])
def test_what_is_not_known_is_a_comment_and_said_once(write):
    found = described(dataclasses.replace(CLUSTER, unknown=("sacctmgr: timed out",)), node=None)
    text = write(found, DATE)
    assert len(re.findall(r"(?m)^ *# (?:processor )?architecture: not known: no node was asked", text)) == 1
    assert len(re.findall(r"architecture: ", text)) == 1
    assert len(re.findall(r"scratch(?: path)?: ", text)) == 1
    assert "\n# not known: sacctmgr: timed out" in text
    assert found.unknown[1].startswith("architecture: no node was asked")


_TEXTS = st.text(max_size=20)
_COUNTS = st.none() | st.integers(1, 10**9)
_KINDS = st.builds(
    NodeKind, count=st.integers(1, 999), cores=_COUNTS, memory=st.none() | st.integers(1, 10**15),
    accelerators=st.lists(st.tuples(_TEXTS, st.integers(1, 16)), max_size=2).map(tuple),
)  # fmt: skip
_PARTITIONS = st.builds(
    PartitionFacts, name=_TEXTS | st.sampled_from(["yes", "null", "1", "0x1", "1e3", "on", "a", "~", "12:30", "2026-01-01"]),
    default=st.booleans(), closed=st.just("") | _TEXTS, nodes=_COUNTS, cores=_COUNTS, walltime=st.none() | st.integers(1, 10**12),
    walltime_said=_TEXTS, note=_TEXTS, kinds=st.lists(_KINDS, max_size=2).map(tuple),
)  # fmt: skip


@given(
    st.lists(_PARTITIONS, max_size=3, unique_by=lambda each: each.name), _TEXTS, _TEXTS, st.lists(_TEXTS, max_size=2)
)
def test_whatever_a_cluster_calls_things(partitions, name, model, unknown):
    cluster = dataclasses.replace(
        CLUSTER, name=name, partitions=tuple(partitions), accounts=(name,), default_account="", unknown=tuple(unknown)
    )
    node = {**NODE, "cpuinfo": {**NODE["cpuinfo"], "model name": model}}
    found = described(cluster, node=node)
    good = [partition for partition in partitions if not partition.closed and not rules.name_problem(partition.name)]
    values = yaml.safe_load(inputs_text(found, DATE))
    assert {partition["name"] for partition in values.get("partitions", [])} == {each.name for each in good}
    assert values.get("processor", model or None) == (model or None)
    assert values.get("account") == (None if rules.account_problem(name) else name)
    cluster_node = yaml.safe_load(template_text(found, DATE))["topology_template"]["node_templates"]["cluster"]
    assert cluster_node["properties"].get("partitions", []) == values.get("partitions", [])


def test_names_that_yaml_would_take_for_something_else(tmp_path):
    names = ("yes", "null", "1", "0x1", "1e3", "on", "2026-01-01", "a.b-c_d")
    cluster = dataclasses.replace(CLUSTER, partitions=tuple(dataclasses.replace(BATCH, name=name) for name in names))
    assert (
        tuple(partition.name for partition in read_back(tmp_path, template_text(described(cluster), DATE)).partitions)
        == names
    )
