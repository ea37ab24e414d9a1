"""A script that uses an accelerator gets one where its target has some, or it is said how it would."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from modak_ansible.catalogue import load_catalogue
from modak_ansible.commands import main
from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.drafts import accelerators
from modak_ansible.reading.drafts.draft import draft_of
from modak_ansible.store.targets import target_file

USES = 'import torch\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n'
RANKS = f"{USES}torch.distributed.init_process_group()\n"
HEAD = "scheduler: slurm\nfrontend: login.example\n"
HAS = "accelerator: { vendor: nvidia, count: 4 }\n"
PARTED = f"""partitions:
  - {{ name: batch, nodes: 4, cores: 16, accelerators: 0 }}
  - {{ name: gpu, nodes: 4, cores: 16, accelerators: 4 }}
{HAS}"""
ENTRY = next(each for each in load_catalogue().accelerated("pytorch", vendor="nvidia")).name


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Runs a command on a script and a target, in the folder of both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "env").mkdir()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))

    def go(text, target, *words, command="init", answers=None):
        (tmp_path / "train.py").write_text(text)
        (tmp_path / "there.yaml").write_text(HEAD + target)
        on = () if "--on" in words else ("--on", "./there.yaml")
        app = main.application([command])
        return CliRunner().invoke(app, [command, "train.py", *on, *words], input=answers)

    return go


@pytest.fixture
def said(tmp_path):
    """What a blueprint that was written says of its training."""

    def read():
        text = (tmp_path / "service.yaml").read_text()
        return yaml.safe_load(text)["topology_template"]["node_templates"]["training"]["properties"]

    return read


def test_one_is_proposed_where_the_target_has_some(at, said):
    done = at(USES, HAS, "--yes")
    assert done.exit_code == 0, done.output
    assert said()["resources"] == {"accelerators": 1}
    assert "accelerators  1 on each node: train.py:2 has 'cuda'" in done.output


def test_it_is_asked_and_none_is_an_answer(at, said, monkeypatch):
    refused = at(USES, HAS, "--walltime", "00:10:00")
    assert isinstance(refused.exception, UsageError)
    assert (
        "--accelerators N, for: On how many accelerators of each node is it trained (train.py:2 has 'cuda'); 1 is "
        in (refused.exception.hint)
    )
    monkeypatch.setattr("modak_ansible.commands.plan.init._can_ask", lambda: True)
    done = at(USES, HAS, "--walltime", "00:10:00", answers="some\n0\n")
    assert done.exit_code == 0, done.output
    assert said()["resources"] == {"accelerators": 0}
    assert "optimisation" not in said()


@pytest.mark.parametrize(
    ("text", "words", "is_told"),
    [
        (RANKS, ("--accelerators", "4"), True),
        (RANKS, ("--accelerators", "4", "--processes-per-node", "4"), False),
        (RANKS, ("--accelerators", "1"), False),
        (USES, ("--accelerators", "4"), False),
        (f"{USES}from transformers import Trainer\nTrainer()\n", ("--accelerators", "4"), False),
        (f"{USES}import torch.multiprocessing as mp, torch.distributed as dist\nmp.spawn(work)\n"
         "dist.init_process_group(rank=rank)\n", ("--accelerators", "4"), False),
    ],
)  # fmt: skip
def test_ranks_of_a_script_take_one_each_which_is_told_where_there_are_fewer(at, text, words, is_told):
    done = at(text, HAS, "--yes", *words)
    assert done.exit_code == 0, done.output
    told = "by which each process takes one of the 4: --processes-per-node 4 has it take all"
    assert (told in " ".join(done.output.split())) is is_told


@pytest.mark.parametrize(("words", "count"), [(("--accelerators", "0"), 0), (("--accelerators", "2"), 2)])
def test_what_is_given_goes_before_what_is_proposed(at, said, words, count):
    done = at(USES, HAS, "--yes", *words)
    assert done.exit_code == 0, done.output
    assert said()["resources"] == {"accelerators": count}
    assert at("print()\n", HAS, "--yes", "--force", *words).exit_code in (
        0,
        3,
    )  # of plain Python there is no such build
    assert said()["resources"] == {"accelerators": count}


def test_who_makes_them_is_asked_for_as_a_container_reaches_none_otherwise(at, said):
    done = at(USES, "accelerator: { count: 1 }\n", "--yes")
    assert said()["resources"] == {"accelerators": 1}
    assert "there.yaml does not say who makes its accelerators" in done.output
    assert "who makes" not in at(USES, HAS, "--yes", "--force").output


def test_each_process_gets_one(at, said):
    assert at(RANKS, HAS, "--yes", "--processes-per-node", "4").exit_code == 0
    assert said()["resources"] == {"processes_per_node": 4, "accelerators": 4}


def test_a_build_that_nobody_has_tried_is_asked_for_by_its_name(at, said, monkeypatch):
    done = at(USES, HAS, "--yes")
    assert said()["optimisation"] == {"entry": ENTRY}
    assert f"{ENTRY} is chosen, although nobody has tried it yet" in done.output
    tried = [each.model_copy(update={"untried": ""}) for each in load_catalogue().entries]
    known = load_catalogue().model_copy(update={"entries": tuple(tried)})
    monkeypatch.setattr("modak_ansible.catalogue.serving.load_catalogue", lambda: known)
    at(USES, HAS, "--yes", "--force")
    assert "optimisation" not in said()


@pytest.mark.parametrize(
    "text",
    [
        "import transformers\ntransformers.Trainer()\n", "import lightning as L\nL.Trainer()\n",
        "from accelerate import Accelerator\nAccelerator()\n", "import tensorflow as tf\ntf.constant(1)\n",
        "import jax\njax.jit(abs)\n",
    ],
)  # fmt: skip
def test_what_takes_one_by_itself_gets_one(at, said, text):
    assert at(text, HAS, "--yes").exit_code == 0
    assert said()["resources"] == {"accelerators": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\ntorch.nn.Linear(3, 3)\n", ()), ('import lightning as L\nL.Trainer(accelerator="cpu")\n', ()),
        (f'{USES}import argparse\np = argparse.ArgumentParser()\np.add_argument("--device")\np.parse_args()\n', ("--", "--device", "cpu")),
    ],
)  # fmt: skip
def test_what_does_not_tell_gets_none(at, said, text, words):
    done = at(text, HAS, "--yes", *words)
    assert done.exit_code == 0, done.output
    assert "resources" not in said()
    assert "accelerator" not in done.output.replace("accelerator=", "")


def test_a_framework_without_such_a_build_is_told(at, said):
    done = at("import keras\nkeras.Sequential()\n", HAS, "--yes")
    assert "resources" not in said()
    assert "train.py:2 has keras, and no build of keras is for accelerators of nvidia here: it trains on" in done.output
    done = at("import tensorflow as tf\ntf.constant(1)\n", HAS.replace("nvidia", "amd"), "--yes", "--force")
    assert "no build of tensorflow is for accelerators of amd here" in done.output


def test_what_can_serve_there_counts(at, said):
    """NVIDIA's wheels are for x86-64, and AMD's image comes from a hub."""
    arm = at(USES, f"{HAS}architecture: aarch64\n", "--yes")
    assert "resources" not in said()
    assert "no build of pytorch is for accelerators of nvidia here" in arm.output
    amd = HAS.replace("nvidia", "amd")
    assert "accelerators of amd here" in at(USES, amd, "--yes").output
    at(USES, f"{amd}".replace("accel", "image_base: docker\naccel"), "--yes", "--force")
    assert "rocm" in said()["optimisation"]["entry"]


@pytest.mark.parametrize("words", [("--on", "testbed"), ("--on", "local"), ()])
def test_a_target_that_has_none_is_asked_nothing(at, said, words, monkeypatch):
    monkeypatch.setattr(accelerators, "_DRIVERS", ("/nowhere",))
    done = at(USES, "accelerator: { count: 0 }\n", "--yes", *words)
    assert done.exit_code == 0, done.output
    assert "resources" not in said()
    assert "accelerator" not in done.output


@pytest.mark.parametrize(("words", "name"), [((), "there.yaml"), (("--on", "local"), "local")])
def test_where_nobody_knows_it_is_said_how_one_is_asked_for(at, said, words, name, monkeypatch, tmp_path):
    monkeypatch.setattr(accelerators, "_DRIVERS", (str(tmp_path),))
    done = at(USES, "", "--yes", *words)
    assert "resources" not in said()
    assert (
        f"{name} does not say whether it has accelerators: --accelerators N asks for some of each node" in done.output
    )
    assert "note: train.py:2 has 'cuda', and " in done.output
    by_itself = at("import jax\njax.jit(abs)\n", "", "--yes", "--force", *words)
    assert "accelerators" not in by_itself.output


def test_the_only_partition_that_has_them_is_named(at, said):
    done = at(USES, PARTED, "--yes")
    assert done.exit_code == 0, done.output
    assert said()["resources"] == {"accelerators": 1, "partition": "gpu"}
    assert "the partition gpu has them" in " ".join(done.output.split())
    assert at(USES, PARTED.replace("batch, nodes", "batch, default: false, nodes").replace("gpu, nodes", "gpu, default: true, nodes"), "--yes", "--force").exit_code == 0  # fmt: skip
    assert said()["resources"] == {"accelerators": 1}


def test_of_several_partitions_that_have_them_the_first_is_named(at, said):
    done = at(USES, PARTED.replace("\naccelerator:", "\n  - { name: more, nodes: 1, cores: 16, accelerators: 4 }\naccelerator:"), "--yes")  # fmt: skip
    assert done.exit_code == 0
    assert said()["resources"] == {"accelerators": 1, "partition": "gpu"}
    assert "the partition gpu has them, as more has" in " ".join(done.output.split())


def test_where_all_usual_partitions_have_them_none_is_named(at, said):
    more = '\n  - { name: more, nodes: 1, cores: 16, accelerators: 4 }\nsite: { partition: "gpu,more" }\naccelerator:'
    done = at(USES, PARTED.replace("\naccelerator:", more), "--yes")
    assert done.exit_code == 0, done.output
    assert said()["resources"] == {"accelerators": 1}


def test_a_script_alone_is_planned_with_them(at, tmp_path):
    shown = json.loads(at(USES, PARTED, "--json", command="plan").stdout)
    assert (shown["job"]["accelerators"], shown["job"]["partition"]) == (1, "gpu")
    said_so = at(USES, PARTED, command="plan").stderr
    assert (
        "1 accelerator of each node is asked for, as train.py:2 has 'cuda'; --accelerators 0 asks for none" in said_so
    )
    none = at(USES, PARTED, "--accelerators", "0", command="plan")
    assert none.exit_code == 0
    assert "accelerator" not in none.stderr
    planned = plan_blueprint(tmp_path / "train.py", Inputs(targets=target_file("./there.yaml"), accelerators=2))
    assert planned.plan.job.accelerators == 2
    assert "resources: { accelerators: 2, partition: gpu }" in planned.text


def test_they_are_a_scripts_alone(blueprint):
    with pytest.raises(UsageError, match="--nodes, --processes-per-node and --accelerators are only for a script"):
        plan_blueprint(blueprint.service, Inputs(accelerators=0))


def test_more_than_there_are_are_refused_with_what_there_is(at, tmp_path):
    at(USES, HAS)
    with pytest.raises(InvalidBlueprint, match="8 accelerators a node are asked for, and cluster has 4"):
        plan_blueprint(tmp_path / "train.py", Inputs(targets=tmp_path / "there.yaml", accelerators=8))


@pytest.mark.parametrize(
    ("words", "use"),
    [
        ([], "train.py:2 has 'cuda'"),
        (["here.py"], "None"),
        (["here.py", "--backend=nccl"], "train.py:3 has 'nccl'"),
        (["there.py"], "train.py:2 has 'cuda:1'"),
    ],
)
def test_settings_that_a_script_executes_say_whether_it_uses_one(tmp_path, words, use):
    """As nanoGPT's do: a file of them, and words, go before what stands in the script."""
    (tmp_path / "train.py").write_text(
        "import torch\ndevice = 'cuda'\nbackend = 'gloo'\nexec(open('settings.py').read())\nm.to(device)\n"
    )
    (tmp_path / "here.py").write_text("device = 'cpu'\n")
    (tmp_path / "there.py").write_text("\n\ndevice = 'cuda:1'\n")
    assert str(draft_of(tmp_path / "train.py", words).use) == use
