"""The smoke suite is really measured: interrupted, resumed, and compared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest
from cluster import MODAK, ROOT, Testbed, modak

pytestmark = pytest.mark.testbed

# A machine that builds and tests beside it is never quiet; how that is handled is for the unit tests.
IMPATIENT = ("--patience", "0", "--attempts", "1")


@pytest.fixture
def folder(tmp_path: Path, testbed: Testbed) -> Path:
    """A project of its own, with the checkout's testbed."""
    (tmp_path / ".modak").mkdir()
    (tmp_path / ".modak" / "testbed").symlink_to(testbed.folder)
    return tmp_path


def records(folder: Path) -> list[dict]:
    path = folder / ".modak" / "records" / "smoke.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def litter(testbed: Testbed) -> str:
    return testbed.ssh("ls modak/deployments | grep bench-smoke || true")


def interrupted(folder: Path) -> subprocess.Popen[str]:
    """A measurement that Ctrl-C ends in its second run."""
    process = subprocess.Popen(
        [str(MODAK), "bench", "run", "smoke", *IMPATIENT], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 900
    while not records(folder) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(5)
    os.killpg(process.pid, signal.SIGINT)
    return process


def test_a_suite_is_measured_interrupted_and_resumed(folder: Path, testbed: Testbed) -> None:
    process = interrupted(folder)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130, said
    assert "1 run is on record" in said
    assert len(records(folder)) == 1
    assert litter(testbed) == ""

    done = modak("bench", "run", "smoke", *IMPATIENT, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert litter(testbed) == ""
    found = records(folder)
    stock, tcmalloc = "pytorch-2.13-cpu", "pytorch-2.13-cpu allocator=tcmalloc"
    assert [(each["variant"], each["round"], each["attempt"]) for each in found] == [
        (stock, 1, 1), (stock, 1, 2), (tcmalloc, 1, 2), (tcmalloc, 2, 1), (stock, 2, 1),
    ]  # fmt: skip
    schema = json.loads((ROOT / "benchmarks" / "records" / "record.schema.json").read_text())
    for each in found:
        jsonschema.validate(each, schema)
        assert each["outcome"] in ("measured", "disturbed"), each["reason"]
        assert each["training"]["parameters"] == 1_199_882
        assert each["allocation"]["exclusive"]
        assert each["target"]["architecture"] != ""
    assert len({each["allocation"]["job_id"] for each in found}) == len(found)
    assert len({each["image"]["digest"] for each in found}) == 1

    again = modak("bench", "run", "smoke", *IMPATIENT, cwd=folder)
    assert again.returncode == 0
    assert len(records(folder)) == len(found)
    compared = modak("bench", "compare", folder / ".modak" / "records" / "smoke.jsonl", "--json")
    (table,) = json.loads(compared.stdout)
    assert [line["variant"] for line in table["lines"]] == [stock, tcmalloc]
