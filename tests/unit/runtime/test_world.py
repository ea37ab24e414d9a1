"""Ranks that a trace has copies of its process become."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modak_ansible.runtime import FILES

_ASKS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from modak_runtime.memory import world
def meeting_of(strategy):
    with open(sys.argv[2] + ".meetings", "a") as meetings:
        print(strategy, file=meetings)
    return len(strategy)
copies, meeting = world.ask(meeting_of, list)
if copies.name is None:
    names = "strategy", "rank", "computing"
    print(json.dumps([[report[name] for name in names] for report in world.found(copies)]))
    sys.exit()
with open(sys.argv[2], "a") as begun:
    print(os.environ["MODAK_STRATEGY"], os.environ["RANK"], file=begun)
is_refused = copies.name == ("pipeline", 0)
copies.tell(None if is_refused else world.as_rank({"computing": meeting, "setup": 0, "loops": []}))
"""


@pytest.mark.component
def test_a_way_counts_only_if_all_of_its_ranks_were_traced(tmp_path: Path):
    asked = {"MODAK_TRACE_RANKS": "2", "MODAK_TRACE_WAYS": "ddp pipeline fsdp fsdp_1"}
    words = [sys.executable, "-c", _ASKS, str(FILES), str(tmp_path / "begun")]
    found = subprocess.run(words, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [["ddp", 0, 3], ["fsdp", 0, 4], ["fsdp_1", 0, 4]]
    begun = (tmp_path / "begun").read_text().splitlines()
    assert begun == ["pipeline 0", "fsdp 0", "fsdp_1 0", "ddp 0"]  # no other one in vain
    assert sorted((tmp_path / "begun.meetings").read_text().split()) == ["ddp", "fsdp", "pipeline"]  # each once
