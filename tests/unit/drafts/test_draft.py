"""A script's blueprint: valid, short, and the same whichever way it is asked for."""

from __future__ import annotations

import ast
import json
import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from surveyed import surveyed
from typer.testing import CliRunner

from modak_ansible.commands import main
from modak_ansible.commands.plan.packaging import contents, lay_out
from modak_ansible.discovery import surveying
from modak_ansible.errors import InvalidBlueprint, ModakError, UsageError
from modak_ansible.planning.service import check_blueprint, plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.drafts.draft import Data, draft_of, name_of
from modak_ansible.reading.drafts.outputs import outputs_of
from modak_ansible.reading.drafts.text import flow, text_of
from modak_ansible.store.project import shipped
from modak_ansible.store.targets import target_file, targets_folder

TORCH = """\
import argparse
import torch, einops
from torchvision import datasets
from pathlib import Path

HERE = Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--out", default="runs/one")
parser.add_argument("--data", default="data")
parser.add_argument("--name", required=True)
args = parser.parse_args()
rows = open(HERE / "table.csv").read()
torch.save({}, f"{args.out}/model_{args.epochs}.pt")
torch.save({}, "last.pt")
"""
PLAIN = "print('hello')\n"
MOST_LINES = 25


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    """Nothing is installed where the user works."""
    (tmp_path / "env" / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    return tmp_path / "env" / "lib" / "python3.12" / "site-packages"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "data" / "x.bin").write_text("x")
    (folder / "table.csv").write_text("1,2\n")
    (folder / "private.txt").write_text("nobody sends this")
    (folder / "train.py").write_text(TORCH)
    (folder / "plain.py").write_text(PLAIN)
    return folder


