"""Data that a file of configuration names, and no source: such a file is what many scripts are given alone."""

from __future__ import annotations

import json

import pytest
from script_files import written

from modak_ansible.reading.drafts.draft import draft_of

SAID = {
    "data": {"train": "lists/train.txt", "folder": "rows/", "shards": ["shards/*.tar"], "gone": "lists/gone.txt"},
    "model": {"name": "nets", "steps": 3, "to": "out/m.pt", "sentence": "rows of text", "away": "/rows", "none": None},
}
FILES = ("lists/train.txt", "lists/other.txt", "rows/x.csv", "shards/1.tar", "nets/readme.txt", "out/m.pt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(SAID)),
        ("conf/a.yaml", json.dumps(SAID)),
        ("a.toml", "".join(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items()
                                                   if value is not None) for name, table in SAID.items())),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [["--config={}"], ["{}"], []])
def test_what_a_file_of_configuration_names_travels(tmp_path, name, text, words):
    for each in (name, *FILES):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text(text if each == name else "1")
    written(
        tmp_path,
        train=f"import torch\n{f'read({name!r})' if not words else ''}\nfor each in read():\n    torch.save(each, 'out/m.pt')\n",
    )
    draft = draft_of(tmp_path / "train.py", [word.format(name) for word in words])
    assert sorted(draft.files) == sorted(["train.py", name, "lists/train.txt", "rows", "shards"])
    assert ("data", f"rows, which {name} names; it travels with the script") in draft.findings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.gin", "train.data_dir = 'rows/one'\ntrain.lr = 0.1\n"),
        ("a.ini", "[data]\nfile: lists/a.txt  # comment\npath=rows\n"),
    ],
)
def test_files_of_lines_are_read(tmp_path, name, text):
    for each in ("rows/one/a", "lists/a.txt"):
        (tmp_path / each).parent.mkdir(parents=True)
        (tmp_path / each).write_text("1")
    (tmp_path / name).write_text(text)
    written(tmp_path, train=f"import torch\nread({name!r})\n")
    assert draft_of(tmp_path / "train.py").files[2:] == (["rows/one"] if name == "a.gin" else ["lists/a.txt", "rows"])


@pytest.mark.parametrize("text", ["{", "[1, 2", "\0", "x: !!python/object:os.system 1", "[\n" * 2000, "a = 1 = 2"])
@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a.toml"])
def test_one_that_is_damaged_names_nothing(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    written(tmp_path, train="import torch\n")
    assert draft_of(tmp_path / "train.py", ["--config", name]).files == ["train.py", name]


def test_what_one_names_elsewhere_is_brought_or_told(tmp_path):
    """As YOLO's data.yaml does: its folder may be a word alone, or lie beside the project."""
    project = tmp_path / "project"
    for each in ("project/own/1.jpg", "shared/set/1.jpg", "there/1.pt"):
        (tmp_path / each).parent.mkdir(parents=True)
        (tmp_path / each).write_text("1")
    (project / "data.yaml").write_text(
        f"path: own\nname: set\nmore: ../shared/set\nhere: {tmp_path}/there/1.pt\naway: /lustre/nobody/val.pt\noutput_dir: /lustre/out\n"
        f"listed: {[f'/lustre/list/{number}/a.jpg' for number in range(9)]}\n"
    )
    written(project, train="import torch\ntorch.save(read('data.yaml'), 'm.pt')\n")
    draft = draft_of(project / "train.py")
    assert draft.files == ["train.py", "data.yaml", "own"]
    assert [(each.source, each.mount_as) for each in draft.data] == [("../shared/set", "../shared/set")]
    told = [note.split(",")[0] for note in draft.notes]
    named = ["/lustre/list", "/lustre/nobody/val.pt", f"{tmp_path}/there/1.pt"]
    assert sorted(told) == sorted(f"it names {each} (data.yaml)" for each in named)
