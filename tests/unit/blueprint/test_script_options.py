"""Arguments are judged by what the script's own source declares, and only where that leaves no doubt."""

from __future__ import annotations

import argparse
import contextlib
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.script.options import default_epochs, options_of

PLAIN = """\
import argparse

def main():
    parser = argparse.ArgumentParser(description="trains")
    parser.add_argument("--epochs", "-e", type=int, default=3)
    parser.add_argument("--batch-size", "--batch_size", type=int, choices=[64, 128])
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    group = parser.add_argument_group("more")
    group.add_argument("--verbose", action="store_true")
    group.add_argument("--amp", action=argparse.BooleanOptionalAction)
    parser.add_argument("--data", required={required})
    arguments = parser.parse_args({words})
{more}
main()
"""


def script(folder, text, **files):
    (folder / "train.py").write_text(text)
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    return options_of(folder / "train.py")


def plain(folder, words="", more="", required="False", **files):
    return script(folder, PLAIN.format(words=words, more=more, required=required), **files)


@pytest.mark.parametrize(
    ("name", "value", "problem", "hint"),
    [
        ("epochs", "3", "", ""),
        ("e", "3", "", ""),
        ("epoch", "3", "", ""),  # its beginning
        ("batch-size", "64", "", ""),
        ("batch_size", "128", "", ""),
        ("optimizer", "adam", "", ""),
        ("verbose", True, "", ""),
        ("verbose", False, "", ""),
        ("nothing", False, "", ""),  # is left out
        ("no-amp", True, "", ""),
        ("epochs", "{after:x}/epochs", "", ""),
        ("data", "{dataset}", "", ""),
        ("epochz", "3", "has no option --epochz", "did you mean epochs?"),
        ("x", "3", "has no option -x", ""),
        ("epochs", "three", "takes a whole number for --epochs, not three", ""),
        ("epochs", True, "needs a value for --epochs", ""),
        ("batch-size", "65", "does not know 65 for --batch-size", "valid: 64, 128"),
        ("optimizer", "lamb", "does not know lamb for --optimizer", "valid: sgd, adam"),
        ("verbose", "1", "takes no value for --verbose, and 1 is given", "verbose: true, or leave it out"),
    ],
)
def test_what_a_plain_script_takes(tmp_path, name, value, problem, hint):
    options = plain(tmp_path)
    assert options.are_all
    found = options.problem(name, value)
    assert found[0] == problem
    assert hint in found[1]


@pytest.mark.parametrize(("declared", "name", "given"), [("--n", "n", "-n"), ("-lr", "lr", "--lr")])
def test_an_option_with_other_dashes_than_it_is_given_with(tmp_path, declared, name, given):
    source = f'import argparse\np = argparse.ArgumentParser()\np.add_argument("{declared}")\np.parse_args()\n'
    options = script(tmp_path, source)
    hint = f'it declares {declared}, and is given {given}: have it declare "{given}", too'
    assert options.problem(name, "1") == (f"has no option {given}", hint)


def test_an_option_without_which_it_does_not_start(tmp_path):
    assert list(plain(tmp_path, required="True").missing(["epochs"])) == ["--data"]
    assert list(plain(tmp_path, required="True").missing(["dat"])) == []
    assert list(plain(tmp_path, required="not HERE").missing([])) == []


