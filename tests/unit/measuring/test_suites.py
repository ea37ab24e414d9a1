"""Suites are read, and every mistake in them is told with its place."""

from __future__ import annotations

import pytest
import yaml
from example_suite import GROUP
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.measuring.suites.reader import find_suite, load_inventory, read_suite
from modak_ansible.measuring.suites.variants import blocks_of

HEAD = "name: example\ntitle: An example\ngroups:\n"
MIXED = """\
name: mixed
title: Frameworks, switches and targets
targets: { one: mnist-pytorch-slurm, two: mnist-tensorflow-slurm }
walltime: "00:10:00"
rounds: 3
arguments: { epochs: 2, check-gradients: true }
groups:
  - name: frameworks
    title: Frameworks
    workload: mnist_cnn
    arguments: { epochs: 5 }
    rounds: 1
    matrix:
      - entries: [ pytorch-2.13-cpu, tensorflow-2.21-cpu ]
        settings: [ {}, { container: native, threads: 2 } ]
      - { entries: [ pytorch-2.13-cpu ], settings: [ { memory_format: channels_last, allocator: tcmalloc } ] }
  - name: network
    title: Between nodes
    workload: network
    nodes: 2
    targets: [ two ]
    matrix: [ { entries: [ pytorch-2.13-cpu ] } ]
"""


def mistakes_of(path, known) -> list[str]:
    with pytest.raises(InvalidBlueprint) as caught:
        read_suite(path, known)
    return [str(mistake).replace(str(path), "suite") for mistake in caught.value.mistakes]


def test_variants_are_entries_times_settings_on_each_target(suite_file, known):
    suite = read_suite(suite_file(MIXED), known)
    frameworks, network = blocks_of(suite, known)
    assert [variant.name for variant in frameworks.variants][:5] == [
        "pytorch-2.13-cpu on one",
        "pytorch-2.13-cpu container=native threads=2 on one",
        "tensorflow-2.21-cpu on one",
        "tensorflow-2.21-cpu container=native threads=2 on one",
        "pytorch-2.13-cpu memory_format=channels_last allocator=tcmalloc on one",
    ]
    assert len(frameworks.variants) == 10
    assert [variant.name for variant in network.variants] == ["pytorch-2.13-cpu"]
    assert (frameworks.rounds, network.rounds, suite.walltime) == (1, 3, 600)


def test_arguments_of_the_suite_are_for_trainings(suite_file, known):
    frameworks, network = blocks_of(read_suite(suite_file(MIXED), known), known)
    assert frameworks.variants[0].arguments == {"epochs": "5", "check-gradients": "true"}
    assert network.variants[0].arguments == {}
    assert (network.variants[0].nodes, network.variants[0].script) == (2, "network.py")


def test_groups_and_rounds_can_be_chosen(suite_file, known):
    suite = read_suite(suite_file(MIXED), known)
    assert [(block.group, block.rounds) for block in blocks_of(suite, known, ["network"], 7)] == [("network", 7)]
    with pytest.raises(UsageError, match="has no group netwrk") as caught:
        blocks_of(suite, known, ["netwrk"])
    assert caught.value.hint == "did you mean network?"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title: An", "titel: An", "suite:2:1: unknown-key: the suite has no titel (did you mean title?)"),
        ("title: An example\n", "", "suite:1:1: missing-key: the suite needs title"),
        ("name: example", "name: -x", "suite:1:7: unsafe-value: -x cannot be a name"),
        ("groups:\n", "rounds: 0\ngroups:\n", "suite:3:9: wrong-type: rounds must be a whole number, 1 or more"),
        ("groups:\n", "rounds: yes\ngroups:\n", "suite:3:9: wrong-type: rounds must be"),
        ("groups:\n", "walltime: 20\ngroups:\n", "suite:3:11: walltime: "),
        ("groups:\n", "targets: { a: nowhere }\ngroups:\n", "suite:3:15: file-not-found: there is no blueprint nowhere"),
        ("groups:\n", "targets: {}\ngroups:\n", "suite:3:10: wrong-type: targets must name a blueprint"),
        ("groups:\n", "arguments: { a b: 1 }\ngroups:\n", "suite:3:14: unsafe-value: "),
        ("groups:\n", "arguments: { epochs: [ 1 ] }\ngroups:\n", "suite:3:22: wrong-type: the argument epochs must be"),
        ("groups:\n", "arguments: { x: yes }\ngroups:\n", "suite:3:17: wrong-type: the argument x: yes is read as True"),
        ("mnist_cnn", "mnist_cn", "suite:6:15: unknown-workload: there is no workload mnist_cn (did you mean mnist_cnn?)"),
        ("pytorch-2.13-cpu", "pytorch-2.13", "suite:8:20: unknown-entry: the catalogue has no entry pytorch-2.13"),
        ("memory_format:", "memory_fomat:", "suite:9:27: unknown-switch: pytorch.py has no switch memory_fomat"),
        ("{ memory_format: channels_last }", "{ alocator: tcmalloc }", "suite:9:27: unknown-switch: pytorch.py has no "
         "switch alocator (valid: memory_format, container, "),
        ("channels_last", "nhwc", "suite:9:42: unknown-switch: memory_format of pytorch.py cannot be nhwc"),
        ("{ memory_format: channels_last }", "{ allocator: mimalloc }", "suite:9:38: unknown-switch: allocator cannot be"),
        ("{ memory_format: channels_last }", "{ threads: some }", "suite:9:36: unknown-switch: threads cannot be some"),
        ("{ memory_format: channels_last }", "{}", "suite:9:25: duplicate-name: the variant pytorch-2.13-cpu is defined twice"),
        ("[ {}, { memory_format: channels_last } ]", "[]", "suite:9:19: wrong-type: settings must be a list that is not empty"),
        ("[ pytorch-2.13-cpu ]", "[]", "suite:8:18: wrong-type: entries must be a list that is not empty"),
        ("[ pytorch-2.13-cpu ]", "pytorch-2.13-cpu", "suite:8:18: wrong-type: entries must be a list"),
        ("workload: mnist_cnn", "workload: network", "suite:4:5: nodes: network needs 2 nodes (nodes: 2)"),
        ("workload: mnist_cnn", "workload: mnist_cnn\n    targets: [ x ]", "suite:7:16: unknown-target: the suite has no"),
        ("title: Two settings", "title: [ 1 ]", "suite:5:12: wrong-type: title must be a single value"),
    ],
)  # fmt: skip
def test_mistakes_have_their_place(suite_file, known, old, new, expected):
    text = (HEAD + GROUP).replace(old, new, 1)
    assert any(mistake.startswith(expected) for mistake in mistakes_of(suite_file(text), known)), expected


