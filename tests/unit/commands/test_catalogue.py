"""modak catalogue: the table, an entry, and what becomes of builds; a playbook that a test has answered."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from modak_ansible.catalogue import adding, load_catalogue
from modak_ansible.catalogue.locking import File
from modak_ansible.commands.catalogue import build as catalogue_build
from modak_ansible.commands.catalogue.build import Builder, Result, print_summary
from modak_ansible.commands.catalogue.catalogue import app
from modak_ansible.deployment import playbook as deployment
from modak_ansible.deployment.playbook import PlaybookError, PlaybookRun
from modak_ansible.errors import TARGET_UNREACHABLE, ModakError, UsageError
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.measured.seen_image import LOOK, SeenImage
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.lists.refusals import known_refusals, note_refusal
from modak_ansible.store.lists.seen_images import note_image
from modak_ansible.store.project import find_blueprint
from modak_ansible.target.core.files import write_json

NAMES = ("pytorch-2.13-cpu", "tensorflow-2.21-cpu")


@pytest.fixture
def state(blueprint, monkeypatch):
    folder = blueprint.path / ".modak"
    folder.mkdir()
    monkeypatch.chdir(blueprint.path)
    return folder


def entries(*names):
    return [load_catalogue().entry(name) for name in names]


def refusal(name, reason="it crashed"):
    (entry,) = entries(name)
    return Refusal(
        entry=name, entry_digest=entry.digest, architecture="skylake_avx512", address="frontend.example",
        processor="Acme 9000", reason=reason, date="2026-11-21T13:00:00Z",
    )  # fmt: skip


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


# --- list and show


def test_all_entries_are_listed(state):
    rows = json.loads(call("list", "--json").stdout)
    assert {row["name"] for row in rows} == {entry.name for entry in load_catalogue().entries}
    assert call().stdout == call("list").stdout
    assert "pytorch-2.13-cpu" in call().stdout


def test_one_framework_is_listed(state):
    rows = json.loads(call("list", "--framework", "pytorch", "--json").stdout)
    assert {row["framework"] for row in rows} == {"pytorch"}
    with pytest.raises(UsageError, match="the catalogue has no pytroch"):
        CliRunner().invoke(app, ["list", "--framework", "pytroch"], catch_exceptions=False)


def test_what_the_project_knows_of_an_entry_is_listed(state, blueprint):
    note_refusal(state, refusal("tensorflow-2.21-cpu"))
    folder = plan_blueprint(blueprint.service, Inputs()).save()
    write_json(folder / "state.json", {"stages": {"image": {"state": "done"}}})
    states = {row["name"]: row["state"] for row in json.loads(call("list", "--json").stdout)}
    assert states["pytorch-2.13-cpu"] == "built on cluster"
    assert states["tensorflow-2.21-cpu"] == "refused on Acme 9000 (frontend.example)"
    untried = {entry.name for entry in load_catalogue().entries if entry.untried}
    assert {name for name, word in states.items() if word == "untried"} == untried


@pytest.mark.parametrize("name", [entry.name for entry in load_catalogue().entries])
def test_every_entry_is_shown_with_its_probe(name):
    shown = call("show", name).stdout
    assert shown.startswith(f"{name}\n")
    assert load_catalogue().entry(name).probe.strip().splitlines()[-1] in shown


def test_definitions_and_the_dockerfile_of_an_entry():
    shown = call("show", "pytorch-2.13-cpu", "--architecture", "zen5", "--definition").stdout
    assert "OSVersion" in shown
    assert "modak.target x86_64" in shown  # nothing in it is compiled for the processor
    compiled = call("show", "pytorch-2.13-cpu-opt", "--architecture", "zen5", "--definition").stdout
    assert "modak.target zen5" in compiled
    assert call("show", "pytorch-2.13-cpu", "--dockerfile").stdout.startswith("FROM debian")
    told = json.loads(call("show", "pytorch-2.13-cpu", "--definition", "--dockerfile", "--json").stdout)
    assert list(told["definitions"]) == ["debian-bookworm", "pytorch-2.13-cpu"]
    assert told["dockerfile"].startswith("FROM debian")
    assert told["framework"] == "pytorch"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pytorch-2.31-cpu"], "the catalogue has no entry pytorch-2.31-cpu"),
        (["pytorch-2.13-cpu", "--architecture", "zen99", "--definition"], "zen99 is not a processor"),
        (["pytorch-2.13-cpu", "--architecture", "zen99", "--dockerfile"], "zen99 is not a processor"),
    ],
)
def test_what_cannot_be_shown(arguments, words):
    with pytest.raises(UsageError, match=words) as caught:
        CliRunner().invoke(app, ["show", *arguments], catch_exceptions=False)
    assert "did you mean" in caught.value.hint


# --- build


@pytest.fixture
def answers(monkeypatch):
    """What the playbook does with each entry: an exception, a result, or a function of the plan's path and variables."""
    given = {}

    def run(playbook, variables, listener):
        plan = json.loads(Path(variables["modak_plan"]).read_text())
        answer = given[plan["image"]["entry"]]
        answer = answer(variables) if callable(answer) else answer
        if isinstance(answer, BaseException):
            raise answer
        return PlaybookRun(results={"modak_image": answer})

    monkeypatch.setattr(deployment, "run_playbook", run)
    return given