@pytest.mark.parametrize(
    "text",
    [
        "print('nothing')",
        "def broken(:",
        PLAIN.replace("parse_args(", "parse_known_args("),
        PLAIN.replace('"--epochs"', 'f"--{NAME}"'),
        PLAIN.replace('"--epochs"', "*NAMES"),
        PLAIN.replace("(description", "(parents=[OTHER], description"),
        PLAIN.replace("import argparse", "import argparse\nMine = type('Mine', (argparse.ArgumentParser,), {})"),
        PLAIN.replace("    arguments =", "    lightning.Trainer.add_argparse_args(parser)\n    arguments ="),
        PLAIN.replace("    arguments =", "    later(parser.add_argument)\n    arguments ="),
        PLAIN.replace("    arguments =", "    holder = [parser]\n    arguments ="),
        PLAIN.replace("    arguments =", "    other = parser\n    arguments ="),
        PLAIN.replace("    arguments =", "    register(parser.add_subparsers())\n    arguments ="),
        PLAIN.replace("    arguments =", "    s = parser.add_subparsers()\n    for each in ALL: each.add(s)\n    arguments ="),
        PLAIN.replace("    arguments =", "    parser.add_subparsers().add_parser('fit', parents=[X])\n    arguments ="),
        PLAIN.replace("    arguments =", "    parser._actions.pop()\n    arguments ="),
        PLAIN.replace("parser = argparse.ArgumentParser", "parser = wrapped(argparse.ArgumentParser").replace('trains")', 'trains"))'),
        "from transformers import HfArgumentParser\nparser = HfArgumentParser(X)\nparser.add_argument('--x')\nparser.parse_args()",
    ],
)  # fmt: skip
def test_what_is_made_at_run_time_is_not_judged(tmp_path, text):
    assert script(tmp_path, text.replace("{words}", "").replace("{more}", "").replace("{required}", "False")) is None


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ({"words": "WORDS"}, {}),
        ({"more": "    class Mine(argparse.ArgumentParser): pass"}, {}),
        ({"more": "    import sys\n    sys.argv.append('--x')"}, {}),
        ({"more": "    def add(p): p.add_argument('--late')\n    add(parser)"}, {}),
        ({"more": "    import common\n    common.add(parser)"}, {"common": "def add(p): p.add_argument('--late')"}),
        ({"more": "    from common import add\n    add(parser)"}, {"common": "def add(p): p.add_argument('--late')"}),
        ({"more": "    from common import more"}, {"common": "import argparse\nmore = argparse.ArgumentParser()"}),
    ],
)
def test_a_doubt_is_said_and_refuses_nothing(tmp_path, text, files):
    options = plain(tmp_path, **text, **files)
    assert not options.are_all
    assert options.problem("epochz", "1")[0]
    assert not options.problem("epochs", "1")[0]
    assert options.problem("late", "1")[0] == ("" if "late" in str([text, files]) else "has no option --late")


def test_a_parser_that_comes_from_a_file_beside_the_script(tmp_path):
    common = "import argparse\ndef made():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--epochs')\n    return parser\n"
    text = "from common import made\nparser = made()\nparser.add_argument('--own')\nparser.parse_args()\n"
    options = script(tmp_path, text, common=common)
    assert [options.problem(name, "1")[0] for name in ("epochs", "own")] == ["", ""]
    assert not options.are_all
    assert script(tmp_path, text.replace("common", "elsewhere"), common=common) is None


def test_another_name_for_add_argument(tmp_path):
    options = plain(tmp_path, more="    add = parser.add_argument\n    add('--late')")
    assert options.are_all
    assert not options.problem("late", "1")[0]


def test_the_switches_that_a_workload_names_are_options_of_its_script(root):
    script = root / "tosca/blueprints/mnist-pytorch-slurm/mnist_cnn/pytorch.py"
    assert options_of(script) is None
    options = options_of(script, ["memory_format"])
    assert not options.are_all
    assert options.problem("epochz", "3") == ("has no option --epochz", "did you mean epochs?")
    assert [options.problem(*each)[0] for each in (("epochs", "3"), ("memory-format", "contiguous"))] == ["", ""]


def test_all_words_of_the_command_line_are_what_a_parser_reads_by_itself(tmp_path):
    assert plain(tmp_path, words="__import__('sys').argv[1:]").are_all is False
    assert script(tmp_path, "import sys\n" + PLAIN.format(words="sys.argv[1:]", more="", required="False")).are_all


