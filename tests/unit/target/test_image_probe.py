"""What a failing probe amounts to: recorded answers of Apptainer's, and what programs say when they crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.images.probe import ProbeFailed, raise_verdict, telling_line

RECORDED = Path(__file__).resolve().parents[1] / "recorded"


def recorded(name):
    return (RECORDED / f"apptainer-1.4.5-test-{name}.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("assertion", 1, "AssertionError: the gradient is not finite"),
        ("illegal", 132, "Illegal instruction"),
        ("exit1", 1, "it ended with code 1 and said nothing"),
        ("exit1", 139, "it ended with code 139 (SIGSEGV) and said nothing"),
        ("exit1", 255, "it ended with code 255 and said nothing"),
    ],
)
def test_a_refusal_has_the_last_telling_line(name, code, reason):
    with pytest.raises(ProbeFailed) as caught:
        raise_verdict(code, recorded(name))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["terminate called", "  what():  no AVX", "Aborted (core dumped)"], "what():  no AVX"),
        (["ImportError: libmkl.so", "INFO:    Cleaning up"], "ImportError: libmkl.so"),
        (["python: line 3: 12 Segmentation fault (core dumped)", "bye"], "python: line 3: 12 Segmentation fault (core dumped)"),
        (["no gradient", ""], "no gradient"),
        (["x" * 1000], "x" * 300),
        (["INFO:    hello", "WARNING: hello"], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_the_telling_line(lines, line):
    assert telling_line(lines) == line


@pytest.mark.parametrize(
    ("code", "lines", "words"),
    [
        (255, recorded("damaged"), "the image cannot be started: FATAL:   container creation failed"),
        (137, [], "the probe was killed"),
        (1, ["OSError: [Errno 28] No space left on device"], "the disk is full"),
        (1, ["OSError: [Errno 122] Disk quota exceeded"], "the quota is used up"),
    ],
)
def test_what_says_nothing_about_the_image_is_no_refusal(code, lines, words):
    with pytest.raises(ModakError, match=words):
        raise_verdict(code, lines)
