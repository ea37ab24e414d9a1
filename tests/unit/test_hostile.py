"""A few of the many hostile texts of tests/integration/test_hostile.py, through every renderer and real bash."""

from __future__ import annotations

import pytest
from hostile_checks import CHECKS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.component

_SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


@pytest.mark.parametrize("name", CHECKS)
def test_hostile_texts(name, tmp_path_factory):
    check = CHECKS[name](tmp_path_factory.mktemp("hostile"))

    @settings(max_examples=12, **_SETTINGS)
    @given(data=st.data())
    def run(data):
        check(data)

    run()
