"""Texts of a script, words of its command line and files beside it that are not what they seem to be."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.reading.drafts.draft import draft_of

# Letters of three bytes each: too long for a name, though a path may have as many letters.
PROMPT = "请用中文写一首关于高性能计算的诗" * 10


@pytest.fixture
def script(tmp_path):
    def written(text):
        path = tmp_path / "train.py"
        path.write_text(f"import torch\n{text}\ntorch.save({{}}, 'a.pt')\n", encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize(
    "text",
    [
        f"PROMPT = '{PROMPT}'", f"open('/{PROMPT}')", f"open('../{PROMPT}')",
        f"import argparse\np = argparse.ArgumentParser()\np.add_argument('--text', default='{PROMPT}')\np.parse_args()",
    ],
)  # fmt: skip
def test_a_text_that_is_too_long_for_a_name_is_no_path(script, text):
    draft = draft_of(script(text))
    assert (draft.data, draft.outputs) == ([], ["a.pt"])


@pytest.mark.parametrize("word", [PROMPT, f"--text={PROMPT}", f"/{'a' * 300}", f"~/{'a' * 300}", f"../{'a' * 300}"])
def test_a_word_that_is_too_long_for_a_name_is_no_path(script, word):
    draft = draft_of(script(""), ["go", word])
    assert (draft.words, draft.data) == (["go", word], [])


def test_what_may_not_be_looked_at_is_not_brought(script, monkeypatch):
    """As of /root/data, which another user's script has as its default."""
    path = script("import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', default='/root/x/data')\n"
                  "p.parse_args()\nopen('/root/x/more.csv')")  # fmt: skip
    stat = os.stat

    def refusing(place, *words, **more):
        if str(place).startswith("/root/x"):
            raise PermissionError(13, "Permission denied", str(place))
        return stat(place, *words, **more)

    monkeypatch.setattr(os, "stat", refusing)
    assert draft_of(path).data == []


def test_a_folder_that_may_not_be_listed_is_not_brought(script, tmp_path, monkeypatch):
    path, folder = script(""), tmp_path.parent / f"{tmp_path.name}-closed"
    folder.mkdir()

    def refusing(place):
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(Path, "iterdir", refusing)
    assert draft_of(path, ["go", str(folder)]).data == []


def test_a_link_that_leads_to_itself_is_no_data(script, tmp_path):
    path = script("open('../round')")
    link = tmp_path.parent / "round"
    link.symlink_to("round")
    try:
        assert draft_of(path).data == []
    finally:
        link.unlink()


def test_a_script_that_is_nested_too_deeply_is_refused_with_the_reason(script):
    with pytest.raises(ModakError, match="nested too deeply"):
        draft_of(script(f"f{'.g()' * 400}"))


def test_a_name_with_the_signs_of_a_pattern_is_brought_back_by_that_name(script):
    (output,) = set(draft_of(script("open(f'fold[{number}] a?.csv', 'w')")).outputs) - {"a.pt"}
    assert fnmatchcase("fold[3] a?.csv", output)
    assert not fnmatchcase("fold3 ab.csv", output)


def test_what_earlier_runs_wrote_below_such_a_name_is_neither_brought_nor_sent(script):
    path = script("import os, torch\nos.makedirs('runs[a]', exist_ok=True)\ntorch.save({}, 'runs[a]/last.pt')")
    (path.parent / "runs[a]").mkdir()
    for number in range(600):
        (path.parent / "runs[a]" / f"{number}.pt").write_text("x")
    draft = draft_of(path)
    assert draft.data == []
    assert not any("runs" in each for each in draft.files or ())


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("~", "the whole home folder"), ("/", "a folder of the system"), ("/usr", "a folder of the system"),
        (".", "the script's own folder"), ("..", "above the script"), ("link", "the whole home folder"),
    ],
)  # fmt: skip
def test_a_default_that_names_far_more_than_data_is_said_and_not_brought(script, tmp_path, monkeypatch, value, what):
    """A home holds keys and mail, and a project its history and its environments."""
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "private").write_text("nobody sends this")
    monkeypatch.setenv("HOME", str(home))
    path = script(
        f"import argparse\np = argparse.ArgumentParser()\np.add_argument('--data-dir', default='{value}')\np.parse_args()"
    )
    (path.parent / "link").symlink_to(home)
    found = draft_of(path)
    assert (found.data, found.arguments) == ([], {})
    assert any(
        note.startswith(f"{value} (which --data-dir names) is {what} and is not copied: give") for note in found.notes
    )
    assert [each.source for each in draft_of(path, ["--data-dir", "~/data"]).data] == ["~/data"]
