"""A script of any name is either refused with the reason or goes, as it is, from init into a job's script."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modak_ansible.errors import UsageError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.drafts.draft import draft_of
from modak_ansible.reading.drafts.text import text_of

SCRIPT = 'print(open("table [1].csv").read())\n'
REFUSED = ["-x.py", "~.py", "~alice.py", ".train.py", "a\nb.py", "tab\t.py", "\x1b[31m.py"]
ODD = [
    "a b.py", "it's.py", 'q"q.py', "tränîng.py", "$HOME.py", "`id`.py", "a;b.py", "*.py", "a[1].py", "train.PY", "train",
    "{dataset}.py", "{script}.py", "x%d.py", "#x.py", "a\\b.py", "!x.py", "&.py", "=x.py", "@x.py", "n.py.py", "null.py",
]  # fmt: skip


def planned(folder, name):
    """The plan of a script, from what init would write of it."""
    (folder / name).write_text(SCRIPT)
    (folder / "table [1].csv").write_text("1,2\n")
    draft = draft_of(folder / name)
    (folder / "service.yaml").write_text(text_of(draft))
    return plan_blueprint(folder / "service.yaml", Inputs())[0]


def check(folder, name):
    plan = planned(folder, name)
    travels = {file.path for file in plan.application.files}
    assert travels == {name, "table [1].csv"}
    script = plan.job.script
    ended = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    # as one word, whatever it is made of, and not behind an option's dash
    words = [word for line in script.splitlines() if name in line.replace("'\"'\"'", "'") for word in _words(line)]
    assert name in words or any(word.endswith(f"/{name}") for word in words)


def _words(line):
    try:
        return shlex.split(line.rstrip("\\"))
    except ValueError:
        return []


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_no_command_line_takes_is_refused_with_the_reason(tmp_path, name):
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, name)
    assert caught.value.hint == "rename it"
    assert caught.value.message.isprintable()
    assert not (tmp_path / "service.yaml").exists()


@pytest.mark.component
@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_goes_as_it_is(tmp_path, name):
    check(tmp_path, name)


@pytest.mark.component
@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_so_does_any_other(text):
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(Path(folder), f"{text}.py")
        except UsageError as refusal:
            assert refusal.hint == "rename it"
