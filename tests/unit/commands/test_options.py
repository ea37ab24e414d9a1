"""What several commands share."""

from __future__ import annotations

import shlex
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.commands.options import restated


def test_a_command_is_restated_with_all_that_was_given():
    said = restated("mine", Path("my site.yaml"), ["epochs=4", "name=a b"], "train", "t.yaml")
    assert said == "mine --inputs 'my site.yaml' --input epochs=4 --input 'name=a b' --training train --on t.yaml"
    assert restated("mine", None, None, None, None) == "mine"
    said = restated("train.py", None, None, None, "box", script_words=["--lr", "1"], nodes=2, processes=3)
    assert said == "train.py --on box --nodes 2 --processes-per-node 3 -- --lr 1"


@given(st.text(min_size=1), st.lists(st.text()))
def test_a_shell_reads_it_as_it_was_given(blueprint, values):
    words = shlex.split(restated(blueprint, None, values, None, None))
    assert words == [blueprint, *(word for value in values for word in ("--input", value))]