def test_click(tmp_path):
    text = (
        "import click\n@click.command()\n@click.option('--epochs', type=int, required=True)\n"
        "@click.option('--shout/--quiet')\n@click.option('-l', '--rate', 'lr', default=0.1)\n@click.argument('rest', nargs=-1)\n"
        "def main(epochs, shout, lr, rest): pass\nmain()\n"
    )
    options = script(tmp_path, text)
    assert options.are_all
    taken = [("epochs", "3"), ("quiet", True), ("rate", "1"), ("l", "1"), ("help", True)]
    assert [options.problem(*each)[0] for each in taken] == [""] * 5
    assert options.problem("epoch", "3") == ("has no option --epoch", "did you mean epochs?")
    assert options.problem("epochs", "x")[0] == "takes a whole number for --epochs, not x"
    assert list(options.missing([])) == ["--epochs"]
    assert script(tmp_path, text.replace("@click.command()", "@click.command(context_settings=ANY)")) is None
    assert script(tmp_path, text.replace("@click.argument", "@shared\n@click.argument")) is None
    assert script(tmp_path, text.replace("@click.command()", "@click.group()") + "main.add_command(other)\n") is None


GROUP = """
import click
@click.group()
@click.option("--debug/--no-debug")
def cli(debug): pass
@cli.command()
@click.argument("data")
@click.option("--epochs", type=int, required=True)
def fit(data, epochs): pass
@cli.group("db")
def other(): pass
@other.command()
@click.option("--epochs", type=float)
@click.option("--url")
def look(epochs, url): pass
cli()
"""
APP = """
import typer
app = typer.Typer()
@app.command()
def fit(data: str, epochs: int = 1): pass
@app.command()
def look(url: str = "x"): pass
app()
"""


@pytest.mark.parametrize(("text", "slip"), [(GROUP, "epcohs"), (APP, "ulr")])
def test_several_commands_of_click_or_typer(tmp_path, text, slip):
    options = script(tmp_path, text)
    assert not options.are_all, "another file may add some"
    assert options.problem(slip, "3")[0] == f"has no option --{slip}"
    assert [options.problem(*each)[0] for each in (("epochs", "x"), ("url", "x"))][1] == ""
    assert list(options.missing([])) == []
    assert (
        script(tmp_path, text.replace("app()\n", "app.add_typer(x)\n").replace("\ncli()", "\ncli.add_command(x)"))
        is None
    )


def test_typer(tmp_path):
    text = (
        "import typer\nfrom typing import Annotated\n"
        "def main(data: str, learning_rate: float = 0.1, verbose: bool = False, seed: Annotated[int, typer.Option('--seed', '-s')] = 1):\n"
        "    pass\ntyper.run(main)\n"
    )
    options = script(tmp_path, text)
    assert options.are_all
    taken = [("learning-rate", "1e-3"), ("verbose", True), ("no-verbose", True), ("s", "2")]
    assert [options.problem(*each)[0] for each in taken] == [""] * 4
    assert options.problem("learning_rate", "1") == ("has no option --learning_rate", "did you mean learning-rate?")
    assert options.problem("learning-rate", "fast")[0] == "takes a number for --learning-rate, not fast"


# --- against argparse itself

NAMES = st.lists(
    st.sampled_from(["-a", "-e", "--alpha", "--alpine", "--epochs", "--beta", "--beta-1"]),
    min_size=1,
    max_size=2,
    unique=True,
)
DETAILS = st.sampled_from(
    ["", ", type=int", ", type=float", ", choices=['1', 'x']", ", type=int, choices=(1, 2)", ", action='store_true'",
     ", nargs='?'", ", nargs='*'", ", required=True", ", action='append'", ", action='count'"]
)  # fmt: skip
VALUES = st.one_of(st.booleans(), st.sampled_from(["1", "2", "x", "1.5", "word"]))
GIVEN = st.sampled_from(
    ["a", "e", "alpha", "alp", "alpine", "epochs", "epoch", "beta", "beta-1", "beta-12", "b", "gamma"]
)