def install(environment, name, version, modules=(), own=False):
    folder = environment / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "top_level.txt").write_text("".join(f"{each}\n" for each in modules or [name]))
    if own:
        (folder / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')


def run(*words):
    app = main.application(words)
    return CliRunner().invoke(app, list(words))


def test_what_comes_next_can_be_typed_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("-data", "a b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(PLAIN)
    assert "next: modak deploy ./-data\n" in run("init", "--yes", "--on", "local", "--", "-data/train.py").stdout
    assert "next: modak deploy 'a b'\n" in run("init", "--yes", "--on", "local", "--", "a b/train.py").stdout


def test_what_a_script_tells_is_what_its_blueprint_says(project, environment):
    install(environment, "einops", "0.8.1")
    draft = draft_of(project / "train.py", ["--epochs", "5", "--name", "a b"])
    said = yaml.safe_load(text_of(draft))["topology_template"]["node_templates"]["training"]["properties"]
    assert said == {
        "framework": "pytorch",
        "script": "train.py",
        "files": ["train.py", "data", "table.csv"],
        "arguments": {"epochs": 5, "name": "a b"},
        "requirements_txt": ["einops==0.8.1", "torchvision"],
        "outputs": ["last.pt", "runs/one/model_5.pt"],
        "walltime": "01:00:00",
    }
    assert "--name" not in draft.missing
    assert draft_of(project / "train.py").missing == ["--name"]
    assert len(text_of(draft).splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    ("imports", "framework"),
    [
        ("import torch", "pytorch"), ("import tensorflow as tf\nimport keras", "tensorflow"), ("import keras", "keras"),
        ("import flax", "jax"), ("from transformers import Trainer", "pytorch"), ("from ultralytics import YOLO", "pytorch"), ("import sklearn", "python"), ("", "python"),
        ("try:\n    import torch\nexcept ImportError:\n    pass\nimport jax", "jax"),
    ],
)  # fmt: skip
def test_the_framework_is_what_is_imported(project, imports, framework):
    (project / "plain.py").write_text(f"{imports}\nprint()\n")
    assert draft_of(project / "plain.py").framework == framework


@pytest.mark.parametrize(
    ("imports", "framework", "lines"),
    [
        ("import jax\nimport tensorflow as tf", "jax", ["tensorflow"]),
        ("import jax\nimport tensorflow as tf", "tensorflow", ["jax"]),
        ("import torch, keras", "pytorch", ["keras"]),
        ("import tensorflow, keras", "tensorflow", []),
        ("import jax\ntry:\n    import torch\nexcept ImportError:\n    pass", "jax", []),
    ],
)
def test_a_framework_that_the_image_has_not_got_is_a_package(project, imports, framework, lines):
    (project / "plain.py").write_text(f"{imports}\nprint()\n")
    assert draft_of(project / "plain.py", framework=framework).requirements == lines


@pytest.mark.parametrize(
    "says",
    [
        'os.environ["KERAS_BACKEND"] = "{}"', 'os.environ.setdefault("KERAS_BACKEND", "{}")',
        'os.environ.update(KERAS_BACKEND="{}")', 'os.environ.update({{"KERAS_BACKEND": "{}"}})',
    ],
)  # fmt: skip
def test_a_script_that_chooses_what_keras_computes_with_has_a_build_with_it(project, says):
    for backend, entry in (("torch", "pytorch"), ("jax", "jax"), ("tensorflow", "")):
        (project / "plain.py").write_text(f"import os\n{says.format(backend)}\nimport keras\n")
        draft = draft_of(project / "plain.py")
        assert draft.framework == "keras"
        assert draft.entry == (f"keras-3.15-{entry}-cpu" if entry else "")
        node = yaml.safe_load(text_of(draft))["topology_template"]["node_templates"]["training"]
        assert node["properties"].get("optimisation") == ({"entry": draft.entry} if entry else None)
    (project / "plain.py").write_text(f"import os\n{says.format('none')}\nimport keras\n")
    draft = draft_of(project / "plain.py")
    assert not draft.entry
    assert any("no build of Keras in the catalogue computes with none" in note for note in draft.notes)


def test_what_pip_would_compile_in_vain_comes_with_a_build_that_brings_it(project):
    (project / "plain.py").write_text("import tensorflow as tf\nimport horovod.tensorflow as hvd\nhvd.init()\n")
    draft = draft_of(project / "plain.py")
    assert (draft.entry, draft.requirements) == ("tensorflow-2.12-horovod", [])
    (project / "plain.py").write_text(
        "import tensorflow as tf\ntry:\n    import horovod\nexcept ImportError:\n    pass\n"
    )
    draft = draft_of(project / "plain.py")
    assert (draft.entry, draft.requirements) == ("", [])


def test_a_model_in_onnx_form_needs_what_reads_it(project):
    (project / "plain.py").write_text("import torch\nfrom modak_runtime import load_onnx, prepare\n")
    assert sorted(draft_of(project / "plain.py").requirements) == ["onnx", "onnx2torch"]
    (project / "plain.py").write_text("import torch\nfrom modak_runtime import prepare\n")
    assert draft_of(project / "plain.py").requirements == []


def test_versions_come_from_the_projects_files_and_else_from_what_is_installed(project, environment):
    install(environment, "scikit-learn", "1.5.2", ["sklearn"])
    install(environment, "PyYAML", "6.0.1", ["yaml", "_yaml"])
    install(environment, "tqdm", "4.0.0")
    install(environment, "mine", "0.1", own=True)
    install(environment, "odd-name", "2.0+local.1", ["oddly"])
    (project / "requirements.txt").write_text("tqdm>=4.66\npyyaml\nunused==1.0\n")
    (project / "plain.py").write_text(
        "import sklearn, yaml, tqdm, mine, oddly, cv2\ntry:\n    import wandb\nexcept ImportError: pass\n"
    )
    draft = draft_of(project / "plain.py")
    assert sorted(draft.requirements) == [
        "odd-name==2.0", "opencv-python-headless", "pyyaml==6.0.1", "scikit-learn==1.5.2", "tqdm>=4.66",
    ]  # fmt: skip
    assert any("mine, which plain.py:1 imports, is of this machine" in note for note in draft.notes)
    assert any("requirements.txt has unused, too, which nothing here imports" in note for note in draft.notes)
    (project / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = [ "other>=1", "tqdm", "torch" ]\n')
    (note,) = [note for note in draft_of(project / "plain.py").notes if "which nothing here imports" in note]
    assert note.startswith("requirements.txt has unused, too, which nothing here imports: ")
    (project / "requirements.txt").unlink()
    (note,) = [note for note in draft_of(project / "plain.py").notes if "which nothing here imports" in note]
    assert note.startswith("pyproject.toml has other, too, which nothing here imports: ")


def test_what_the_image_has_is_left_out_and_what_belongs_to_it_has_its_release(project, environment):
    install(environment, "torch", "2.13.0+cpu")
    install(environment, "numpy", "1.0")
    install(environment, "torchvision", "0.1")
    (project / "plain.py").write_text("import torch, numpy, torchvision, tensorflow_text\n")
    draft = draft_of(project / "plain.py")
    assert draft.requirements == ["tensorflow-text", "torchvision"]
    assert draft.version == ""
    assert any("release that goes with pytorch" in text for _, text in draft.findings)


def test_the_users_version_of_a_framework_is_asked_for_where_the_catalogue_has_it(project, environment):
    install(environment, "tensorflow", "2.1.0")
    (project / "plain.py").write_text("import tensorflow\n")
    assert draft_of(project / "plain.py").version == "2.1"
    (project / "requirements.txt").write_text("tensorflow==2.5\n")
    draft = draft_of(project / "plain.py")
    assert draft.version == ""
    assert any("tensorflow 2.5 (requirements.txt) is not in the catalogue" in note for note in draft.notes)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ('torch.save(m, "a.pt")', ["a.pt"]),
        ('OUT = "out"\ntorch.save(m, os.path.join(OUT, "m_%d.pt" % e))', ["out/m_*.pt"]),
        ('m.save(f"ckpt/{e:03}/w.keras")', ["ckpt/*/w.keras"]),
        ('plt.savefig(Path(__file__).parent / "plots" / "a.png")', ["plots/a.png"]),
        ('with open("log.txt", "a") as f: pass\nopen("in.txt")', ["log.txt"]),
        ('pickle.dump(m, open("m.pkl", "wb"))', ["m.pkl"]),
        ('Path("x/y.json").write_text("1")', ["x/y.json"]),
        ('TrainingArguments(output_dir="./results", logging_dir="results/logs")', ["results"]),
        ('df.to_csv("{}/t.csv".format(d))\nnp.save("./w", a)\nnp.save("w", a)', ["*/t.csv", "w.npy"]),
        ('torch.save(m, "/scratch/m.pt")\ntorch.save(m, path)\nm.save("../m")', []),
        ("SummaryWriter()", ["runs"]),
        ('TrainingArguments("mine", 1)', ["mine"]),
        ("Seq2SeqTrainingArguments(num_train_epochs=1)\nSFTConfig(output_dir=None)", ["trainer_output"]),
        ("HfArgumentParser((A, TrainingArguments))", ["trainer_output"]),
        ("HfArgumentParser(A)", []),
        ("import lightning as L\nL.Trainer(max_epochs=1)", ["lightning_logs"]),
        ("import lightning.pytorch as pl\npl.Trainer(logger=False)", ["checkpoints"]),
        ("from lightning import pytorch as pl\npl.Trainer(default_root_dir='root')", ["root"]),
        ("from lightning.pytorch.cli import LightningCLI\nLightningCLI(M)", ["lightning_logs"]),
        ("from transformers import Trainer\nTrainer()", []),
        ('open(sys.argv[1] if len(sys.argv) > 1 else "x.txt", "w")', ["x.txt"]),
        ('torch.save(m, a or "m.pt")', ["m.pt"]),
        ('ModelCheckpoint("ck/{epoch:02d}-{val_loss:.2f}.keras")', ["ck/*-*.keras"]),
        ('np.save("emb", a)\nnp.savez("all.npz", a)', ["all.npz", "emb.npy"]),
        ('plt.savefig("plots/loss")\nplt.savefig("v1.5/acc.pdf")', ["plots/loss.png", "v1.5/acc.pdf"]),
        ('from joblib import dump\ndump(model, "m.joblib")', ["m.joblib"]),
        ('h5py.File("out.h5", "w")\nh5py.File("in.h5", "r")\nh5py.File("also_in.h5")', ["out.h5"]),
        (
            'zipfile.ZipFile("a.zip", mode="w")\ntarfile.open("a.tar", "w:gz")\ntarfile.open("in.tar")',
            ["a.tar", "a.zip"],
        ),
        ('logging.basicConfig(filename="train.log")\nlogging.FileHandler("more.log")', ["more.log", "train.log"]),
        ('accelerator.save_state("state")\ntf.summary.create_file_writer("tb")', ["state", "tb"]),
    ],
)
def test_outputs_are_what_is_written(text, patterns):
    assert outputs_of({"a.py": ast.parse(text)}, {})[0] == patterns


def test_what_is_written_elsewhere_is_told(project):
    (project / "plain.py").write_text('open("/scratch/x.txt", "w")\n')
    assert any("/scratch/x.txt" in note for note in draft_of(project / "plain.py").notes)


@pytest.mark.parametrize("target", ["testbed", "local"])
def test_a_script_is_planned_without_a_blueprint_and_twice_alike(project, target):
    given_ = Inputs(targets=target_file(target), words=("--name", "x"))
    first = plan_blueprint(project / "train.py", given_)
    assert first.plan.digest == plan_blueprint(project / "train.py", given_).plan.digest
    assert [file.path for file in first.plan.application.files] == ["data/x.bin", "table.csv", "train.py"]
    folder = first.save()
    assert (folder / "service.yaml").read_text() == first.text
    (project / "service.yaml").write_text(first.text)
    again = plan_blueprint(project / "service.yaml", Inputs(targets=target_file(target)))
    assert again.plan.digest == first.plan.digest


def test_what_nobody_says_of_a_script_alone_is_told_with_what_to_do(project):
    with pytest.raises(UsageError, match=r"train.py does not say where it is to run\n  --on local, --on testbed"):
        plan_blueprint(project / "train.py", Inputs())
    with pytest.raises(UsageError, match=r"does not start without --name\n.* --on local -- --name ..."):
        plan_blueprint(project / "train.py", Inputs(targets=target_file("local")))
    with pytest.raises(InvalidBlueprint, match="has no option --epohs"):
        words = ("--name", "x", "--epohs", "3")
        plan_blueprint(project / "train.py", Inputs(targets=target_file("local"), words=words))


def test_what_is_given_by_its_place_is_asked_for_and_given_so(project, monkeypatch):
    (project / "plain.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('rows')\np.add_argument('out', nargs='?', default='m.txt')\n"
        "p.add_argument('--lr', required=True)\na = p.parse_args()\nopen(a.out, 'w')\n"
    )
    draft = draft_of(project / "plain.py")
    assert draft.missing == ["--lr", "rows"]
    assert draft.outputs == ["m.txt"]
    with pytest.raises(UsageError, match=r"without --lr, rows\n.* --on local -- --lr ... ROWS"):
        plan_blueprint(project / "plain.py", Inputs(targets=target_file("local")))
    assert draft_of(project / "plain.py", ["--lr", "1"]).missing == ["rows"]
    assert draft_of(project / "plain.py", ["a.csv", "--lr", "1"]).missing == []
    monkeypatch.chdir(project)
    monkeypatch.setattr("modak_ansible.commands.plan.init._can_ask", lambda: True)
    app = main.application(["init"])
    CliRunner().invoke(app, ["init", "plain.py", "--on", "local", "--walltime", "00:10:00"], input="0.5\ntable.csv\n")
    node = yaml.safe_load((project / "service.yaml").read_text())["topology_template"]["node_templates"]["training"]
    assert node["properties"]["words"] == ["--lr", "0.5", "table.csv"]
    assert "table.csv" in node["properties"]["files"]


def test_words_are_a_scripts_alone(blueprint):
    with pytest.raises(UsageError, match="options after -- are for a script"):
        plan_blueprint(blueprint.service, Inputs(words=("--epochs", "3")))


def test_words_without_names_reach_the_job_as_they_stand(project):
    words = ("lr=0.1", "a b", "$HOME")
    plan = plan_blueprint(project / "plain.py", Inputs(targets=target_file("testbed"), words=words)).plan
    assert plan.application.words == words
    assert "'a b'" in plan.job.script
    assert "'$HOME'" in plan.job.script


def test_init_writes_a_blueprint_that_is_valid_and_says_what_is_there(project, monkeypatch):
    monkeypatch.chdir(project)
    shown = run("init", "train.py", "--on", "testbed", "--yes", "--", "--name", "x")
    assert shown.exit_code == 0, shown.output
    text = (project / "service.yaml").read_text()
    assert len(text.splitlines()) <= MOST_LINES
    mistakes = Mistakes()
    (plan,) = check_blueprint(project / "service.yaml", Inputs(), mistakes)
    assert not list(mistakes)
    assert plan.target.address == "testbed"
    again = run("init", "train.py", "--on", "testbed", "--yes", "--", "--name", "x")
    assert "already exists, with the same contents" in again.output
    other = run("init", "plain.py", "--on", "testbed", "--yes")
    assert isinstance(other.exception, UsageError)
    assert "+        script: plain.py" in str(other.exception)
    assert (project / "service.yaml").read_text() == text
    assert "written over" in run("init", "plain.py", "--on", "testbed", "--yes", "--force").output
    assert "testbed is a target already" in run("init", "plain.py", "--target", "testbed", "--yes").output


def test_init_takes_no_target_for_another_host(project, monkeypatch):
    monkeypatch.chdir(project)
    targets = targets_folder()
    targets.mkdir(parents=True, exist_ok=True)
    known = (shipped("tosca") / "known" / "testbed.yaml").read_text()
    (targets / "login.yaml").write_text(known.replace("frontend: testbed", "frontend: login.hpc1.example"))
    refused = run("init", "train.py", "--target", "alice@login.hpc2.example", "--yes")
    assert "the target login is login.hpc1.example, not login.hpc2.example" in str(refused.exception)
    assert not (project / "service.yaml").exists()


def test_an_address_is_a_target_s_name_as_a_whole(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setattr(surveying, "survey_target", lambda *_: surveyed())
    for address in ("192.0.2.7", "192.0.2.8"):
        done = run("init", "plain.py", "--target", f"alice@{address}", "--yes", "--force")
        assert done.exit_code == 0, done.output + str(done.exception)
        assert f"which --on {address} takes" in done.output
    assert {path.name for path in targets_folder().iterdir()} == {"192.0.2.7.yaml", "192.0.2.8.yaml"}


def test_init_takes_no_words_that_are_no_text(project, monkeypatch):
    monkeypatch.chdir(project)
    refused = run("init", "train.py", "--on", "testbed", "--yes", "--", "--name", "\udcfc")
    assert "is not in UTF-8" in str(refused.exception)
    assert not (project / "service.yaml").exists()


def test_init_writes_nothing_with_a_walltime_that_is_none(project, monkeypatch):
    monkeypatch.chdir(project)
    refused = run("init", "train.py", "--on", "testbed", "--walltime", "2h", "--yes", "--", "--name", "x")
    assert "--walltime: '2h' is not a wall time" in str(refused.exception)
    assert not (project / "service.yaml").exists()


def test_a_framework_that_there_is_not_is_told_before_it_is_written(project, monkeypatch):
    monkeypatch.chdir(project)
    wrong = run("init", "plain.py", "--framework", "pytorhc", "--on", "local", "--yes").exception
    assert isinstance(wrong, UsageError)
    assert str(wrong) == "--framework pytorhc: there is no such framework\n  did you mean pytorch?"
    assert not (project / "service.yaml").exists()


def test_init_asks_what_a_script_does_not_tell(project, monkeypatch):
    monkeypatch.chdir(project)
    without = run("init", "train.py")
    assert isinstance(without.exception, UsageError)
    assert run("init", "trian.py").exception.hint == "did you mean train.py?"
    said = str(without.exception)
    assert "--on NAME" in said
    assert "--walltime TIME" in said
    assert "-- --name ..." in said
    assert isinstance(run("init", "train.py", "--yes").exception, UsageError)  # of --name there is no proposal
    monkeypatch.setattr("modak_ansible.commands.plan.init._can_ask", lambda: True)
    app = main.application(["init"])
    asked = CliRunner().invoke(app, ["init", "train.py"], input="nowhere\ntestbed\n2h\n02:00:00\n\nmine\n")
    assert asked.exit_code == 0, asked.output
    for words in ("nowhere is not one of them", "'2h' is not a wall time; write it quoted, as", "it needs one"):
        assert words in asked.output
    said = (project / "service.yaml").read_text()
    assert "name: mine" in said
    assert "02:00:00" in said
    assert (
        json.loads(
            run(
                "init", "train.py", "--on", "testbed", "--walltime", "02:00:00", "--json", "--", "--name", "mine"
            ).output
        )["state"]
        == "there"
    )


@pytest.mark.parametrize(
    ("words", "node"),
    [
        (
            "scheduler: cloud\nprovider: aws\nkey: mine\nusername: admin\nimage: ami-1\nflavor: c6i.large\nssh_from: [ 192.0.2.0/24 ]\n",
            "cluster: { type: modak.nodes.CloudHost, properties: { provider: aws } }",
        ),
        (
            "scheduler: kubernetes\nworkspace: /shared/modak\nmount_path: /shared\nhost_path: /shared\n"
            "site: { image_sources: [ docker://registry.example/team/images ] }\n",
            "cluster: { type: modak.nodes.Kubernetes, properties: { mount_path: /shared } }",
        ),
    ],
)
def test_what_the_targets_type_needs_is_written(project, monkeypatch, words, node):
    """tosca-parser reads the blueprint alone, without the target file that says all of it."""
    monkeypatch.chdir(project)
    (project / "there.yaml").write_text(words)
    done = run("init", "plain.py", "--on", "./there.yaml", "--yes")
    assert done.exit_code == 0, done.output
    assert node in (project / "service.yaml").read_text()


def test_a_folder_that_the_script_is_not_below_is_refused(project, tmp_path):
    with pytest.raises(UsageError, match="is not below"):
        draft_of(project / "train.py", folder=tmp_path / "other")


def test_packages_that_share_a_name_are_told_apart_by_what_is_imported(project):
    lines = "import torch, serial, google.protobuf, azure.ai\nfrom google.cloud import storage\nfrom nvidia.dali import fn\n"
    (project / "plain.py").write_text(lines)
    draft = draft_of(project / "plain.py")
    names = {line.split("=")[0].split()[0] for line in draft.requirements}
    assert {"google-cloud-storage", "nvidia-dali-cuda120", "protobuf", "pyserial"} <= names
    assert not {"google", "nvidia", "azure", "serial"} & names
    assert any("several packages bring modules of azure" in note for note in draft.notes)


def test_what_every_job_has_is_asked_of_no_index(project):
    (project / "plain.py").write_text("import torch, modak_checkpoint\nfrom modak_runtime import prepare\n")
    assert draft_of(project / "plain.py").requirements == []


@pytest.mark.parametrize(
    ("call", "package"), [("pd.read_parquet('x')", "pyarrow"), ("f.to_excel('x')", "openpyxl"), ("f.head()", "")]
)
def test_what_a_package_asks_for_when_it_is_called(project, call, package):
    (project / "plain.py").write_text(f"import pandas as pd\nf = pd.DataFrame()\n{call}\n")
    names = {line.split("=")[0].split()[0] for line in draft_of(project / "plain.py").requirements}
    assert names == {"pandas", *([package] if package else [])}


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("import torch\ntorch.onnx.export(1, 2, 'a.onnx')", "onnxscript"), ("import torch\nx.export()", ""),
        ("from pandas import read_parquet", "pyarrow"),
        ("import torch\nfrom torchvision import datasets as sets\nsets.SVHN('x')", "scipy"),
        ("from sklearn.datasets import fetch_openml", "pandas"),
        ("import xgboost as xgb\nxgb.XGBClassifier()", "scikit-learn"),
        ("from lightgbm import LGBMRegressor", "scikit-learn"),
        ("from lightning.pytorch.cli import LightningCLI", "jsonargparse[jsonnet,signatures]"),
        ("import lightning.pytorch as pl\npl.loggers.TensorBoardLogger('x')", "tensorboard"),
        ("import torch\ntransformers = 1\nprint(transformers)", ""),
        ("import jax\nimport tensorflow_datasets as tfds\ntfds.load('mnist')", "tensorflow"),
        ("import jax\nfrom clu import metric_writers", "tensorflow"),
        ("import accelerate\naccelerate.Accelerator(log_with='tensorboard')", "tensorboard"),
        ("import accelerate\naccelerate.Accelerator(log_with=['wandb', LogLevel])", "wandb"),
        ("import accelerate\naccelerate.Accelerator(log_with='all')", ""),
        ("import stable_baselines3\nstable_baselines3.PPO('x', tensorboard_log='./tb/')", "tensorboard"),
    ],
)  # fmt: skip
def test_what_a_package_asks_for_when_a_part_of_it_is_used(project, text, package):
    (project / "plain.py").write_text(f"{text}\n")
    own = {"pandas", "torchvision", "scikit-learn", "xgboost", "lightgbm", "lightning"} - {package}
    own |= {"tensorflow-datasets", "clu", "accelerate", "stable-baselines3"}
    assert set(draft_of(project / "plain.py").requirements) - own == ({package} if package else set())


