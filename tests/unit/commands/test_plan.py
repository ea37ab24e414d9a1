"""A plan for people stays short, however many builds were not taken."""

from __future__ import annotations

from modak_ansible.commands.plan import _rejections
from modak_ansible.model.plan import Rejected


def rejected(*pairs):
    return tuple(Rejected(value=value, reason=reason) for value, reason in pairs)


def test_the_same_reason_is_told_once():
    assert _rejections(rejected(("a", "too old"), ("b", "refused"), ("c", "too old"))) == [
        "not a, c: too old",
        "not b: refused",
    ]


def test_the_rest_is_counted():
    shown = _rejections(rejected(*((f"entry-{number}", f"reason {number}") for number in range(10))))
    assert len(shown) == 5
    assert shown[-1] == "and 6 more, which --json tells"
    assert _rejections(()) == []