def test_the_whole_name_of_one_option_is_not_the_beginning_of_another(tmp_path):
    text = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data')\n"
    options = script(tmp_path, text + "parser.add_argument('--data-dir', required=True)\nparser.parse_args()\n")
    assert list(options.missing(["data"])) == ["--data-dir"]
    assert list(options.missing(["data-d"])) == []


@settings(suppress_health_check=list(HealthCheck))
@given(
    declared=st.lists(st.tuples(NAMES, DETAILS), min_size=1, max_size=4),
    words=st.dictionaries(GIVEN, VALUES, max_size=3),
)
def test_the_judgement_is_that_of_argparse(tmp_path, declared, words):
    lines = [f"parser.add_argument({', '.join(map(repr, names))}{details})" for names, details in declared]
    source = "\n".join(["import argparse", "parser = argparse.ArgumentParser()", *lines])
    scope = {}
    try:
        exec(source, scope)
    except argparse.ArgumentError:
        return  # a name is declared twice
    options = script(tmp_path, f"{source}\nparser.parse_args()\n")
    assert options.are_all
    refused = [options.problem(name, value)[0] for name, value in words.items()]
    refused += options.missing([name for name, value in words.items() if value is not False])
    line = []
    for name, value in words.items():
        if value is not False:
            line += [f"-{name}" if len(name) == 1 else f"--{name}", *([] if value is True else [value])]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            scope["parser"].parse_args(line)
    except SystemExit:
        assert any(refused), line
    else:
        assert not any(refused), (line, refused)


# --- where it is said


def check(blueprint, text, arguments="epochs: 3", more=""):
    (blueprint.path / "train" / "train.py").write_text(text)
    blueprint.replace(
        "          epochs: { get_input: epochs }\n          batch-size: 128\n", f"          {arguments}\n{more}"
    )
    mistakes, warnings = Mistakes(), Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes, warnings)
    return [
        [str(each).replace(str(blueprint.service), "service.yaml") for each in found] for found in (mistakes, warnings)
    ]


def test_an_argument_that_the_script_does_not_know_is_a_mistake_with_its_place(blueprint):
    found = check(blueprint, PLAIN.format(words="", more="", required="False"), "epochz: 3")
    assert found == [["service.yaml:40:19: argument: train.py has no option --epochz (did you mean epochs?)"], []]


def test_a_doubtful_one_is_a_warning(blueprint):
    found = check(blueprint, PLAIN.format(words="WORDS", more="", required="False"), "epochz: 3")
    expected = "service.yaml:40:19: argument: train.py has no option --epochz, as far as its source shows (did you mean epochs?)"
    assert found == [[], [expected]]


def test_a_value_of_a_sweep_is_judged_where_it_stands(blueprint):
    more = "        sweep: { optimizer: [ sgd, lamb ] }\n"
    found = check(blueprint, PLAIN.format(words="", more="", required="False"), "optimizer: sgd", more)
    assert found == [
        ["service.yaml:41:29: argument: train.py does not know lamb for --optimizer (valid: sgd, adam)"],
        [],
    ]


def test_an_option_that_is_needed_and_not_given(blueprint):
    found = check(blueprint, PLAIN.format(words="", more="", required="True"))
    assert found == [["service.yaml:40:11: argument: train.py does not start without --data (data: its value)"], []]


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.add_argument('out', nargs='?')\n"
         "p.add_argument('more', nargs=argparse.REMAINDER)\np.add_argument('--lr')\np.parse_args()\n", ["data"]),
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('files', nargs='+')\np.add_argument('--lr')\np.parse_args()\n", ["files"]),
        ("import click\n@click.command()\n@click.argument('data')\n@click.argument('out', default='x')\n"
         "@click.argument('more', nargs=-1)\n@click.option('--lr')\ndef main(data, out, more, lr): pass\nmain()\n", ["data"]),
        ("import typer\napp = typer.Typer()\n@app.command()\ndef main(data: str, out: str = typer.Argument('x'),\n"
         "  more: str = typer.Argument(...), lr: float = 0.1): pass\napp()\n", ["data", "more"]),
        ("import typer\nfrom typing import Annotated\ndef main(data: Annotated[str, typer.Argument()],\n"
         "  out: Annotated[str, typer.Argument()] = 'x', lr: Annotated[float, typer.Option()] = 1): pass\ntyper.run(main)\n", ["data"]),
    ],
)  # fmt: skip
def test_a_place_that_is_needed_and_not_given(blueprint, source, needed):
    expected = [
        f"service.yaml:40:11: argument: train.py does not start without {name} (words: [ {name.upper()} ])"
        for name in needed
    ]
    assert check(blueprint, source, "lr: 1") == [expected, []]


