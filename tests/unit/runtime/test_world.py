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
class FirstTimes:
    def sizes(self, operators, strategy):
        return len(operators) + len(strategy)
copies = world.go_on(*world.asked_for(), list)
if copies.name is None:
    print(json.dumps(world.found(copies, FirstTimes())))
    sys.exit()
with open(sys.argv[2], "a") as begun:
    print(os.environ["MODAK_STRATEGY"], os.environ["RANK"], file=begun)
is_refused = copies.name == ("pipeline", 0)
copies.tell(None if is_refused else world.as_rank({"computing": 10, "setup": 0, "loops": []}, {"mm", "add"}))
"""


@pytest.mark.component
def test_a_way_counts_only_if_all_of_its_ranks_were_traced(tmp_path: Path):
    asked = {"MODAK_TRACE_RANKS": "2", "MODAK_TRACE_WAYS": "ddp pipeline fsdp fsdp_1"}
    words = [sys.executable, "-c", _ASKS, str(FILES), str(tmp_path / "begun")]
    found = subprocess.run(words, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [
        {"strategy": way, "ranks": 2, "rank": 0, "computing": computing, "setup": 0, "loops": []}
        for way, computing in (("ddp", 15), ("fsdp", 16), ("fsdp_1", 16))
    ]
    begun = (tmp_path / "begun").read_text().splitlines()
    assert begun == ["pipeline 0", "fsdp 0", "fsdp_1 0", "ddp 0"]  # no other one in vain
