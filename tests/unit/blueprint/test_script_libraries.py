"""Command lines that a library makes: hydra's overrides, absl's flags, and the dataclasses of Hugging Face's parser."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.reading.blueprint.script.hydra import hydra_of, hydra_of_script
from modak_ansible.reading.blueprint.script.options import options_of

HYDRA = """\
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg): pass
main()
"""
FIELDS = """\
from dataclasses import dataclass, field
from typing import Optional
from transformers import HfArgumentParser, TrainingArguments
from more import More
@dataclass
class Arguments:
    model_name: str
    rate: float = field(default=0.1, metadata={"aliases": ["--lr"]})
    fast: bool = True
    kind: Optional[str] = field(default="a", metadata={"choices": ["a", "b"]})
parser = HfArgumentParser((Arguments, More, TrainingArguments))
"""
FLAGS = """\
from absl import app, flags
flags.DEFINE_integer("epochs", 3, "Epochs.", short_name="e")
flags.DEFINE_enum("opt", "sgd", ["sgd", "adam"], "which")
flags.DEFINE_bool("amp", False, "amp")
flags.DEFINE_string("name", None, "Name")
flags.mark_flag_as_required("name")
app.run(print)
"""


@pytest.fixture
def configured(tmp_path):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "config.yaml").write_text(
        "defaults: [ { model: small }, _self_ ]\nepochs: 2\ndata_dir: data\nkey: ???\noptim: { lr: 0.1 }\n"
        "hydra: { run: { dir: 'runs/${now:%Y-%m-%d}' } }\n"
    )
    (tmp_path / "conf" / "model" / "small.yaml").write_text("width: narrow\n")
    (tmp_path / "conf" / "model" / "large.yaml").write_text("depth: deep\n")
    (tmp_path / "train.py").write_text(HYDRA)
    return tmp_path / "train.py"


def test_what_a_configuration_holds(configured):
    found = hydra_of_script(configured, ("model=large", "data_dir=/x"))
    assert found.folder == "conf"
    assert found.values["data_dir"] == "/x"
    assert found.values["model.depth"] == "deep"
    assert "model.width" not in found.values
    assert found.outputs == ("runs",)
    assert found.missing == ("key",)
    assert not found.changes_folder


@pytest.mark.parametrize(
    ("word", "problem", "hint"),
    [
        ("epochs=3", "", ""), ("epohs=3", "has no epohs in its configuration", "did you mean epochs?"),
        ("optim.lrr=3", "has no optim.lrr in its configuration", "did you mean lr?"), ("optim.lr=1", "", ""),
        ("model=lrage", "has no model/lrage.yaml in its configuration", "did you mean large?"),
        ("model=small,large", "", ""), ("model=null", "", ""), ("model=${x}", "", ""), ("+model=other", "", ""),
        ("model=large", "", ""), ("model.depth=3", "", ""), ("+new=1", "", ""), ("++optim.x=1", "", ""), ("~epochs", "", ""),
        ("hydra.run.dir=x", "", ""), ("hydra/launcher=joblib", "", ""), ("-m", "", ""),
        ("seed=1", "has no seed in its configuration", "valid: data_dir, epochs, hydra, key, model, optim"),
    ],
)  # fmt: skip
def test_an_override_is_judged_by_the_configuration(configured, word, problem, hint):
    assert hydra_of_script(configured, ()).problem(word)[0] == problem
    assert hint in hydra_of_script(configured, ()).problem(word)[1]


@pytest.mark.parametrize(
    ("words", "more"),
    [(("--config-name=other",), ""), ((), "ConfigStore.instance().store(name='x', node=X)"), ((), "")],
)
def test_what_nobody_can_tell_is_not_judged(configured, words, more):
    configured.write_text(HYDRA + more)
    if not words and not more:
        (configured.parent / "conf" / "model" / "large.yaml").write_text("# @package _global_\nseed: 1\n")
    assert hydra_of_script(configured, words).problem("seed=1") == ("", "")


SMALL = "defaults: [ { model: small } ]\n"


@pytest.mark.parametrize(
    ("files", "words", "missing"),
    [
        ({"model/small": "classes: ???\n"}, (), ("key", "model.classes")),
        ({"model/small": "classes: ???\n", "config": f"{SMALL}model: {{ classes: 10 }}\n"}, (), ()),
        ({"config": "defaults: [ { optional model: small } ]\nmodel: { width: ??? }\n"}, (), ()),
        ({"model/large": "# @package _global_\nkey: 1\n"}, ("model=large",), ()),
    ],
)
def test_what_has_a_value_in_any_file_is_not_missing(configured, files, words, missing):
    for name, text in files.items():
        (configured.parent / "conf" / f"{name}.yaml").write_text(text)
    assert hydra_of_script(configured, words).missing == missing


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("net/backbone/vit", "x: 1", "net/backbone=vit"),
        ("model/small", "defaults: [ /optim@opt: adam ]", "opt.lr=1"),
        ("lr-scheduler/cosine", "t: 1", "lr-scheduler=cosine"),
        ("config", "defaults: [ { model@net: small } ]\nkey: ???\n", "net.width=3"),
    ],
)
def test_names_that_groups_make_in_other_ways_are_not_judged(configured, name, text, word):
    path = configured.parent / "conf" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = hydra_of_script(configured, (word,))
    assert found.problem(word) == ("", "")
    assert not found.missing


@pytest.mark.parametrize(
    ("words", "outputs"),
    [((), ("outputs",)), (("-m", "lr=1,2"), ("multirun",)), (("hydra.run.dir=a/b",), ("a/b",)),
     (("hydra.run.dir=a/x${now:%H}",), ("a/x*",)), (("hydra.run.dir=${oc.env:HOME,${x}}/b",), ("*",))],
)  # fmt: skip
def test_where_a_run_writes(tmp_path, words, outputs):
    tree = ast.parse("from hydra import main as run\n@run(config_name='c')\ndef f(cfg): pass")
    found = hydra_of(tmp_path / "x.py", tree, words)
    assert found.outputs == outputs
    assert found.changes_folder  # as hydra 1.1 did, where no version_base is said


def test_fields_of_dataclasses_are_options_and_there_are_more(tmp_path):
    (tmp_path / "more.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass More:\n    depth: int = 2\n"
    )
    (tmp_path / "x.py").write_text(FIELDS)
    options = options_of(tmp_path / "x.py")
    assert list(options.missing(["rate"])) == ["--model_name"]
    assert list(options.missing(["model-name"])) == []
    for name in (
        "num_train_epochs",
        "do_train",
        "model_type",
        "rank",
        "debug",
    ):  # of TrainingArguments, or of a like one
        assert options.problem(name, "3") == ("", "")
    assert options.problem("model_nane", "3") == ("has no option --model_nane", "did you mean model_name?")
    assert options.problem("lr", "x")[0] == "takes a number for --lr, not x"
    assert options.problem("depth", "x")[0] == "takes a whole number for --depth, not x"
    assert options.problem("no_fast", True) == ("", "")
    assert options.problem("kind", "c")[0] == "does not know c for --kind"
    assert not options.are_all


def test_flags_are_options_and_there_are_more(tmp_path):
    (tmp_path / "x.py").write_text(FLAGS)
    options = options_of(tmp_path / "x.py")
    assert list(options.missing(["e"])) == ["--name"]
    assert options.problem("epohs", "3") == ("has no option --epohs", "did you mean epochs?")
    assert options.problem("verbosity", "1") == ("", "")
    assert options.problem("opt", "rmsprop")[0] == "does not know rmsprop for --opt"
    assert options.problem("noamp", True) == ("", "")
    assert options.problem("epochs", "many")[0] == "takes a whole number for --epochs, not many"


@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_stands_in_a_configuration_it_is_read_or_left(tmp_path_factory, text, words):
    folder = tmp_path_factory.mktemp("hydra")
    (folder / "conf").mkdir()
    (folder / "conf" / "config.yaml").write_text(text, encoding="utf-8")
    (folder / "x.py").write_text(HYDRA)
    found = hydra_of_script(folder / "x.py", words)
    assert all(isinstance(found.problem(word), tuple) for word in words)
    assert all(isinstance(value, str) for value in found.values.values())


@pytest.mark.parametrize("main", ["defaults: 5\n", "defaults: true\n", "a: &x { b: *x }\n"])
def test_a_configuration_that_hydra_would_not_take_tells_nothing(configured, main):
    (configured.parent / "conf" / "config.yaml").write_text(main)
    assert hydra_of_script(configured, ()).problem("seed=1") == ("", "")


def test_a_configuration_folder_of_a_name_that_is_too_long_is_none(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(HYDRA.replace('"conf"', f'"{"a" * 300}"'))
    assert hydra_of_script(script, ()).folder == ""


@pytest.mark.parametrize("aliases", ["None", "5"])
def test_aliases_that_are_no_names_are_none(tmp_path, aliases):
    script = tmp_path / "train.py"
    script.write_text(FIELDS.replace('["--lr"]', aliases))
    assert options_of(script).meant("rate")[0].names == ("--rate",)


def test_a_flag_that_another_module_defines_is_needed_where_it_is_marked(tmp_path):
    """As ml_collections' DEFINE_config_file does."""
    script = tmp_path / "train.py"
    script.write_text(
        FLAGS.replace('flags.mark_flag_as_required("name")', 'flags.mark_flags_as_required(["config", "name"])')
    )
    assert list(options_of(script).missing([])) == ["--config", "--name"]


@pytest.mark.parametrize("marked", ["flags.mark_flag_as_required(5)", "flags.mark_flags_as_required([['name']])"])
def test_flags_that_are_marked_by_no_name_are_not_needed(tmp_path, marked):
    script = tmp_path / "train.py"
    script.write_text(FLAGS.replace('flags.mark_flag_as_required("name")', marked))
    assert list(options_of(script).missing([])) == []