def test_extras_that_are_needed_go_with_the_version_that_is_asked_for(project):
    (project / "requirements.txt").write_text("jsonargparse[urls]==4.40\n")
    (project / "plain.py").write_text("import jsonargparse\nfrom lightning.pytorch.cli import LightningCLI\n")
    assert "jsonargparse[jsonnet,signatures,urls]==4.40" in draft_of(project / "plain.py").requirements


@pytest.mark.parametrize(
    ("asked", "there", "line"),
    [
        ("", "opencv-python", "opencv-python-headless==4.9.0.80"), ("", "", "opencv-python-headless"),
        ("opencv-contrib-python==4.8.0.76", "", "opencv-contrib-python-headless==4.8.0.76"),
        ("opencv-python", "opencv-python", "opencv-python-headless==4.9.0.80"),
        ("", "opencv-contrib-python", "opencv-contrib-python-headless==4.9.0.80"),
    ],
)  # fmt: skip
def test_what_needs_a_screen_has_another_in_its_place(project, environment, asked, there, line):
    (project / "requirements.txt").write_text(f"{asked}\n")
    if there:
        install(environment, there, "4.9.0.80", ["cv2"])
    (project / "plain.py").write_text("try:\n    import cv2\nexcept ImportError:\n    pass\n")
    draft = draft_of(project / "plain.py")
    assert draft.requirements == ([line] if asked or there else [])
    assert not any("opencv" in note for note in draft.notes)


