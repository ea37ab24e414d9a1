"""Which versions a preference takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from modak_ansible.catalogue.entry import satisfies

VERSIONS = st.from_regex(r"[0-3](\.[0-3]){0,3}(rc1|\.post1|\.dev1|\+cpu)?", fullmatch=True)
CLAUSES = st.from_regex(r"(<|<=|>|>=|!=|~=|==) ?[0-3](\.[0-3]){1,3}(rc1|\.post1)?", fullmatch=True)


@given(VERSIONS, st.lists(CLAUSES, min_size=1, max_size=3))
def test_a_range_takes_what_pip_would(version, clauses):
    wanted = ",".join(clauses)
    assert satisfies(version, wanted) == (Version(version) in SpecifierSet(wanted))


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [("2.13.0", "2", True), ("2.13.0", "2.1", False), ("2.13.0", "", True), ("2.13.0", ">=2, <2.13.1", True)],
)
def test_a_version(version, wanted, expected):
    assert satisfies(version, wanted) is expected
