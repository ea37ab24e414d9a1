"""Pictures in terminals that show sixels: six pixels in each letter, as DEC's VT340 had them."""

from __future__ import annotations

import os
import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

_COLOURS, _BAND = 16, 6  # as many as the VT340 had
_FIRST = 63  # the letter of six pixels of which none is set
_ASKED, _ANSWER = b"\x1b[c", re.compile(rb"\x1b\[\?([0-9;]*)c")
_SIXELS = b"4"  # among the numbers by which a terminal says what it can do
_PATIENCE = 1.0  # seconds for the terminal's answer
_USUAL = 9  # pixels that a letter is wide, where the terminal does not say


def encoded(picture: Image) -> str:
    """A picture as sixels, in as few colours as its lines need."""
    import numpy as np
    from PIL.Image import Quantize

    reduced = picture.convert("RGB").quantize(_COLOURS, Quantize.MAXCOVERAGE)
    pixels, palette = np.asarray(reduced), reduced.getpalette() or []
    parts = [f'\x1bP0;1q"1;1;{reduced.width};{reduced.height}']
    for colour in range(len(palette) // 3):
        red, green, blue = (round(part / 2.55) for part in palette[3 * colour : 3 * colour + 3])
        parts.append(f"#{colour};2;{red};{green};{blue}")
    for top in range(0, reduced.height, _BAND):
        band = pixels[top : top + _BAND]
        below = np.arange(len(band))[:, None]
        lines = ((colour, ((band == colour) << below).sum(axis=0)) for colour in np.unique(band))
        parts.append("$".join(f"#{colour}{_packed(line.tolist())}" for colour, line in lines) + "-")
    return "".join(parts) + "\x1b\\"


def _packed(line: list[int]) -> str:
    runs = ((chr(_FIRST + bits), sum(1 for _ in group)) for bits, group in groupby(line))
    return "".join(f"!{count}{letter}" if count > 3 else letter * count for letter, count in runs)


def is_shown() -> bool:
    """Whether the terminal says that it shows sixels; one that is not asked from here, or is silent, does not."""
    import select
    import termios
    import time
    import tty

    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") in (None, "dumb"):
        return False
    stdin, received, deadline = sys.stdin.fileno(), b"", time.monotonic() + _PATIENCE
    before = termios.tcgetattr(stdin)
    try:
        tty.setcbreak(stdin)
        os.write(sys.stdout.fileno(), _ASKED)
        while not _ANSWER.search(received):
            if not select.select([stdin], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
            received += os.read(stdin, 256) or b"\x1b[?c"  # a terminal that is gone says no more
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
    answer = _ANSWER.search(received)
    return answer is not None and _SIXELS in answer.group(1).split(b";")


def pixels_across(columns: int) -> int:
    """How many pixels so many letters of the terminal are wide."""
    import fcntl
    import struct
    import termios

    size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    _, all_columns, across, _ = struct.unpack("HHHH", size)
    return columns * (across // all_columns if across and all_columns else _USUAL)