@pytest.mark.parametrize("option", ["logdir", "work_dir", "place"])
def test_what_earlier_runs_wrote_is_no_data(project, option):
    (project / "earlier").mkdir()
    (project / "earlier" / "events.1").write_bytes(b"0" * (20 * 10**6 + 1))
    (project / "plain.py").write_text(
        "import argparse\nfrom torch.utils.tensorboard import SummaryWriter\np = argparse.ArgumentParser()\n"
        f"p.add_argument('--{option}', default='earlier')\nargs = p.parse_args()\nSummaryWriter(args.{option})\n"
    )
    draft = draft_of(project / "plain.py")
    assert (draft.data, draft.files, draft.outputs) == ([], ["plain.py"], ["earlier"])


def test_what_an_imported_module_reads_beside_itself_travels(project):
    (project / "pkg" / "deep").mkdir(parents=True)
    for name in ("pkg/a.txt", "pkg/deep/b.txt", "pkg/deep/c.txt", "pkg/__init__.py", "pkg/deep/__init__.py", "a.txt"):
        (project / name).write_text("")
    (project / "pkg" / "deep" / "mod.py").write_text(
        "import os, pathlib\nfrom importlib import resources\nHERE = os.path.dirname(os.path.abspath(__file__))\n"
        "open(os.path.join(HERE, 'b.txt'))\n(resources.files('pkg.deep') / 'c.txt').read_text()\n"
    )
    (project / "pkg" / "mod.py").write_text("import pathlib\n(pathlib.Path(__file__).parent / 'a.txt').read_text()\n")
    (project / "plain.py").write_text("import pkg.mod, pkg.deep.mod\n")
    node = yaml.safe_load(text_of(draft_of(project / "plain.py")))["topology_template"]["node_templates"]["training"]
    assert {name for name in node["properties"]["files"] if name.endswith(".txt")} == {
        "pkg/a.txt", "pkg/deep/b.txt", "pkg/deep/c.txt",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "is_told"),
    [
        ("open('/data/my/rows.csv')", True), ("pd.read_csv('/data/my/rows.csv')", True), ("np.load(file='x')", False),
        ("open('/data/my/rows.csv', 'w')", False), ("open('/data/my/rows.csv', mode='a')", False), ("print('/data/my/rows.csv')", False),
        ("open('/proc/none')", False), ("open('/tmp')", False),
    ],
)  # fmt: skip
def test_a_file_elsewhere_that_is_not_here_is_told_where_it_is_opened(project, call, is_told):
    (project / "plain.py").write_text(f"{call}\n")
    assert any("not on this machine" in note for note in draft_of(project / "plain.py").notes) == is_told


