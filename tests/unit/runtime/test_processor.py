"""What a job says of its node's processor, and what a survey says of it, is one name."""

from __future__ import annotations

import io
import sys

import pytest

from modak_ansible.runtime import FILES
from modak_ansible.target.core.processor import model_of

sys.path.insert(0, str(FILES))

from modak_runtime import report

sys.path.remove(str(FILES))


@pytest.mark.parametrize(
    ("name", "numbers", "called"),
    [
        ("AMD EPYC", ("25", "17"), "AMD EPYC family 25 model 17"),  # a Zen 4: a Zen 5 has family 26, a Zen 3 model 1
        ("Intel(R) Xeon(R) Processor", ("6", "106"), "Intel(R) Xeon(R) Processor family 6 model 106"),
        ("AMD EPYC 9654 96-Core Processor", ("25", "17"), "AMD EPYC 9654 96-Core Processor"),
        ("AMD EPYC", ("", ""), "AMD EPYC"),
        ("", ("25", "17"), ""),
    ],
)
def test_a_name_without_numbers_has_its_vendors(name, numbers, called, monkeypatch):
    family, model = numbers
    told = {"model name": name, "cpu family": family, "model": model}
    assert model_of(told) == called
    text = "".join(f"{key}\t: {value}\n" for key, value in told.items()) + "\nprocessor\t: 1\nmodel\t\t: 99\n"
    monkeypatch.setattr(report, "open", lambda _: io.StringIO(text), raising=False)
    assert report._processor() == called
