"""What holds for every optimisation there is."""

from __future__ import annotations

import pytest

from modak_ansible.optimisations import optimisations
from modak_ansible.performance.stock import is_stock, switched
from modak_ansible.planning.configurations import Configurations, _reads

from .conftest import matter

CASES = {
    "pytorch": {},
    "prepares": {"application": {"prepares": True}},
    "tensorflow": {"entry": "tensorflow-2.21-cpu"},
    "keras": {"entry": "keras-3.15-pytorch-cpu"},
    "old": {"entry": "tensorflow-1.14-pip"},
    "one core": {"resources": {"cores_per_process": 1}},
    "alone": {"resources": {"exclusive": True}},
    "any": {"numerics": "any", "batch_size": "any", "application": {"prepares": True}},
}


@pytest.mark.parametrize("case", CASES)
def test_options_are_named_once_and_stock_can_be_had(draft, case):
    made = draft(**CASES[case])
    for optimisation in optimisations():
        found = optimisation.options(made)
        names = [option.value for option in found]
        assert len(names) == len(set(names)), optimisation.name
        assert not found or found[0].numerics == "same" or optimisation.name == "operators", optimisation.name


@pytest.mark.parametrize("case", CASES)
def test_stock_changes_nothing(draft, case):
    """What nothing was chosen for runs as the user has it."""
    made = draft(**CASES[case])
    before = dict(made.environment)
    for optimisation in optimisations():
        found = (
            optimisation.options(made)
            if optimisation.name not in ("image", "site_rules", "container", "launcher")
            else ()
        )
        if found:
            optimisation.apply(made, found[0].value)
    assert made.settings == {}
    assert (made.options, made.choices, made.environment) == ({}, {}, before)


@pytest.mark.parametrize("case", CASES)
def test_what_is_stock_is_no_switch_of_the_performance_model(draft, case):
    """Else every plan would ask for records of what nobody chose."""
    made = draft(**CASES[case])
    framework = made.entry.framework
    for optimisation in optimisations():
        found = optimisation.options(made)
        if found:
            assert switched(framework, {optimisation.name: found[0].value}) == {}, optimisation.name


def test_every_optimisation_says_itself_what_is_stock():
    for optimisation in optimisations():
        assert "stock" in vars(type(optimisation)), optimisation.name
        for value in optimisation.stock if optimisation.is_switch else ():
            assert is_stock("pytorch", optimisation.name, value) != ("pytorch" in optimisation.stock_of), (
                optimisation.name,
                value,
            )
    assert is_stock("pytorch", "huge_pages", "none")
    assert is_stock("pytorch", "binding", "none")
    assert not is_stock("pytorch", "a setting that nobody knows", "none")


@pytest.mark.parametrize("case", CASES)
def test_an_optimisation_comes_after_all_whose_outcome_it_reads(draft, case):
    """What it says must not change with a matter that it does not name: that is what lets it be asked once."""
    start = draft(**CASES[case])
    found = optimisations()
    for optimisation in found:
        if optimisation.name == "image":
            continue
        reads = {*_reads(optimisation, found), "image"}
        plain = optimisation.options(start), optimisation.default(start)
        for other in found:
            if other.name in reads or other.name == optimisation.name:
                continue
            for option in other.options(start):
                if option.why_not:
                    continue
                changed = start.copy()
                other.apply(changed, option.value)
                assert (optimisation.options(changed), optimisation.default(changed)) == plain, (
                    f"{optimisation.name} reads {other.name}"
                )


def test_every_preference_is_known_to_the_blueprints_types(draft, root):
    """A preference that nobody can write down would never be one."""
    text = (root / "tosca" / "types" / "trainings.yaml").read_text()
    for optimisation in optimisations():
        if hasattr(draft().request.optimisation, optimisation.name):
            assert f"      {optimisation.name}:\n" in text


def test_configurations_ask_each_once(draft):
    made = Configurations(draft(entry=""))
    first = made.settled(made.names[0], {})
    assert made.settled(made.names[0], {}).key == first.key
    assert made.exactly(made.names[0], first.values).values == first.values
    assert matter("image") is made.image