def test_a_package_of_it_has_all_that_opera_needs(project, tmp_path):
    given_ = Inputs(targets=target_file("testbed"), words=("--name", "x"))
    found, left = contents(project / "train.py", given_)
    assert not left
    assert {"service.yaml", "train.py", "types/modak.yaml", "playbooks/job.yml"} <= set(found)
    lay_out(found, tmp_path / "folder")
    plan = plan_blueprint(tmp_path / "folder" / "service.yaml", Inputs()).plan
    assert plan.target.address == "testbed"
    with pytest.raises(UsageError, match="not empty"):
        lay_out(found, tmp_path / "folder")


def test_types_are_built_in_and_those_beside_go_first(project):
    (project / "service.yaml").write_text(text_of(draft_of(project / "plain.py")))
    mistakes = Mistakes()
    check_blueprint(project / "service.yaml", Inputs(), mistakes)
    assert not list(mistakes)
    (project / "types").mkdir()
    (project / "types" / "modak.yaml").write_text("tosca_definitions_version: tosca_simple_yaml_1_3\n")
    check_blueprint(project / "service.yaml", Inputs(), mistakes)
    assert "unknown-type" in str(next(iter(mistakes)))
    (project / "service.yaml").write_text(text_of(draft_of(project / "plain.py")).replace("types/modak", "types/modac"))
    mistakes = Mistakes()
    check_blueprint(project / "service.yaml", Inputs(), mistakes)
    assert "import-missing" in str(next(iter(mistakes)))


@given(st.text(min_size=1))
def test_whatever_a_file_is_called_its_blueprint_has_a_name(stem):
    from pathlib import PurePosixPath

    from modak_ansible.reading.blueprint.forms.text_rules import name_problem

    if "/" not in stem and stem.strip("."):
        assert not name_problem(name_of(PurePosixPath(f"{stem}.py")))


VALUES = st.recursive(
    st.text() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner), max_leaves=8
)


@given(VALUES)
def test_what_is_written_on_one_line_is_read_as_it_was(value):
    line = flow(value)
    assert "\n" not in line
    assert yaml.safe_load(f"x: {line}\n")["x"] == value


SOURCES = st.lists(
    st.sampled_from(
        [
            "import torch", "from . import x", "x = f'{y}/a'", "open(x, 'w')", "torch.save(a, b'%s')", "p / 'a' / b",
            "parser = argparse.ArgumentParser()", "parser.add_argument('--x', default=lambda: 1)", "import a.b as c",
            "@click.command()\n@click.option('--n', default=3)\ndef f(n): open(f'{n}', 'w')", "os.path.join('a', *b)",
            "import typer\ndef m(a: int = 3): pass\ntyper.run(m)", "'a' % b", "'{}'.format()", "x = x + 'a'", "open()",
        ]
    )
)  # fmt: skip