BUILT = {"changed": True, "image": {"size": 10**9, "path": "/home/alice/modak/images/x.sif"}}


def build(blueprint, *names, again=False):
    text = io.StringIO()
    console = Console(file=text, width=200)
    builder = Builder(blueprint.service, Inputs(), console, again=again)
    try:
        builder.build(entries(*names))
    finally:
        print_summary(console, builder.results)
    return builder.results, text.getvalue()


def test_what_may_be_done_is_a_line_where_there_is_no_terminal():
    text = io.StringIO()
    print_summary(Console(file=text, width=80), [Result("mxnet-1.6-pip", "refused", "it crashed")])
    words = "Refused: built, but its probe fails on the target's processor. --again retries it."
    assert words in text.getvalue().splitlines()


def outcomes(results):
    return [result.outcome for result in results]


def test_entries_are_built_one_after_another(state, blueprint, answers):
    answers.update({NAMES[0]: BUILT, NAMES[1]: {"changed": False, "image": {"size": 10**9}}})
    results, text = build(blueprint, *NAMES)
    assert outcomes(results) == ["built", "there"]
    assert results[0].image.endswith("x.sif")
    assert "1.0 GB" in text
    assert not (state / "deployments").exists()


def test_one_that_fails_does_not_stop_the_others(state, blueprint, answers):
    answers.update({NAMES[0]: PlaybookError("the disk is full", 1), NAMES[1]: BUILT})
    results, text = build(blueprint, *NAMES)
    assert outcomes(results) == ["failed", "built"]
    assert "the disk is full" in text


def test_one_that_is_refused_is_called_so(state, blueprint, answers):
    def refuse(variables):
        note_refusal(state, refusal(NAMES[0]))
        return PlaybookError("pytorch was refused by its probe", 1)

    answers.update({NAMES[0]: refuse, NAMES[1]: BUILT})
    results, text = build(blueprint, *NAMES)
    assert outcomes(results) == ["refused", "built"]
    assert results[0].reason == "its probe failed on Acme 9000: it crashed"
    assert "Refused: built, but its probe fails" in text


def test_what_was_refused_before_is_built_only_again(state, blueprint, answers):
    note_refusal(state, refusal(NAMES[0]))
    seen = []
    answers[NAMES[0]] = lambda variables: seen.append(variables["image_again"]) or BUILT
    assert outcomes(build(blueprint, NAMES[0])[0]) == ["refused"]
    assert seen == []
    assert outcomes(build(blueprint, NAMES[0], again=True)[0]) == ["built"]
    assert seen == [True]
    assert known_refusals(state) == ()


def test_a_target_that_is_lost_ends_it(state, blueprint, answers):
    answers[NAMES[0]] = PlaybookError("the target does not answer", TARGET_UNREACHABLE)
    results, _ = build(blueprint, *NAMES)
    assert outcomes(results) == ["failed", "not tried"]


def test_an_interruption_keeps_what_was_done(state, blueprint, answers):
    answers.update({NAMES[0]: BUILT, NAMES[1]: KeyboardInterrupt()})
    builder = Builder(blueprint.service, Inputs(), Console(file=io.StringIO()), again=False)
    with pytest.raises(KeyboardInterrupt):
        builder.build(entries(*NAMES))
    assert outcomes(builder.results) == ["built", "not tried"]


def test_a_script_for_one_framework_keeps_no_other_from_being_built(state, answers):
    """As the default does: the shipped blueprint's workload.yaml names a script for each framework."""
    shipped = find_blueprint("mnist-pytorch-slurm")
    others = ("keras-3.15-jax-cpu", "openmpi-mpi4py", "pytorch-1.4-pip", NAMES[1])
    answers.update(dict.fromkeys(others, BUILT))
    builder = Builder(shipped, Inputs(), Console(file=io.StringIO()), again=False)
    builder.build(entries(*others))
    assert [(result.outcome, result.reason) for result in builder.results] == [("built", "")] * 4


def test_what_a_target_cannot_have_is_told(state, blueprint, answers):
    results, text = build(blueprint, "mxnet-1.6-hub")
    assert outcomes(results) == ["failed"]
    assert "the target cannot reach a hub" in text


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--allow-refused"], 0), (["--allow-refused", "--json"], 0)])
def test_exit_codes(state, blueprint, answers, options, code):
    note_refusal(state, refusal(NAMES[0]))
    answers[NAMES[1]] = BUILT
    done = call("build", *NAMES, "-b", blueprint.path, *options)
    assert done.exit_code == code
    if "--json" in options:
        assert [one["outcome"] for one in json.loads(done.stdout)] == ["refused", "built"]


