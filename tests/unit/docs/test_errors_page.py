"""docs/errors.md has every rule and every message that the code has for users.

Every rule that any unit test comes across is looked for there, too: tests/unit/conftest.py.
"""

from __future__ import annotations

import ast
import re

import pytest
from documented import Page
from example_blueprint import ROOT

from generate.errors_page import _code
from generate.messages import Source, errors, rules
from modak_ansible.errors import ModakError
from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.project import find_blueprint

PAGE = Page(ROOT / "docs" / "errors.md")


def is_told(message: str) -> bool:
    """Whether the page has a message, with capitals for what is put into it."""
    for shown in PAGE.inline:
        pattern = re.escape(shown).replace(r"\.\.\.", ".*")
        if len(re.sub(r"[A-Z_]{2,}|\W", "", shown)) >= 8 and re.fullmatch(
            re.sub(r"[A-Z][A-Z_]+", ".*", pattern), message
        ):
            return True
    return False


def statements(block):
    """All statements in one, whatever they stand in; what these are made of is most of a tree."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(block, name, ()):
            yield each
            yield from statements(each)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("framework: pytorch", "framework: pytorhc"),
        ("script: train/train.py", "script: train/trian.py"),
        ('walltime: "00:30:00"', 'walltime: "30"'),
        ('walltime: "00:30:00"', 'walltime: "2-00:00:00"'),
        ("- host: cluster\n        - dataset: digits", "- host: clutser\n        - dataset: digits"),
        ("resources: { cores_per_process: 4 }", "resources: { cores_per_process: 64 }"),
        ("name: mnist\n", "nam: mnist\n"),
        ("optimisation: { numerics: same }", "optimisation: { entry: pytorch-9 }"),
        ("types/modak.yaml", "types/modack.yaml"),
        ("numerics: same", "numerics: same, numerics: any"),
    ],
)
def test_what_is_wrong_with_a_blueprint_is_on_the_page(old, new, blueprint):
    mistakes = Mistakes()
    check_blueprint(blueprint.replace(old, new).service, Inputs(), mistakes)
    assert len(mistakes)
    for each in mistakes:
        assert each.rule in PAGE.anchors, each
        assert each.rule == "tosca-parser" or is_told(each.message), each.message


def test_other_errors_are_on_the_page():
    with pytest.raises(ModakError) as caught:
        find_blueprint("no-such-blueprint")
    assert is_told(caught.value.message)
    assert not is_told("bananas are eaten without a plan")


def test_every_message_of_an_error_is_found():
    """All that is raised with plain words, counted in another way than the page's own."""
    raised = {
        each.exc.args[0].value
        for tree in Source.read().trees.values()
        for each in statements(tree)
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call) and each.exc.args
        if isinstance(each.exc.func, ast.Name) and each.exc.func.id in Source.read().errors
        if isinstance(each.exc.args[0], ast.Constant) and " " in str(each.exc.args[0].value)
    }
    assert len(raised) > 30
    assert raised <= set(PAGE.inline)


def test_no_class_of_errors_is_left_out():
    """Also those that are caught somewhere, such as a tunnel's."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for name, told in errors(Source.read()).items():
        assert all(_code(each.message) in page for each in told), name
    assert "`there is no tunnel to " in page


def test_each_rule_has_its_message():
    found = rules(Source.read())
    assert len(found) > 60
    assert not [name for name, told in found.items() if not told]
    assert {"UsageError", "TargetUnreachable", "SchedulerAway"} <= set(errors(Source.read()))
    assert len([told for all_told in found.values() for told in all_told if told.hint]) > 80