@given(SOURCES)
def test_whatever_a_script_does_it_is_drafted_or_refused(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("any")
    (folder / "train.py").write_text("\n".join(lines))
    try:
        text = text_of(draft_of(folder / "train.py"))
    except ModakError:
        return
    assert len(text.splitlines()) <= MOST_LINES
    assert yaml.safe_load(text)["topology_template"]["node_templates"]["training"]


MNIST = """\
import torch
from torchvision import datasets
train = datasets.MNIST("../data", train=True, download=True)
test = datasets.MNIST("../data", train=False)
"""


def test_torchvision_s_mnist_is_laid_where_an_unchanged_script_looks_for_it(project):
    script = project / "main.py"
    script.write_text(MNIST)
    text = text_of(draft_of(script))
    assert "properties: { name: mnist, unpack: true, mount_as: ../data/MNIST/raw }" in text
    service = project / "service.yaml"
    service.write_text(text)
    assert plan_blueprint(service, Inputs()).plan.dataset.name == "mnist"
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("root", ["/somewhere", "../../data", "~/data"])
def test_where_a_job_cannot_have_it_torchvision_fetches_mnist_itself(project, root):
    script = project / "main.py"
    script.write_text(MNIST.replace("../data", root))
    draft = draft_of(script)
    assert draft.data == []
    assert f"it looks for MNIST in {root}, and fetches it where it runs" in draft.notes


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(("is_folder", "argument"), [(True, "{dataset}"), (False, "{dataset}/corpus.txt")])
def test_data_that_lies_elsewhere_is_brought(project, tmp_path, absolute, is_folder, argument):
    place = tmp_path / "elsewhere" / ("texts" if is_folder else "corpus.txt")
    place.parent.mkdir()
    if is_folder:
        place.mkdir()
    (place / "a.txt" if is_folder else place).write_text("hello")
    said = str(place) if absolute else f"../elsewhere/{place.name}"
    script = project / "main.py"
    script.write_text(
        f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--text', default={said!r})\n"
    )
    draft = draft_of(script)
    assert draft.arguments == {"text": argument}
    assert not draft.notes
    service = project / "service.yaml"
    service.write_text(text_of(draft))
    [dataset] = plan_blueprint(service, Inputs()).plan.datasets
    assert [file.name for file in dataset.sources[0].files] == ["a.txt" if is_folder else "corpus.txt"]


def test_several_folders_become_several_datasets(project, tmp_path, monkeypatch):
    """Two of one name, one below the script's folder, and one that only the source names, in one blueprint."""
    monkeypatch.setattr("modak_ansible.reading.drafts.data._MOST_FILES", 2)
    for place in ("a/texts", "b/texts", "shared"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "x.txt").write_text(place)
    (tmp_path / "shared" / "y.txt").write_text("y")
    (project / "images").mkdir()
    for name in "pqr":
        (project / "images" / name).write_text(name)
    script = project / "main.py"
    script.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--train')\n"
        "parser.add_argument('--valid-dir')\nargs = parser.parse_args()\nopen('images/p')\nopen('images/q')\n"
        "import os\nos.listdir('images')\nopen('../shared/x.txt')\nopen('../shared/y.txt')\n"
    )
    draft = draft_of(script, ["--train", str(tmp_path / "a" / "texts"), "--valid-dir", "../b/texts"])
    assert {each.name: (each.source, each.mount_as) for each in draft.data} == {
        "texts": (str(tmp_path / "a" / "texts"), ""),
        "valid-dir": ("../b/texts", ""),
        "images": ("images", "images"),
        "x": ("../shared/x.txt", "../shared/x.txt"),
        "y": ("../shared/y.txt", "../shared/y.txt"),
    }
    assert sorted(draft.arguments.values()) in (
        ["{dataset.texts}", "{dataset.valid-dir}"],
        ["{dataset.valid-dir}", "{dataset}"],
    )
    assert not draft.notes
    text = text_of(draft)
    assert len(text.splitlines()) <= MOST_LINES
    (project / "service.yaml").write_text(text)
    plan = plan_blueprint(project / "service.yaml", Inputs()).plan
    assert [each.name for each in plan.datasets] == [each.name for each in draft.data]
    assert {file.path for file in plan.application.files} == {"main.py"}


@pytest.mark.parametrize("holds", ["files", "bytes"])
def test_much_data_beside_the_script_is_brought_once_and_laid_where_it_lies(project, holds, monkeypatch):
    monkeypatch.setattr("modak_ansible.reading.drafts.data._MOST_FILES", 2 if holds == "files" else 500)
    monkeypatch.setattr("modak_ansible.reading.drafts.data._MOST_BYTES", 10**6 if holds == "files" else 20)
    for name in ("train/0/a.jpg", "train/1/b.jpg", "val/c.jpg"):
        (project / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / "images" / name).write_text("an image")
    script = project / "main.py"
    script.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--images', default='images')\n"
        "args = parser.parse_args()\nopen(f'{args.images}/train/0/a.jpg')\nopen('private.txt')\n"
    )
    draft = draft_of(script)
    assert draft.files == ["main.py", "private.txt"]
    assert (draft.data, draft.arguments, draft.unsaid) == ([Data("images", "images", "images")], {}, [])
    service = project / "service.yaml"
    service.write_text(text_of(draft))
    made = plan_blueprint(service, Inputs()).plan
    assert made.dataset.sources[0].contents.files == 3
    assert {file.path for file in made.application.files} == {"main.py", "private.txt"}
    script.write_text(
        script.read_text() + "open('images/cache.bin', 'wb')\n"
    )  # it writes there, and data cannot be written
    assert draft_of(script).data == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("'place', nargs='?', default='images'", ["images"]),
        ("'--images', default='images'", ["--val", "images/val"]),
        ("'--images', default='images'", ["start", "images/val"]),
    ],
)
def test_much_data_that_is_named_twice_is_brought_once(project, options, words, monkeypatch):
    """As python train.py images does, of which the source has the default; and what lies below it comes with it."""
    monkeypatch.setattr("modak_ansible.reading.drafts.data._MOST_FILES", 0)
    for name in ("train", "val"):
        (project / "images" / name).mkdir(parents=True)
        (project / "images" / name / "a.jpg").write_text("an image")
    script = project / "main.py"
    script.write_text(
        f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({options})\n"
        "parser.add_argument('--val')\nparser.add_argument('more', nargs='*')\nprint(parser.parse_args())\n"
    )
    draft = draft_of(script, words)
    assert [(each.source, each.mount_as) for each in draft.data] == [("images", "images")]
    (project / "service.yaml").write_text(text_of(draft))
    assert len(plan_blueprint(project / "service.yaml", Inputs()).plan.datasets) == 1


def test_every_option_that_names_a_place_elsewhere_is_told_where_it_is_then(project, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "rows.csv").write_text("1\n")
    script = project / "main.py"
    script.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data')\n"
        "parser.add_argument('--val', default='../shared')\nprint(parser.parse_args())\n"
    )
    draft = draft_of(script, ["--data", "../shared"])
    assert [each.source for each in draft.data] == ["../shared"]
    assert draft.arguments == {"data": "{dataset}", "val": "{dataset}"}


def test_what_a_script_reads_travels_where_nothing_is_seen_that_it_writes(project):
    (project / "main.py").write_text("print(open('private.txt').read())\n")
    draft = draft_of(project / "main.py")
    assert (draft.outputs, draft.files) == (["*"], ["main.py", "private.txt"])


RANKS = "import torch\ntorch.distributed.init_process_group()\n"


def test_a_script_alone_is_trained_on_several_nodes(project):
    (project / "plain.py").write_text(RANKS)
    made = plan_blueprint(project / "plain.py", Inputs(targets=target_file("testbed"), nodes=2)).plan
    assert (made.job.nodes, made.job.processes_per_node) == (2, 1)
    assert any("torch.distributed.init_process_group (plain.py:2)" in choice.reason for choice in made.choices)


def test_a_blueprint_says_itself_on_how_many_nodes(project, blueprint):
    with pytest.raises(UsageError, match="are only for a script") as caught:
        plan_blueprint(blueprint.service, Inputs(nodes=2))
    assert "under resources" in caught.value.hint


