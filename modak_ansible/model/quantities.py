"""Wall times and sizes, as people write them and as the code counts them: seconds and bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

_WALLTIME = re.compile(r"(?:(?P<days>\d{1,4})-)?(?P<hours>\d{1,5}):(?P<minutes>\d{2}):(?P<seconds>\d{2})", re.ASCII)
_SIZE = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,18})?)\s*(?P<unit>B|[KMGT]i?B)", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FACTORS = {
    "B": 1,
    "KB": 10**3, "KIB": 2**10,
    "MB": 10**6, "MIB": 2**20,
    "GB": 10**9, "GIB": 2**30,
    "TB": 10**12, "TIB": 2**40,
}  # fmt: skip

_MOST_BYTES = 2**63 - 1  # that a file system or a scheduler counts

WALLTIME_FORMS = 'write it quoted, as "HH:MM:SS" or "D-HH:MM:SS", such as "00:30:00" or "2-12:00:00"'


def parse_walltime(text: str) -> int:
    """Seconds of a wall time such as ``00:30:00``, ``36:00:00`` or ``2-12:00:00``.

    Forms that schedulers read differently (``30``, ``12:30``) are refused: Slurm takes the first for minutes and
    Torque for seconds.

    Raises:
        ValueError: another form, minutes or seconds over 59, hours over 23 behind days, or no time at all.
    """
    match = _WALLTIME.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a wall time; {WALLTIME_FORMS}")
    days, hours, minutes, seconds = (int(match[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    if minutes > 59 or seconds > 59 or (match["days"] is not None and hours > 23):
        raise ValueError(f"{text!r} is not a wall time: its minutes, seconds or hours are over the limit")
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if total == 0:
        raise ValueError(f"a wall time of {text!r} leaves no time to run")
    return total


def format_walltime(seconds: int) -> str:
    """``HH:MM:SS`` below a day, ``D-HH:MM:SS`` from there on."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


def parse_size(text: str) -> int:
    """Bytes of a size such as ``4 GB`` (powers of ten) or ``512 MiB`` (powers of two), in either case, as in TOSCA.

    Raises:
        ValueError: no number, one of more than 18 digits, no unit that TOSCA knows, or more than 8 EiB.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f'{text!r} is not a size; write a number and a unit, such as "4 GB" or "512 MiB"')
    size = int(Decimal(match["number"]) * _FACTORS[match["unit"].upper()])
    if size > _MOST_BYTES:
        raise ValueError(f"{text!r} is more than any machine has")
    return size


def format_size(count: int) -> str:
    """A size for people, in powers of ten: ``387 MB``."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:  # of which 1000 would be made
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_seconds(seconds: float) -> str:
    """A duration for people: ``0.4 s``, ``42 s``, ``4 min 10 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    minutes, second = divmod(rounded, 60)
    if minutes < 60:
        return f"{minutes} min {second} s" if second else f"{minutes} min"
    hours, minute = divmod(minutes, 60)
    return f"{hours} h {minute} min" if minute else f"{hours} h"


def format_joules(joules: float) -> str:
    """An amount of energy for people: ``950 J``, ``12.3 kJ (3.4 Wh)``, ``5.4 MJ (1.5 kWh)``."""
    if joules < 999.5:
        return f"{three_digits(joules)} J"
    unit, size, hour_unit, hours = ("MJ", 1e6, "kWh", 3.6e6) if joules >= 3.6e6 else ("kJ", 1e3, "Wh", 3.6e3)
    return f"{joules / size:,.1f} {unit} ({joules / hours:,.1f} {hour_unit})"


def three_digits(number: float) -> str:
    """A number for people with three digits, and all of those before the point: ``0.123``, ``1.5``, ``1234``."""
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"  # which would have an exponent


def parse_duration(text: str) -> float:
    """Seconds of a duration as people type it: ``90s``, ``20m``, ``12h``, ``7d`` or ``2w``.

    Raises:
        ValueError: no number, or no such unit.
    """
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 90s, 20m, 12h, 7d or 2w")
    return float(match["number"]) * _SECONDS[match["unit"]]


def counted(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def some_of(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are: ``a, b and 4 more``."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
