"""Pictures in a terminal as sixels, and whether it shows them."""

from __future__ import annotations

import os
import re
import sys
import termios
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from modak_ansible.commands.compare import sixel

_TOKEN = re.compile(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)(.)|([?-~])|([$-])")


def decoded(text):
    """The pixels of sixels, as percentages of red, green and blue."""
    head = re.match(r'\x1bP0;1q"1;1;(\d+);(\d+)', text)
    width, height = map(int, head.groups())
    pixels = np.full((height + 5, width, 3), -1)
    colours, colour, across, down = {}, None, 0, 0
    body = text[head.end() : text.index("\x1b\\")]
    assert "".join(found.group() for found in _TOKEN.finditer(body)) == body
    for defined, red, green, blue, chosen, often, repeated, letter, moved in _TOKEN.findall(body):
        if defined:
            colours[defined] = int(red), int(green), int(blue)
        elif chosen:
            colour = colours[chosen]
        elif moved:
            across, down = 0, down + 6 * (moved == "-")
        else:
            end = across + int(often or 1)
            for bit in range(6):
                if ord(repeated or letter) - 63 >> bit & 1:
                    pixels[down + bit, across:end] = colour
            across = end
    return pixels[:height]


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20)), elements=st.integers(0, 5)))
def test_a_picture_is_what_its_sixels_say(pixels):
    palette = np.array([(0, 0, 0), (255, 255, 255), (255, 0, 0), (51, 102, 204), (0, 255, 0), (255, 255, 0)])
    found = decoded(sixel.encoded(Image.fromarray(palette[pixels].astype(np.uint8))))
    assert np.abs(found - palette[pixels] / 2.55).max() <= 1


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that answers the question of what it can do with given bytes."""
    ours, theirs = os.openpty()
    answers = []

    def made(answer):
        def answering():
            asked = b""
            while not asked.endswith(b"\x1b[c"):
                asked += os.read(ours, 16)
            os.write(ours, answer)

        for name in ("stdin", "stdout"):
            monkeypatch.setattr(sys, name, device)
        monkeypatch.setenv("TERM", "xterm")
        answers.append(threading.Thread(target=answering, daemon=True))
        answers[-1].start()
        return theirs

    with os.fdopen(theirs, "r+b", buffering=0, closefd=False) as device:
        yield made
    for each in answers:
        each.join(5)
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(b"\x1b[?63;1;4;6c", True), (b"\x1b[?4c", True), (b"typed\x1b[?62;4;22c", True),
     (b"\x1b[?64;14;22c", False), (b"\x1b[?6c", False), (b"", False), (b"\x1b[?4", False)],
)  # fmt: skip
def test_a_terminal_is_asked_and_left_as_it_was(terminal, monkeypatch, answer, expected):
    monkeypatch.setattr(sixel, "_PATIENCE", 0.3)
    device = terminal(answer)
    before = termios.tcgetattr(device)
    assert sixel.is_shown() is expected
    assert termios.tcgetattr(device) == before
    assert sixel.pixels_across(10) == 90


def test_what_is_no_terminal_is_not_asked(monkeypatch, capfd):
    monkeypatch.setenv("TERM", "xterm")
    assert sixel.is_shown() is False
    assert capfd.readouterr().out == ""