def test_init_writes_on_how_many_nodes(project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "plain.py").write_text(RANKS)
    done = run("init", "plain.py", "--on", "testbed", "--nodes", "2", "--yes")
    assert done.exit_code == 0, done.output
    assert "        resources: { nodes: 2 }\n" in (project / "service.yaml").read_text()


HUB = """\
import torch
from datasets import load_dataset
NAME = "stanfordnlp/imdb"
train = load_dataset(NAME, split="train", revision="v1/2")
more = load_dataset("squad", split="train")
own = load_dataset("csv", data_files="x.csv")
here = load_dataset("folder")
"""


def test_of_datasets_of_the_hub_that_take_each_others_place_none_is_brought(project):
    """Together they may be more than anybody has room for."""
    script = project / "main.py"
    script.write_text(
        "import torch\nfrom datasets import load_dataset\nload_dataset('squad')\nif name == 'a':\n    load_dataset('imdb')\n"
        "elif name == 'b':\n    load_dataset('wikitext', 'x')\nelse:\n    load_dataset('ag_news')\n"
        "if more:\n    load_dataset('glue')\n"
    )
    draft = draft_of(script)
    assert [each.name for each in draft.data] == ["squad", "glue"]
    (_, note) = draft.notes
    assert note.startswith("it asks the Hub for one of imdb, wikitext, ag_news, and which one is not known here: ")


def test_a_dataset_of_the_hub_is_laid_where_an_unchanged_script_finds_it(project):
    (project / "folder").mkdir()
    (project / "folder" / "x.csv").write_text("1\n")
    script = project / "main.py"
    script.write_text(HUB)
    draft = draft_of(script)
    source = "'hf://datasets/stanfordnlp/imdb@v1%2F2'"
    assert f"{{ name: imdb, source: [ {source} ], mount_as: stanfordnlp/imdb }}" in text_of(draft)
    assert draft.data[1:] == [Data("squad", "hf://datasets/squad", "squad")]
    (note,) = draft.notes
    assert note.startswith("nothing comes back")


def test_another_load_dataset_is_none_of_the_hub_s(project):
    script = project / "main.py"
    script.write_text('import torch\ndef load_dataset(name): ...\nload_dataset("imdb")\n')
    assert draft_of(script).data == []


HYDRA = """\
import hydra, torch
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg): torch.save({}, cfg.out)
main()
"""


def test_a_script_of_hydra_has_its_configuration_its_words_and_its_outputs(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.bin").write_text("x")
    (project / "conf").mkdir()
    (project / "conf" / "config.yaml").write_text("epochs: 1\nout: model.pt\ndata_dir: x\nsub: { table: table.csv }\n")
    (project / "plain.py").write_text(HYDRA)
    draft = draft_of(project / "plain.py", [f"data_dir={tmp_path / 'elsewhere'}", "epochs=3"])
    assert draft.files == ["plain.py", "table.csv", "conf"]
    assert draft.words == ["epochs=3", "data_dir={dataset}"]
    assert [each.source for each in draft.data] == [str(tmp_path / "elsewhere")]
    assert draft.outputs == ["model.pt", "outputs"]
    assert "hydra-core" in draft.requirements
    (project / "service.yaml").write_text(
        text_of(draft).replace("words: [", "arguments: { epochs: 2, out: b.pt }\n        words: [")
    )
    mistakes = Mistakes()
    plans = check_blueprint(project / "service.yaml", Inputs(targets=target_file("testbed")), mistakes)
    assert not list(mistakes)
    (plan,) = plans
    assert plan.application.words[:2] == ("epochs=2", "out=b.pt")
    (project / "service.yaml").write_text(text_of(draft).replace("epochs=3", "epohs=3"))
    check_blueprint(project / "service.yaml", Inputs(targets=target_file("testbed")), mistakes)
    assert "plain.py has no epohs in its configuration (did you mean epochs?)" in str(next(iter(mistakes)))


def test_a_file_of_arguments_tells_what_options_would(project):
    (project / "args.json").write_text('{"output_dir": "res", "train_file": "table.csv"}')
    (project / "plain.py").write_text(
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, TrainingArguments\n@dataclass\n"
        "class A:\n    train_file: str = ''\nHfArgumentParser((A, TrainingArguments)).parse_json_file('args.json')\n"
    )
    draft = draft_of(project / "plain.py", ["args.json"])
    assert draft.outputs == ["res"]
    assert sorted(draft.files) == ["args.json", "plain.py", "table.csv"]
    assert draft_of(project / "plain.py", ["--output_dir", "mine"]).outputs == ["mine"]


def test_words_of_a_script_name_what_travels_and_what_is_brought(project, tmp_path):
    (tmp_path / "more.csv").write_text("1")
    (project / "plain.py").write_text("import sys\nopen(sys.argv[3], 'w').write(open(sys.argv[1]).read())\n")
    (project / "out.txt").write_text("of a run here")
    draft = draft_of(project / "plain.py", ["table.csv", str(tmp_path / "more.csv"), "out.txt"])
    assert draft.files == ["plain.py", "table.csv"]
    assert draft.words == ["table.csv", "{dataset}/more.csv", "out.txt"]
    assert draft.outputs == ["out.txt"]


def test_an_option_is_meant_by_any_of_its_names_and_their_beginnings(project, tmp_path):
    (tmp_path / "d").mkdir()
    for words in (["-o", "x"], ["--outp", "x"], ["--output", "x"]):
        (project / "plain.py").write_text(
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('-o', '--output', default='y')\n"
            "p.add_argument('-d', '--data')\na = p.parse_args()\nopen(a.output + '/z.txt', 'w')\n"
        )
        draft = draft_of(project / "plain.py", [*words, "-d", str(tmp_path / "d")])
        assert draft.outputs == ["x/z.txt"]
        assert draft.arguments["data"] == "{dataset}"
        assert "d" not in draft.arguments


def test_a_script_of_which_no_output_is_seen_brings_what_it_writes_unless_it_fetches_data(project):
    (project / "plain.py").write_text("import click\nclick.echo(1)\n")
    assert draft_of(project / "plain.py").outputs == ["*"]
    (project / "plain.py").write_text("from torchvision import datasets\ndatasets.CIFAR10('cifar', download=True)\n")
    assert draft_of(project / "plain.py").outputs == []


def test_a_mistake_of_a_script_alone_stands_at_the_script_and_at_no_line_that_nobody_has(project):
    (project / "plain.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args()\n"
    )
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(project / "plain.py", Inputs(targets=target_file("local"), words=("a.txt", "--epohs=3")))
    assert f"{project / 'plain.py'}: argument: plain.py has no option --epohs" in str(caught.value)


def test_what_no_index_has_is_never_asked_of_one(project):
    """It would bring whatever somebody else has put there under that name."""
    (project / "src" / "helper").mkdir(parents=True)
    (project / "src" / "helper" / "__init__.py").write_text("")
    (project / "scripts").mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "the-project"\ndependencies = ["numpy==1.20.0"]\n'
        '[tool.uv.sources]\nlocal = { path = "../local" }\nforked = { git = "https://example.org/forked" }\n'
    )
    (project / "scripts" / "run.py").write_text("import torch, numpy, helper, the_project, local, forked\n")
    draft = draft_of(project / "scripts" / "run.py")
    assert draft.requirements == ["forked"]
    notes = "\n".join(draft.notes)
    assert "helper, which run.py:1 imports, lies in ../src/helper" in notes
    assert f"(ln -s ../src/helper {project / 'scripts'}/)" in notes
    assert "the-project, which run.py:1 imports, is of this machine (pyproject.toml: it is the project itself)" in notes
    assert "local, which run.py:1 imports, is of this machine" in notes
    assert "an image is built of what an index has, and gets forked from it" in notes
    assert "pyproject.toml: numpy==1.20.0 is asked for, and pytorch-2.13-cpu has numpy " in notes
    (project / "scripts" / "helper").symlink_to("../src/helper")
    draft = draft_of(project / "scripts" / "run.py")
    assert sorted(draft.files) == ["helper/__init__.py", "run.py"]
    assert "helper" not in "\n".join(draft.notes)


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", ""])
def test_the_package_that_a_script_lies_in_is_asked_of_no_index(tmp_path, mark):
    inner = tmp_path / "mine" / "own" / "tools"
    inner.mkdir(parents=True)
    if mark:
        (tmp_path / "mine" / mark).write_text("")
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("")
    (inner / "train.py").write_text("import torch, own.model\nfrom own.tools import x\ndef main(): pass\n")
    draft = draft_of(inner / "train.py")
    assert draft.requirements == []
    assert (
        "own, which train.py:1 imports, is the package that train.py lies in: give a script that lies beside own/ and "
        "starts it: from own.tools.train import main; main()"
    ) in draft.notes


