"""The log of an image's build, as far as it is wanted."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.image import show_build_log


class Target:
    """A log that is read in pieces, while a build goes on that writes two more lines."""

    def __init__(self, *, running=False, age=60.0):
        self.text = "".join(f"line {number}\n" for number in range(5)) + "\n"
        self.more = ["line 5\n", "line 6\n"] if running else []
        self.running, self.age = running, age
        self.waited = []

    def __call__(self, name, action, offset, seconds, **arguments):
        assert (name, action) == ("modak_image", "log")
        if seconds:
            self.waited.append(seconds)
            if offset == len(self.text) and self.more:
                self.text += self.more.pop(0)
            elif offset == len(self.text):
                self.running = False
        output = self.text[offset : offset + 14]
        state = "running" if self.running else "done"
        return {"output": output, "offset": offset + len(output), "status": {"state": state}, "age": self.age}


def shown(make_stage, target, **options):
    stage, said = make_stage(target)
    outcome = show_build_log(stage, **options)
    assert not outcome.changed
    return said


def lines(*numbers):
    return [f"line {number}" for number in numbers]


def test_all_of_it(make_stage):
    assert shown(make_stage, Target()) == lines(0, 1, 2, 3, 4)


def test_a_terminal_obeys_nothing_that_stands_in_it(make_stage):
    target = Target()
    target.text = "\x1b[mline 0\n\x9b2J\n"
    assert shown(make_stage, target) == ["line 0", "\\x9b2J"]


def test_a_build_that_goes_on_is_not_waited_for(make_stage):
    target = Target(running=True)
    assert shown(make_stage, target) == lines(0, 1, 2, 3, 4)
    assert target.waited == []


def test_the_last_lines(make_stage):
    assert shown(make_stage, Target(), last=2) == lines(3, 4)
    assert shown(make_stage, Target(), last=0) == []


def test_a_build_is_followed_to_its_end(make_stage):
    assert shown(make_stage, Target(running=True), follow=True) == lines(0, 1, 2, 3, 4, 5, 6)
    assert shown(make_stage, Target(running=True), follow=True, last=1) == lines(4, 5, 6)


def test_only_what_was_written_lately(make_stage):
    assert shown(make_stage, Target(age=60), within=90) == lines(0, 1, 2, 3, 4)
    assert shown(make_stage, Target(age=60), within=30) == []
    assert shown(make_stage, Target(age=60, running=True), within=30, follow=True) == lines(5, 6)


def test_there_is_no_log(make_stage):
    target = Target(age=None)
    target.text = ""
    with pytest.raises(ModakError, match="no log of a build"):
        shown(make_stage, target)