def test_a_place_that_is_given_by_words(blueprint):
    source = "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.add_argument('--lr')\np.parse_args()\n"
    assert check(blueprint, source, "lr: 1", '        words: [ "a" ]\n') == [[], []]


def test_a_request_is_judged_too(tmp_path):
    from example_request import TRAINING, RequestFolder

    folder = RequestFolder(tmp_path / "request", TRAINING)
    (folder.path / "train" / "train.py").write_text(PLAIN.format(words="", more="", required="False"))
    mistakes = Mistakes()
    assert check_blueprint(folder.file, Inputs(), mistakes)
    folder.set("application/arguments", "--epochs 3 --dta {dataset}")
    mistakes = Mistakes()
    check_blueprint(folder.file, Inputs(), mistakes)
    [found] = [str(mistake) for mistake in mistakes]
    assert "argument: train.py has no option --dta (did you mean data?)" in found


OF_COMMANDS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
commands = parser.add_subparsers(dest="command", required=True)
fit = commands.add_parser("fit", aliases=["train"])
fit.add_argument("data")
fit.add_argument("--epochs", type=int, required=True)
fit.set_defaults(act=print)
look = commands.add_parser("look")
look.add_argument("--epochs", type=float)
look.add_argument("--epoch-size")
parser.parse_args()
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("[ fit, a.csv, --epcohs, '3' ]", "train.py has no option --epcohs (did you mean epochs?)"),
        ("[ fit, a.csv, --epochs, '3' ]", ""), ("[ train, a.csv ]", ""), ("[ look, --epoch, '3' ]", ""), ("[ look ]", ""),
    ],
)  # fmt: skip
def test_options_of_commands_are_those_of_one_of_them(blueprint, words, said):
    mistakes, _ = check(blueprint, OF_COMMANDS, "seed: 1", f"        words: {words}\n")
    assert [each.partition("argument: ")[2] for each in mistakes] == ([said] if said else [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("[ a, --arch, resnet34 ]", "train.py does not know resnet34 for --arch (valid: resnet18, resnet50)"),
        ("[ a, --arch=resnet34 ]", "train.py does not know resnet34 for --arch (valid: resnet18, resnet50)"),
        ("[ a, -b, 1e3 ]", "train.py takes a whole number for -b, not 1e3"), ("[ a, -c, '3' ]", "train.py has no option -c (valid: arch, b, batch, quiet, rate, steps)"),
        ("[ --quiet, a, -b, '64', --arch, resnet18 ]", ""), ("[ a, --rate, '-1' ]", ""), ("[ a, --steps, x, y ]", ""),
        ("[ a, --rate, '{dataset}' ]", ""), ("[ a, --, --arch, resnet34 ]", ""),
    ],
)  # fmt: skip
def test_the_values_of_options_among_words_are_judged_too(blueprint, words, said):
    """As beside what is given by its place, which keeps a command line from being arguments by name."""
    source = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('data', nargs='+')\n"
        "p.add_argument('-b', '--batch', type=int)\np.add_argument('--arch', choices=['resnet18', 'resnet50'])\n"
        "p.add_argument('--quiet', action='store_true')\np.add_argument('--rate', type=float)\n"
        "p.add_argument('--steps', nargs='+')\np.parse_args()\n"
    )
    mistakes, _ = check(blueprint, source, "rate: 1", f"        words: {words}\n")
    assert [each.partition("argument: ")[2] for each in mistakes] == ([said] if said else [])