def test_a_folder_that_is_called_as_a_package_is_none_without_code_of_its_own(project):
    """A folder for each library that is tried, one of data, and what a library writes where it is called."""
    (project / "datasets").mkdir()
    (project / "wandb" / "run-1").mkdir(parents=True)
    (project / "xgboost").mkdir()
    (project / "xgboost" / "train.py").write_text("import xgboost, datasets, wandb\n")
    draft = draft_of(project / "xgboost" / "train.py")
    assert draft.requirements == ["datasets", "wandb", "xgboost"]
    assert not any("lies in" in note for note in draft.notes)


def test_a_project_without_git_is_known_by_its_pyproject(tmp_path):
    (tmp_path / "mine" / "src" / "own").mkdir(parents=True)
    (tmp_path / "mine" / "src" / "own" / "__init__.py").write_text("")
    (tmp_path / "mine" / "scripts").mkdir()
    (tmp_path / "mine" / "pyproject.toml").write_text('[project]\nname = "own"\ndependencies = ["einops<0.9"]\n')
    (tmp_path / "mine" / "scripts" / "run.py").write_text("import torch, own, einops\n")
    draft = draft_of(tmp_path / "mine" / "scripts" / "run.py")
    assert draft.requirements == ["einops<0.9"]
    assert any("own, which run.py:1 imports, lies in ../src/own" in note for note in draft.notes)


def test_what_a_script_itself_asks_for_is_brought_whether_it_is_imported_or_not(project):
    (project / "plain.py").write_text(
        '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#     "einops>=0.8",\n#     "torch",\n'
        '#     "openpyxl",\n#     "forked @ git+https://example.org/forked.git",\n# ]\n# ///\nimport torch, einops, forked\n'
    )
    (project / "requirements.txt").write_text("einops==0.1\n")
    assert sorted(draft_of(project / "plain.py").requirements) == ["einops>=0.8", "forked", "openpyxl"]


def test_settings_that_a_script_executes_say_where_it_reads_and_writes(project):
    """As nanoGPT's do: variables, a file that is run over them, and words that go before it."""
    (project / "plain.py").write_text(
        "import os\nout_dir = 'out'\ndataset = 'large'\nexec(open('settings.py').read())\n"
        "rows = open(os.path.join('data', dataset, 'train.bin'))\nopen(os.path.join(out_dir, 'last.pt'), 'w')\n"
    )
    (project / "settings.py").write_text("import sys\n")
    (project / "small.py").write_text("out_dir = 'out-small'\ndataset = 'small'\n")
    for name in ("large", "small"):
        (project / "data" / name).mkdir()
        (project / "data" / name / "train.bin").write_text("x")
    draft = draft_of(project / "plain.py", ["small.py", "--out_dir=mine"])
    assert draft.outputs == ["mine/last.pt"]
    assert "data/small/train.bin" in draft.files
    assert not any("large" in each or each == "data" for each in draft.files)
    assert draft_of(project / "plain.py").outputs == ["out/last.pt"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there are no files in memory here")
def test_what_lies_in_memory_is_the_users(project):
    """Data is copied there to be read fast; all else in /dev is a device."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder, "rows.csv").write_text("1,2\n")
        script = project / "main.py"
        script.write_text(f"rows = open('{folder}/rows.csv')\nopen('/dev/null')\nopen('/dev/no-such-device')\n")
        (note,) = draft_of(script).notes
        assert f"it names {folder}/rows.csv (main.py:1), which stays here" in note


def test_what_the_source_names_elsewhere_is_laid_there_or_told(project, tmp_path):
    """A job finds nothing of this machine by its path."""
    (project / "scripts").mkdir()
    (project / "shared").mkdir()
    (project / "shared" / "rows.csv").write_text("1,2\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "more.csv").write_text("3\n")
    (project / "code").mkdir()
    (project / "code" / "other.py").write_text("")
    (project / "scripts" / "run.py").write_text(
        "import sys\nsys.path.append('../code')\nrows = open('../shared/rows.csv')\n"
        f"more = open('{tmp_path}/own/more.csv')\nlast = open('/home/alice/data/last.csv')\n"
        "open('/dev/null')\nopen('../gone.csv')\nopen('../../')\n"
    )
    draft = draft_of(project / "scripts" / "run.py")
    assert draft.data == [Data("rows", "../shared/rows.csv", "../shared/rows.csv")]
    notes = "\n".join(draft.notes)
    assert f"it names {tmp_path}/own/more.csv (run.py:4), which stays here" in notes
    assert "it names /home/alice/data/last.csv (run.py:5), which is not on this machine" in notes
    assert len(draft.notes) == 2


def test_data_of_which_xgboost_is_told_the_form_travels(project):
    (project / "train.svm").write_text("1 1:1\n")
    (project / "train.py").write_text("import xgboost\nxgboost.DMatrix('train.svm?format=libsvm#train.cache')\n")
    assert draft_of(project / "train.py").files == ["train.py", "train.svm"]