def test_the_image_is_the_one_that_deployments_use(blueprint):
    (entry,) = entries(NAMES[0])
    request = catalogue_build.request_of(blueprint.service, Inputs())
    planned = catalogue_build.make_plan(catalogue_build.request_for(entry, request))
    assert planned.image == plan_blueprint(blueprint.service, Inputs()).plan.image


# --- add and remove


@pytest.fixture
def index(state, monkeypatch):
    """A package index with one release of JAX; the user has no entries yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(state / "config"))
    files = [File("jax", "0.13.2", "a" * 64), File("jaxlib", "0.13.2", "b" * 64), File("numpy", "2.5.0", "c" * 64)]
    monkeypatch.setattr(adding, "versions_of", lambda package, *_: {"jax": ["0.13.2"]}.get(package, []))
    monkeypatch.setattr(adding, "resolved", lambda *_: {"3.13": files})
    return state / "config" / "modak" / "catalogue"


def test_a_release_of_an_index_is_added_and_removed(index):
    shown = call("add", "jax==0.13", "--dry-run")
    assert (shown.exit_code, list(index.glob("*"))) == (0, [])
    added = call("add", "jax==0.13", "--json")
    told = json.loads(added.stdout)
    assert (told["file"], told["packages"], told["built"]) == (str(index / "jax-0.13-cpu.yaml"), 3, None)
    assert (index / "jax-0.13-cpu.yaml").read_text().rstrip() == shown.stdout.rstrip()
    assert told["entry"]["requirements"] == ["jax==0.13.2", "jaxlib==0.13.2", "numpy==2.5.0"]
    (row,) = (row for row in json.loads(call("list", "--json").stdout) if row["name"] == "jax-0.13-cpu")
    assert row["state"] == "your own"
    assert call("show", "jax-0.13-cpu").exit_code == 0
    with pytest.raises(UsageError, match=r"jax-0\.13-cpu is in .* already"):
        app(["add", "jax"], standalone_mode=False)
    assert call("add", "jax", "--replace").exit_code == 0
    assert call("add", str(index / "jax-0.13-cpu.yaml"), "--replace").exit_code == 0
    assert call("remove", "jax-0.13-cpu").exit_code == 0
    assert not list(index.glob("[!.]*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jax==0.12"], "the package index has no jax 0.12"),
        (["jax", "--name", "jax-0.9-cpu"], "jax-0.9-cpu is an entry that ships"),
        (["jax", "--name", "My Entry"], "cannot be an entry's name"),
        (["jax", "--framework", "jax"], "--framework does not apply to a release of the index"),
        (["none.yaml"], "there is no file none.yaml"),
        (["docker://some/torch:2.13"], "docker://some/torch:2.13 has to be inspected on a target"),
        (["images/torch.sif", "--on", "testbed"], "is not an absolute path on the target"),
        (["ftp://some/torch", "--on", "testbed"], "is not docker://, oras:// or library://"),
    ],
)  # fmt: skip
def test_what_cannot_be_added_is_told_and_nothing_is_written(index, words, said):
    with pytest.raises(UsageError, match=said):
        app(["add", *words], standalone_mode=False)
    assert not list(index.glob("*"))


def seen_there(state, monkeypatch, **found):
    """Has the image's look answer what was found in it."""
    asked = []

    def answer(playbook, variables, display):
        asked.append((playbook, variables["image_inside"]))
        seen = {
            "source": "/apps/torch.sif",
            "address": "testbed",
            "python": "python3",
            "sha256": "a" * 64,
            "look": LOOK,
            **found,
        }
        note_image(state, SeenImage(**seen))
        return PlaybookRun(results={"modak_image": {}})

    monkeypatch.setattr(deployment, "run_playbook", answer)
    return asked


def test_an_image_is_looked_into_before_it_is_an_entry(index, state, monkeypatch):
    frameworks = {"pytorch": "2.13.0+cpu", "python": "3.11"}
    asked = seen_there(state, monkeypatch, frameworks=frameworks, version="3.11", compilers=["inductor"])
    told = json.loads(call("add", "/apps/torch.sif", "--on", "testbed", "--json").stdout)
    assert asked == [("image", True)]
    entry = told["entry"]
    assert (entry["name"], entry["version"], entry["origin"]) == ("torch", "2.13.0+cpu", "given")
    assert (entry["address"], entry["compilers"]) == ("testbed", ["inductor"])


def test_an_image_without_python_is_no_entry(index, state, monkeypatch):
    seen_there(state, monkeypatch, problem="python3: not found")
    with pytest.raises(ModakError, match=r"/apps/torch\.sif cannot be an entry: python3: not found") as raised:
        app(["add", "/apps/torch.sif", "--on", "testbed"], standalone_mode=False)
    assert "--python" in raised.value.hint
    assert not list(index.glob("*"))


def test_what_the_help_adds_and_removes_does_not_ship():
    examples = {command.callback.__name__: command.epilog.split()[-1] for command in app.registered_commands}
    framework, version = examples["add"].split("==")
    assert version not in {entry.version for entry in load_catalogue().of_framework(framework)}
    assert examples["remove"] not in {entry.name for entry in load_catalogue().entries}
