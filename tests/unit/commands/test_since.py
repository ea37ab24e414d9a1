"""From when on a log is shown."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.commands.jobs.log_start import LogStart, read_since
from modak_ansible.errors import UsageError


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("0s", 0)])
def test_the_last_while(text, seconds):
    moment = read_since(text).moment
    assert moment == pytest.approx(time.time() - seconds, abs=5)


def test_a_number_of_lines():
    assert read_since("100") == LogStart(lines=100)


def test_a_date_and_time():
    assert read_since("2026-11-21T14:30").moment == datetime(2026, 11, 21, 14, 30).timestamp()
    assert read_since("2026-11-21 14:30:05+00:00").moment == 1795271405.0


@given(st.times())
def test_a_clock_means_the_last_time_it_showed_that(clock):
    moment = read_since(clock.strftime("%H:%M:%S")).moment
    assert datetime.fromtimestamp(moment).strftime("%H:%M") == clock.strftime("%H:%M")
    assert moment <= time.time()
    assert moment > time.time() - 2 * 86400


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        since = read_since(text)
    except UsageError as error:
        assert "such as 10m" in error.hint
    else:
        assert (since.lines is None) != (since.moment is None)


@pytest.mark.parametrize("text", ["", "yesterday", "-5m", "10 m", "1e3", "99:99", "9999999999", "٣", "0001-01-01"])
def test_what_is_neither(text):
    with pytest.raises(UsageError, match="neither a time nor a number of lines"):
        read_since(text)