def test_a_group_is_there_once(suite_file, known):
    expected = "suite:10:11: duplicate-name: the group pytorch is defined twice, first in line 4"
    assert expected in mistakes_of(suite_file(HEAD + GROUP + GROUP), known)


def test_an_empty_matrix_is_a_mistake(suite_file, known):
    text = HEAD + GROUP[: GROUP.index("    matrix")] + "    matrix: []\n"
    assert mistakes_of(suite_file(text), known) == ["suite:7:13: wrong-type: matrix must be a list that is not empty"]


def test_a_framework_without_a_script_is_a_mistake(suite_file, known):
    text = (HEAD + GROUP).replace("pytorch-2.13-cpu", "tensorflow-2.21-cpu")
    assert any(
        "tensorflow_keras.py has no switch memory_format" in mistake for mistake in mistakes_of(suite_file(text), known)
    )


def test_all_mistakes_are_told_at_once(suite_file, known):
    text = (HEAD + GROUP).replace("title: An", "titel: An").replace("mnist_cnn", "mnist").replace("2.13", "2.99")
    rules = [mistake.split(": ")[1] for mistake in mistakes_of(suite_file(text), known)]
    assert rules == ["missing-key", "unknown-key", "unknown-workload", "unknown-entry"]


SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["mnist_cnn", "pytorch-2.13-cpu"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["name", "title", "groups", "matrix", "entries", "settings", "workload", "targets", "arguments", "rounds",
             "walltime", "nodes", "allocator", "x"]
        ),
        inner, max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scrap=SCRAPS)
def test_whatever_stands_in_a_suite_ends_in_mistakes_with_places(tmp_path_factory, known, scrap):
    path = tmp_path_factory.mktemp("scraps") / "suite.yaml"
    path.write_text(yaml.safe_dump(scrap))
    with pytest.raises(InvalidBlueprint) as caught:
        read_suite(path, known)
    assert all(mistake.location.path == str(path) for mistake in caught.value.mistakes)


def test_a_suite_is_found_by_its_name_or_its_path(suite_file):
    path = suite_file()
    assert find_suite(str(path)) == path
    assert find_suite("smoke").name == "smoke.yaml"
    with pytest.raises(UsageError, match="there is no suite smok") as caught:
        find_suite("smok")
    assert caught.value.hint == "did you mean smoke?"


def test_the_digest_is_of_the_text(suite_file, known):
    one = read_suite(suite_file(), known).digest
    assert len(one) == 64
    assert read_suite(suite_file(HEAD + GROUP + "# a remark\n"), known).digest != one


@pytest.mark.parametrize("name", ["smoke", "paper-cpu", "today-cpu", "numerics"])
def test_shipped_suites_are_right(name):
    known = load_inventory()
    suite = read_suite(find_suite(name), known)
    assert suite.name == name
    assert blocks_of(suite, known)
