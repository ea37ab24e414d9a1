"""What is shown of a job's log while it is watched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from modak_ansible.stages.jobs.output import Output


@pytest.fixture
def shown(tmp_path):
    """What a stage shows of a log, by whether every line is asked for."""

    def show(text, *, is_whole):
        said = []
        stage = SimpleNamespace(say=said.append, tell=lambda *words: said.append(words[-1]), folder=tmp_path)
        situation = SimpleNamespace(job_id="1", state="completed", is_living=False, words="job 1 is completed")
        member = SimpleNamespace(name="train", stage=stage, status=SimpleNamespace(situation=situation))
        parts = [text, ""]
        answers = ({"output": part, "offset": len(text)} for part in parts)
        Output(member, lambda *_, **__: next(answers), is_whole=is_whole).drain()
        return said

    return show


def test_of_many_lines_at_once_the_last_are_shown_and_the_others_counted(shown):
    text = "".join(f"line {number}\n" for number in range(3000))
    said = shown(text, is_whole=False)
    assert said[0] == "2,800 lines that came at once are in output.log"
    assert said[1:] == [*(f"line {number}" for number in range(2800, 3000)), "job 1 is completed"]


def test_who_asks_for_a_log_gets_all_of_it(shown):
    text = "".join(f"line {number}\n" for number in range(3000))
    assert len(shown(text, is_whole=True)) == 3001


def test_what_moves_a_terminals_cursor_is_left_out(shown):
    """As progress bars write it that begin their line anew."""
    said = shown("\x1b[1mEpoch 1\x1b[0m\n\x1b[A\x1b[2Kloss 0.5\n\x1b]0;title\x07\n\x1b[A\n", is_whole=True)
    assert said == ["Epoch 1", "loss 0.5", "job 1 is completed"]