@pytest.mark.parametrize(
    ("declared", "number"),
    [
        ({"--epochs": 3}, 3), ({"--num-epochs": 4, "--warmup-epochs": 1}, 4), ({"--batch-size": 3}, None), ({"--epochs": None}, None),
        ({"--epochs": 3.0}, 3), ({"--epochs": 3, "--save-every-epochs": 2}, 3), ({"--epochs": 3, "--pretrain-epochs": 8}, None),
    ],
)  # fmt: skip
def test_the_epochs_of_a_script_are_known_where_its_source_says_one_number(tmp_path, declared, number):
    lines = [f"p.add_argument('{name}', type=int, default={default})" for name, default in declared.items()]
    (tmp_path / "train.py").write_text(
        "\n".join(["import argparse", "p = argparse.ArgumentParser()", *lines, "p.parse_args()"])
    )
    assert default_epochs(tmp_path / "train.py") == number
    assert default_epochs(tmp_path / "none.py") is None


@pytest.mark.parametrize(
    ("other", "certain"),
    [
        ("[p for p in Path('.').iterdir() if p.is_dir()]", True), ("sorted(x, key=lambda p: p.size)", True),
        ("{p.name: p for p in x}", True), ("p.register('type', 'x', int)", False), ("[q for q in x if p.something()]", False),
    ],
)  # fmt: skip
def test_a_parser_s_name_may_stand_for_something_else_within_a_comprehension(blueprint, other, certain):
    source = f"import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\nx = {other}\n"
    mistakes, _ = check(blueprint, source, "rl: 1")
    assert bool(mistakes) == certain


SCORES = """\
import argparse
def add(p): p.add_argument("--checkpoint", required=True)
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.parse_args()
"""
GUARD = "if __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    ("more", "guard", "needed"),
    [
        ("p = argparse.ArgumentParser()\np.parse_args()\n", "", []),
        ("p = argparse.ArgumentParser()\nevaluate.add(p)\np.parse_args()\n", "", ["--checkpoint"]),
        ("evaluate.main()\n", "", ["--checkpoint"]),
        ("evaluate.score()\n", GUARD, []),
    ],
)
def test_what_an_imported_script_needs_is_not_needed_of_the_script(tmp_path, more, guard, needed):
    options = script(tmp_path, f"import argparse\nimport evaluate\n{more}", evaluate=SCORES + guard)
    assert list(options.missing([])) == needed
    assert options.problem("checkpoint", "x") == ("", "")


def test_an_option_that_is_declared_twice_is_one(tmp_path):
    text = """\
import argparse, sys
p = argparse.ArgumentParser()
if sys.platform == "linux":
    p.add_argument("--device", choices=["cpu", "cuda"], required=True)
else:
    p.add_argument("--device", choices=["cpu", "mps"], required=True)
p.add_argument("--device-id")
p.parse_args()
"""
    options = script(tmp_path, text)
    assert options.problem("device", "mps") == ("", "")
    assert options.problem("devic", "cuda")[0] == "cannot tell whether --devic is --device or --device-id"
    assert options.problem("device", "tpu")[0] == "does not know tpu for --device"
    assert list(options.missing([])) == ["--device"]


@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        ("nargs='+', type=int", 'words: [ --layers, "64", "32" ]'),
        ("type=int", "give it one; sweep: { layers: [ ... ] } trains with each"),
        ("action='append'", ""),
        ("action='extend', nargs='+'", ""),
    ],
)
def test_of_several_values_the_last_alone_would_count(blueprint, declared, hint):
    source = f"import argparse\np = argparse.ArgumentParser()\np.add_argument('--layers', {declared})\np.parse_args()\n"
    said = f"service.yaml:40:19: argument: train.py keeps only the last of 2 values for --layers ({hint})"
    assert check(blueprint, source, "layers: [ 64, 32 ]") == [[said] if hint else [], []]
