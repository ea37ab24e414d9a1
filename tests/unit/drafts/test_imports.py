"""What a script imports, read from its source: its own files, and the modules of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from script_files import written

from modak_ansible.errors import ModakError, UsageError
from modak_ansible.reading.drafts.draft import draft_of
from modak_ansible.reading.drafts.imports import BrokenScript, read_code


def script_in(folder, **files):
    written(folder, **files)
    return folder / "train.py"


def test_its_own_files_are_followed_and_others_are_told_with_their_place(tmp_path):
    script = script_in(
        tmp_path,
        train="import os, torch\nfrom lib import nets\nimport conf\nfrom pkg.inner.deep import x\n",
        lib__nets="import einops\nfrom . import blocks\nfrom .blocks import Block\n",
        lib__blocks="import torch.nn as nn, yaml\n",
        conf="import yaml\n",
        pkg__inner__deep="import tqdm\n",
        unused="import pandas\n",
    )
    code = read_code(script)
    assert code.files == ["conf.py", "lib/blocks.py", "lib/nets.py", "pkg/inner/deep.py", "train.py"]
    assert sorted(code.modules) == ["einops", "torch", "tqdm", "yaml"]
    assert code.modules["torch"].place in ("train.py:1", "lib/blocks.py:1")
    assert code.modules["einops"].place == "lib/nets.py:1"


def test_what_may_be_missing_is_told_apart_and_types_are_left_out(tmp_path):
    script = script_in(
        tmp_path,
        train="""\
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import mypy_extensions
try:
    import wandb
except ImportError:
    wandb = None
try:
    import torch
finally:
    pass
def late():
    import einops
