import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.quantities import (
    format_joules,
    format_seconds,
    format_size,
    format_walltime,
    parse_duration,
    parse_size,
    parse_walltime,
    three_digits,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:30:00", 1800), ("36:00:00", 129600), ("2-12:00:00", 216000), ("0-00:00:01", 1), ("100:00:00", 360000)],
)
def test_walltime_forms(text, seconds):
    assert parse_walltime(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["30", "12:30", "1:2:3", "00:60:00", "00:00:60", "1-24:00:00", "00:00:00", "-1:00:00", "1 day, 12:00:00", "1h", "",
     "00:30:00\n#SBATCH --wrap=x", "٠٠:٣٠:٠٠", "1:00:00:00"],
)  # fmt: skip
def test_other_walltimes_are_refused(text):
    with pytest.raises(ValueError, match="wall time"):
        parse_walltime(text)


@given(st.integers(1, 9999 * 86400))
def test_a_walltime_comes_back(seconds):
    assert parse_walltime(format_walltime(seconds)) == seconds


@given(st.text())
def test_any_text_is_a_walltime_or_an_error(text):
    try:
        assert parse_walltime(text) > 0
    except ValueError as error:
        assert "wall time" in str(error)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4 GB", 4 * 10**9), ("512 MiB", 512 * 2**20), ("1.5 kB", 1500), ("7 B", 7), ("4000 MB", 4 * 10**9),
     ("1.001 kB", 1001), ("9007199254740993 B", 9007199254740993), ("2gb", 2 * 10**9), ("1 Kib", 1024)],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["4", "4 G", "GB", "-4 GB", "4 GB; rm", "", "9" * 400 + " GB"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_quantities_for_people():
    assert [format_size(count) for count in (7, 1500, 387_129_344, 2 * 10**12)] == ["7 B", "1.5 kB", "387 MB", "2.0 TB"]
    assert [format_size(count) for count in (999, 999_499, 999_500)] == ["999 B", "999 kB", "1.0 MB"]
    assert [format_seconds(each) for each in (0.44, 42.4, 250, 3600, 7500)] == [
        "0.4 s", "42 s", "4 min 10 s", "1 h", "2 h 5 min",
    ]  # fmt: skip
    assert [format_joules(each) for each in (950.4, 999.7, 12_345, 5.4e6)] == [
        "950 J", "1.0 kJ (0.3 Wh)", "12.3 kJ (3.4 Wh)", "5.4 MJ (1.5 kWh)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("20m", 1200), ("12h", 43200), ("7d", 604800), ("2 w", 1209600), ("1.5h", 5400), ("0s", 0)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1 month", "1d2h", "٣d", "inf", "1e9h"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_three_digits_have_no_exponent():
    assert [three_digits(each) for each in (0.1234, 1.5, 999.4, 999.6, 1234.5)] == [
        "0.123",
        "1.5",
        "999",
        "1000",
        "1234",
    ]


def test_a_size_that_no_machine_has_is_refused():
    assert parse_size("8000000 TiB") < 2**63
    with pytest.raises(ValueError, match="'999999999999 TB' is more than any machine has"):
        parse_size("999999999999 TB")
