"""Ranks that a trace has copies of its process become, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from modak_ansible.runtime import FILES

_ASKS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from modak_runtime.memory import world
writing, reports = world.ask()
if writing is None:
    print(json.dumps([[report["strategy"], report["rank"]] for report in reports]))
elif (os.environ["MODAK_STRATEGY"], os.environ["RANK"]) == ("pipeline", "0"):
    os._exit(1)
else:
    world.tell(writing, {"computing": 0, "setup": 0, "loops": []})
"""


@pytest.mark.component
def test_a_way_counts_only_if_all_of_its_ranks_were_traced():
    asked = {"MODAK_TRACE_RANKS": "2", "MODAK_TRACE_WAYS": "ddp pipeline fsdp"}
    words = [sys.executable, "-c", _ASKS, str(FILES)]
    found = subprocess.run(words, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [["ddp", 0], ["fsdp", 0]]
