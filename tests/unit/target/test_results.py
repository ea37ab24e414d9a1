import json
import os

import pytest

from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.jobs import results
from modak_ansible.target.jobs.results import results_of


@pytest.fixture
def deployment(tmp_path):
    (tmp_path / "code" / "out").mkdir(parents=True)
    for name in (
        "job.sh",
        "output.log",
        "metrics.json",
        "code/train.py",
        "code/model.pt",
        "code/out/a.txt",
        "code/out/b.txt",
    ):
        (tmp_path / name).write_text(name)
    return tmp_path


def paths(deployment, outputs):
    return [each["path"] for each in results_of(deployment, outputs)["files"]]


def test_logs_and_metrics_always_come(deployment):
    found = results_of(deployment, [])["files"]
    assert [each["path"] for each in found] == ["output.log", "metrics.json", "job.sh"]
    assert all(len(each["sha256"]) == 64 and each["size"] for each in found)


def test_what_other_ranks_wrote_comes(deployment):
    (deployment / "ranks" / "1").mkdir(parents=True)
    (deployment / "ranks" / "1" / "error.log").write_text("x")
    assert "ranks/1/error.log" in paths(deployment, [])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("*.pt", ["code/model.pt"]), ("out", ["code/out/a.txt", "code/out/b.txt"]), ("out/*.txt", ["code/out/a.txt", "code/out/b.txt"]),
     ("out/a.txt", ["code/out/a.txt"]), ("none*", []), ("./*.pt", ["code/model.pt"]), ("./out//a.txt", ["code/out/a.txt"]),
     ("./out/", ["code/out/a.txt", "code/out/b.txt"]), ("**/*.pt", ["code/model.pt"]),
     ("out/**/*.txt", ["code/out/a.txt", "code/out/b.txt"]), ("**/a.txt", ["code/out/a.txt"])],
)  # fmt: skip
def test_declared_outputs(deployment, pattern, expected):
    assert paths(deployment, [pattern])[3:] == expected
    assert results_of(deployment, [pattern])["missing"] == ([] if expected else [pattern])


def test_links_do_not_lead_out(deployment, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("x")
    os.symlink(secret, deployment / "code" / "out" / "link")
    assert "code/out/link" not in paths(deployment, ["out"])


def test_a_link_that_nobody_can_follow_keeps_nothing_back(deployment):
    """To a name too long, and as one to a folder of somebody else's: pathlib raises at both."""
    (deployment / "ranks").mkdir()
    for name in ("code/out/link", "ranks/link"):
        os.symlink("x" * 300, deployment / name)
    assert paths(deployment, ["out"])[-2:] == ["code/out/a.txt", "code/out/b.txt"]


def test_the_folder_of_the_code_is_all_of_it(deployment):
    assert len(paths(deployment, ["."])) == len(paths(deployment, ["*"])) > 3


def test_nothing_was_deployed(tmp_path):
    assert paths(tmp_path / "none", ["*"]) == []
    assert results_of(tmp_path / "none", ["*", "*.pt"])["missing"] == ["*.pt"]


def test_a_name_that_is_no_text_keeps_nothing_else_back(deployment):
    (deployment / "code" / "out" / os.fsdecode(b"caf\xe9.txt")).write_text("latin-1")
    found = paths(deployment, ["out/*"])
    assert found[-2:] == ["code/out/a.txt", "code/out/b.txt"]
    assert results_of(deployment, ["out/*"])["unnamed"] == ["code/out/caf\\xe9.txt"]
    assert results_of(deployment, [])["unnamed"] == []


def test_what_travelled_is_no_output_unless_the_job_wrote_it_anew(deployment):
    files = [{"path": name} for name in ("train.py", "out/a.txt")]
    (deployment / "plan.json").write_text(json.dumps({"application": {"files": files}, "beside": [{"path": "b.txt"}]}))
    staged = (deployment / "plan.json").stat().st_mtime
    for name in ("train.py", "out/a.txt"):
        os.utime(deployment / "code" / name, (staged - 5, staged - 5))
    os.utime(deployment / "code" / "out" / "b.txt", (staged - 5, staged - 5))  # of an earlier attempt
    os.utime(deployment / "code" / "model.pt", (staged + 5, staged + 5))
    (deployment / "code" / "__pycache__").mkdir()
    (deployment / "code" / "__pycache__" / "train.cpython-313.pyc").write_text("x")
    assert paths(deployment, ["*"])[3:] == ["code/model.pt", "code/out/b.txt"]
    assert results_of(deployment, ["out/a.txt"])["missing"] == ["out/a.txt"]
    os.utime(deployment / "code" / "out" / "a.txt", (staged + 5, staged + 5))
    assert paths(deployment, ["*"])[3:] == ["code/model.pt", "code/out/a.txt", "code/out/b.txt"]


def test_what_no_output_names_is_told(deployment):
    assert results_of(deployment, ["out/a*", "*.py"])["left"] == {
        "count": 2,
        "size": 27,
        "names": ["model.pt", "out/b.txt"],
    }
    assert results_of(deployment, ["*"])["left"] == {"count": 0, "size": 0, "names": []}


def test_what_a_job_that_runs_removes_meanwhile_keeps_nothing_else_back(deployment, monkeypatch):
    def read(path):  # for a while, in which another checkpoint goes
        (deployment / "code" / "out" / "a.txt").unlink(missing_ok=True)
        return sha256_of(path)

    monkeypatch.setattr(results, "sha256_of", read)
    assert paths(deployment, ["*"])[3:] == ["code/model.pt", "code/out/b.txt", "code/train.py"]