""",
    )
    modules = read_code(script).modules
    assert {name: each.is_optional for name, each in modules.items()} == {
        "wandb": True, "torch": False, "einops": False,
    }  # fmt: skip


def test_a_file_that_is_called_like_a_module_goes_before_it(tmp_path):
    script = script_in(tmp_path, train="import yaml\nimport random\n", yaml="import json\n", random="")
    assert read_code(script).files == ["random.py", "train.py", "yaml.py"]
    assert not read_code(script).modules


@pytest.mark.parametrize(
    ("text", "place"), [("import torch\ndef f(:\n", ":2:7: "), ("print 'x'\n", ":1:1: "), ("x = '\0'\n", "")]
)
def test_what_is_no_python_is_told_with_its_place(tmp_path, text, place):
    script = script_in(tmp_path, train="import broken\n", broken=text)
    with pytest.raises(BrokenScript, match="this is not Python 3") as caught:
        read_code(script)
    assert f"broken.py{place}" in str(caught.value)


def test_notebooks_and_missing_files_are_told_as_that(tmp_path):
    with pytest.raises(UsageError, match="nbconvert"):
        read_code(tmp_path / "x.ipynb")
    with pytest.raises(UsageError, match="there is no script"):
        read_code(tmp_path / "x.py")
    for name, hint in (
        ("torchrun", "give the script alone, which a job starts by itself"),
        ("https:/example.org/x/y.git", "git clone it first, and give the path of its script"),
    ):
        with pytest.raises(UsageError) as caught:
            read_code(Path(name))
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("empty.py", b"", "empty.py has nothing that would run", "the script that trains"),
        ("words.py", b'"""Only words."""\n# and a comment\n...\npass\n', "has nothing that would run", ""),
        ("latin.py", b"name = '\xe9'\n", "this is not UTF-8", "coding: latin-1"),
        ("comment.py", b"x = 1\n# caf\xe9\n", "comment.py:2:6: this is not UTF-8", "coding: latin-1"),
        ("wide.py", "print(1)\n".encode("utf-16"), "this is no", "save it as UTF-8"),
        ("train.R", b"x <- 1\n", "is a script of R", "the Python script"),
        ("train.sh", b"echo\n", "is a script of the shell", "the Python script"),
        ("Makefile", b"all:\n\tpython train.py\n", "is a Makefile", "the Python script"),
    ],
)
def test_what_is_no_script_is_told_with_what_to_do(tmp_path, name, content, message, hint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModakError) as caught:
        read_code(tmp_path / name)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_folders_and_links_to_nothing_are_told_as_that(tmp_path):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "folder.py" / "inner.py").write_text("print(1)\n")
    (tmp_path / "link.py").symlink_to("/nowhere/train.py")
    with pytest.raises(UsageError, match="is a folder, not a script") as caught:
        read_code(tmp_path / "folder.py")
    assert caught.value.hint == "give the script: inner.py"
    with pytest.raises(UsageError, match="is a link to /nowhere/train.py"):
        read_code(tmp_path / "link.py")


@given(st.text())
def test_whatever_is_in_a_file_it_is_read_or_refused(tmp_path_factory, text):
    script = tmp_path_factory.getbasetemp() / "any.py"
    script.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        read_code(script)
    except ModakError as error:
        assert error.message


@pytest.mark.parametrize(
    ("call", "files"),
    [
        ("import_module('models.' + name)", ["models/deep/large.py", "models/small.py"]),
        ("import_module(f'models.{name}')", ["models/deep/large.py", "models/small.py"]),
        ("import_module(f'.{name}', package='models.deep')", ["models/deep/large.py"]),
        ("import_module('models.small')", ["models/small.py"]),
        ("import_module(name)", []),
        ("import_module('.' + name, __package__)", []),
    ],
)
def test_what_a_script_imports_by_a_name_of_its_own_making_is_brought(tmp_path, call, files):
    script = script_in(
        tmp_path,
        train=f"import importlib\nname = input()\nimportlib.{call}\n",
        models__small="import yaml\n",
        models__deep__large="import yaml\n",
        models__broken="print 'Python 2'\n",
        other="",
    )
    code = read_code(script)
    assert code.files == [*files, "train.py"]
    assert list(code.modules) == (["yaml"] if files else [])


@pytest.mark.parametrize("folder", ["'lib'", "os.path.join(os.path.dirname(__file__), 'lib')", "str(HERE / 'lib')"])
def test_a_folder_that_a_script_has_python_look_in_holds_its_own(tmp_path, folder):
    script = script_in(
        tmp_path,
        train="import os, sys\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
        f"sys.path.append({folder})\nsys.path.insert(0, '..')\nimport nets\n",
        lib__nets="import blocks, tqdm\n",
        lib__blocks="",
    )
    code = read_code(script)
    assert code.files == ["lib/blocks.py", "lib/nets.py", "train.py"]
    assert list(code.modules) == ["tqdm"]


def test_a_package_that_imports_its_parts_by_their_names_brings_itself_alone(tmp_path):
    script = script_in(tmp_path, train="import parts.some\n", parts__some="", parts__more="", other="")
    some = tmp_path / "parts" / "some.py"
    for dots, brought in ((".", ["parts/more.py"]), ("..", [])):
        some.write_text(f"import importlib\nimportlib.import_module('{dots}' + input(), __package__)\n")
        assert read_code(script).files == [*brought, "parts/some.py", "train.py"]


def test_a_class_that_the_source_names_in_a_text_travels(tmp_path):
    (tmp_path / ".git").mkdir()
    written(
        tmp_path,
        train="import torch, tools\nkinds = {'net': 'nets.deep.Net', 'log': 'tools.log', 'data': 'nets.csv'}\n",
        tools="def make(name):\n    return importlib.import_module(name)\n",
        nets__deep="import einops\nfrom . import parts\nclass Net: pass\n",
        nets__parts="",
        nets__unused="import elsewhere\n",
    )
    (tmp_path / "nets" / "__init__.py").write_text("")
    draft = draft_of(tmp_path / "train.py")
    assert draft.files == ["tools.py", "train.py", "nets/__init__.py", "nets/deep.py", "nets/parts.py"]
    assert draft.requirements == ["einops"]


def test_code_in_a_folder_elsewhere_that_python_is_told_to_look_in_is_asked_of_no_index(tmp_path):
    (tmp_path / ".git").mkdir()
    written(
        tmp_path,
        main__one__train="import sys\nsys.path.insert(0, '../../tools/')\nfrom drawing import figure\nfigure()\n",
        tools__drawing="",
    )
    draft = draft_of(tmp_path / "main" / "one" / "train.py")
    assert draft.requirements == []
    (note,) = draft.notes
    assert note.startswith("drawing, which train.py:3 imports, lies in ../../tools/drawing.py, and only what is beside")


def test_a_repository_with_an_init_and_a_name_that_python_cannot_import_is_no_package(tmp_path):
    (tmp_path / "my-papers" / ".git").mkdir(parents=True)
    written(tmp_path / "my-papers", one__train="from one import nets\ndef main(): pass\n", one__nets="")
    (tmp_path / "my-papers" / "__init__.py").write_text("")
    (note,) = draft_of(tmp_path / "my-papers" / "one" / "train.py").notes
    assert note.endswith("lies beside one/ and starts it: from one.train import main; main()")


def test_what_no_index_has_is_not_taken_for_what_it_has_by_that_name(tmp_path):
    written(tmp_path, train="import torch\nfrom apex import amp\nimport clip, dora.log\n")
    draft = draft_of(tmp_path / "train.py")
    assert draft.requirements == ["dora-search"]
    assert [note.partition(":")[0] for note in draft.notes] == [
        "apex, which train.py", "clip, which train.py",
    ]  # fmt: skip
    (tmp_path / "requirements.txt").write_text("clip==0.2.0\n")
    assert "clip==0.2.0" in draft_of(tmp_path / "train.py").requirements


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run(['torchrun', '--nproc_per_node=4', 'nets/train.py', '--lr', '0.1'])",
        "subprocess.check_call([sys.executable, '-m', 'nets.train'])",
        "os.system(f'python nets/train.py --lr {lr} --data x.csv')",
        "subprocess.Popen('accelerate launch ./nets/train.py', shell=True)",
    ],
)
def test_a_script_that_another_one_starts_is_its_own(tmp_path, start):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "train.py").write_text("import torch\n")
    (tmp_path / "run.py").write_text(f"import os, subprocess, sys\n{start}\nos.system('ls gone.py')\n")
    code = read_code(tmp_path / "run.py")
    assert (code.files, "torch" in code.modules) == (["nets/train.py", "run.py"], True)
