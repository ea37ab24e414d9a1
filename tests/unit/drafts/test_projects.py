"""Whole projects, as people publish them: what a script of one imports, reads and writes."""

from __future__ import annotations

import ast

import pytest
from script_files import written

from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.drafts.draft import draft_of
from modak_ansible.reading.drafts.outputs import outputs_of
from modak_ansible.reading.drafts.text import text_of


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    """Nothing is installed where the user works."""
    (tmp_path / "env" / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def test_a_package_without_an_init_that_a_script_lies_in_is_asked_of_no_index(project):
    """An index may have anything under such a name: examples, classify, scripts."""
    written(
        project,
        samples__vision__train="import jax\nfrom samples.vision import pictures\nimport samples.tools.log\ndef main(): pass\n",
        samples__vision__pictures="",
        samples__tools__log="",
    )
    draft = draft_of(project / "samples" / "vision" / "train.py")
    assert draft.requirements == []
    (note,) = draft.notes
    assert note.endswith("lies beside samples/ and starts it: from samples.vision.train import main; main()")


def test_the_marker_of_a_project_travels_where_a_script_names_it(project):
    written(
        project, train='import rootutils, torch\nrootutils.setup_root(__file__, indicator=[".project-root", ".env"])\n'
    )
    for name in (".project-root", ".env"):
        (project / name).touch()
    assert sorted(draft_of(project / "train.py").files) == [".project-root", "train.py"]


def test_a_folder_of_other_scripts_is_no_package_of_a_known_name(project):
    written(
        project,
        demos__datasets__prepare="print(1)\n",
        demos__scripts__tune="import torch\nfrom datasets import load_dataset\n",
    )
    draft = draft_of(project / "demos" / "scripts" / "tune.py")
    assert draft.requirements == ["datasets"]
    assert draft.notes == []


def test_all_names_of_a_file_beside_the_script_are_no_module_of_others(project):
    written(project, train="import torch\nfrom nets import *\nfrom tools.draw import *\n", nets="", tools__draw="")
    draft = draft_of(project / "train.py")
    assert sorted(draft.files) == ["nets.py", "tools/draw.py", "train.py"]
    assert draft.requirements == draft.notes == []


@pytest.mark.parametrize(
    "imports",
    [
        "import jax, flax\nimport tensorflow as tf",  # whose data sets are read with it
        "from torch.utils.data import DataLoader\nimport jax, optax",
        "import tensorflow as tf\nimport equinox",
        "import tensorflow as tf\nimport jax",
    ],
)
def test_what_trains_goes_before_what_brings_samples(project, imports):
    written(project, train=f"{imports}\n")
    draft = draft_of(project / "train.py")
    assert draft.framework == draft.frameworks[0] == "jax"


@pytest.mark.parametrize(
    ("call", "folder"),
    [
        ("TensorBoard()", "logs"),
        ("TensorBoard('tb')", "tb"),
        ("TensorBoard(histogram_freq=1)", "logs"),
        ("TensorBoard(log_dir='tb')", "tb"),
    ],
)
def test_what_keras_writes_for_tensorboard_comes_back(project, call, folder):
    written(project, train=f"import keras\nm.fit(x, callbacks=[keras.callbacks.{call}])\nm.save('m.keras')\n")
    assert draft_of(project / "train.py").outputs == sorted([folder, "m.keras"])


@pytest.mark.parametrize(
    ("call", "outputs"),
    [
        ("torch.export.save(m, 'm.pt2')", ["m.pt2"]),
        ("save_model(m, 'out/m.safetensors')", ["out/m.safetensors"]),
        ("save_checkpoint({'epoch': 1}, 'last.pth')", ["last.pth"]),
        ("picture.save(buffer, 'PNG')", ["*"]),
        ("save_metrics(found, 'v1.0')", ["*"]),
        ("save_metrics(found, 'resnet50.a1_in1k')", ["*"]),
        ("p.export_chrome_trace('trace.json')", ["trace.json"]),
        ("torch.profiler.tensorboard_trace_handler('traces')", ["traces"]),
    ],
)
def test_what_is_saved_may_stand_before_where(project, call, outputs):
    written(project, train=f"import torch\n{call}\n")
    assert draft_of(project / "train.py").outputs == outputs


def test_what_an_index_has_under_a_modules_name_need_not_be_it(project):
    """Of pyro it has remote objects, of whisper a database of Graphite's, of ffmpeg and ot other things again."""
    written(project, train="import ffmpeg, ot, pyro, whisper\n")
    draft = draft_of(project / "train.py")
    assert draft.framework == "pytorch"
    assert draft.requirements == ["ffmpeg-python", "pot", "pyro-ppl", "openai-whisper"]


def test_a_package_may_be_called_as_a_file_of_yaml(project):
    (project / "requirements.txt").write_text("ruamel.yaml\n")
    written(project, train="import torch\nfrom ruamel.yaml import YAML\n")
    draft = draft_of(project / "train.py")
    assert (draft.requirements, draft.notes) == (["ruamel.yaml"], [])


def test_what_a_project_does_not_ask_for_and_a_function_of_another_file_imports_is_left_out(project):
    """Exporters and loggers of every kind, of which no run needs all."""
    (project / "requirements.txt").write_text("torch\neinops\n")
    written(
        project,
        train="import torch, einops\nfrom tools import log\ndef main():\n    import tqdm\n",
        tools__log="import yaml\ndef export(m):\n    import openvino\n    import einops\n    from tools import graph\n"
        "class A:\n    import attrs\n",
        tools__graph="import onnx\nimport yaml\n",
    )
    draft = draft_of(project / "train.py")
    assert draft.requirements == ["attrs", "einops", "tqdm", "pyyaml"]
    (note,) = draft.notes
    assert note == (
        "the project does not ask for onnx (tools/graph.py:1), openvino (tools/log.py:3), which functions alone import: left out; "
        "what is needed all the same goes into requirements_txt"
    )
    (project / "requirements.txt").unlink()
    assert "openvino" in draft_of(project / "train.py").requirements


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ('torch.save(m, "%s/net_%d.pt" % (args.out, e))', "here/net_*.pt"),
        ('torch.save(m, "%s/net.pt" % args.out)', "here/net.pt"),
        ('torch.save(m, "{}/net_{}.pt".format(args.out, e))', "here/net_*.pt"),
        ('torch.save(m, "{1}/net_{0:03d}.pt".format(e, args.out))', "here/net_*.pt"),
        ('torch.save(m, "{folder}/net_{e}.pt".format(folder=args.out, e=e))', "here/net_*.pt"),
        ('torch.save(m, "%(out)s/net.pt" % vars(args))', "*/net.pt"),
        ('torch.save(m, "100%%/%s.pt" % args.out)', "100%/here.pt"),
        ('torch.save(m, "{}/{}.pt".format(*names))', "*/*.pt"),
        ('torch.save(m, "%5.2f_%s.pt" % (x, args.out))', "*_here.pt"),
        ('save_on_master(m, os.path.join(args.out, "net.pt"))', "here/net.pt"),
        ('accelerator.save(m.state_dict(), args.out + "/net.pt")', "here/net.pt"),
    ],
)
def test_what_is_written_is_named_by_what_stands_in_its_form(text, pattern):
    assert outputs_of({"a.py": ast.parse(text)}, {"out": "here"})[0] == [pattern]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("from dask.distributed import Client", ["dask", "distributed"]),
        ("from dask import array as da\nimport dask.dataframe", ["dask[dataframe]", "numpy"]),
        ("import dask", ["dask"]),
        ("from xgboost import dask as dxgb", ["xgboost", "dask[dataframe]", "distributed"]),
        ("import lightgbm as lgb\nlgb.DaskLGBMRegressor()", ["lightgbm", "dask[dataframe]", "distributed", "scikit-learn"]),
        ("import torch\ntry:\n    import transformers\nexcept ImportError:\n    pass", []),
    ],
)  # fmt: skip
def test_parts_of_a_package_bring_what_they_need_where_they_are_needed(project, text, lines):
    written(project, train=f"{text}\n")
    assert sorted(draft_of(project / "train.py").requirements) == sorted(lines)


FLAGS = "import argparse, torch\np = argparse.ArgumentParser()\n"


def test_what_a_module_of_settings_holds_is_known_where_it_is_used(project):
    written(
        project,
        settings="OUT = 'nets'\nclass Config:\n    LOGS: str = 'logs'\nSEVERAL = 'a'\n",
        more="SEVERAL = 'b'\n",
        train="import torch, more, settings\nfrom settings import OUT, Config\ntorch.save(m, OUT + '/a.pt')\n"
        "torch.save(m, settings.OUT + '/b.pt')\nopen(f'{Config.LOGS}/x.txt', 'w')\nopen(more.SEVERAL, 'w')\n",
    )
    assert draft_of(project / "train.py").outputs == ["logs/x.txt", "nets/a.pt", "nets/b.pt"]


@pytest.mark.parametrize(
    ("option", "words", "outputs"),
    [
        ("'--workdir'", ["--workdir=out"], ["out"]),
        ("'--output-dir', default='res/one'", [], ["res/one"]),
        ("'--log_level', default='info'", [], []),
        ("'--checkpoint_dir', default='/scratch/x'", [], []),
        ("'--save_dir', default='nets'", [], ["nets"]),
    ],
)
def test_a_folder_that_an_option_gives_for_what_is_written_comes_back(project, option, words, outputs):
    text = f"{FLAGS}p.add_argument({option})\ntrain(p.parse_args())\n"
    written(project, train=text)
    assert draft_of(project / "train.py", words).outputs == ["*"]  # it may write elsewhere, too
    written(project, train=f"{text}CIFAR10('cifar', download=True)\n")
    assert draft_of(project / "train.py", words).outputs == outputs


def test_a_script_that_fetches_data_and_names_no_output_is_told_so(project):
    written(project, train="from torchvision import datasets\ndatasets.CIFAR10('cifar', download=True)\n")
    assert any(note.startswith("nothing comes back: its source names") for note in draft_of(project / "train.py").notes)


def test_a_folder_that_holds_nothing_yet_is_told_and_not_named(project):
    (project / "data" / "masks").mkdir(parents=True)
    (project / "data" / "masks" / ".gitkeep").write_text("")
    (project / "README.md").write_text("x")
    written(project, train="import torch\nopen('data/masks')\nopen('README.md')\n")
    draft = draft_of(project / "train.py")
    assert draft.files == ["train.py"]
    assert draft.notes == ["data/masks, which its source names, has no files yet: a job finds none there"]


@pytest.mark.parametrize(
    ("root", "mount"),
    [
        ("path.join(path.dirname(__file__), '..', 'data')", "../data/MNIST/raw"),
        ("path.join(path.dirname(path.realpath(__file__)), 'data')", "data/MNIST/raw"),
        ("os.path.join(unknown(), '..', '..', 'data')", ""),
    ],
)
def test_a_root_of_torchvision_s_is_never_guessed(project, root, mount):
    written(
        project, train=f"from os import path\nfrom torchvision.datasets import MNIST\nMNIST({root}, download=True)\n"
    )
    assert [each.mount_as for each in draft_of(project / "train.py").data] == ([mount] if mount else [])


def test_variables_that_are_made_of_each_other_take_no_time():
    names = [f"v{number}" for number in range(12)]
    lines = [f"{name} = os.path.join({', '.join(names)})" for name in names for _ in range(4)]
    assert outputs_of({"a.py": ast.parse("\n".join([*lines, "torch.save(m, v0)"]))}, {})[0] == []


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("p = 'nets/best.pt'\ntorch.save(m, p)\np = 'nets/last.pt'\ntorch.save(m, p)", ["nets/*st.pt"]),
        ("p = os.path.join('nets', run)\np = os.path.join(p, 'a.pt')\ntorch.save(m, p)", ["nets/*/a.pt"]),
        ("p = 'nets'\np = p + '/one'\np = p + '/a.pt'\ntorch.save(m, p)", ["nets/one/a.pt"]),
        ("p = 'nets/a.pt'\nif x:\n    p = unknown()\ntorch.save(m, p)", []),
        ("p = q\nq = p\ntorch.save(m, p)", []),
        ("p = p + '/a.pt'\ntorch.save(m, p)", ["*/a.pt"]),
        ("p = 'nets/a.pt'\np += '.gz'\ntorch.save(m, p)", ["nets/a.pt.gz"]),
        ("p = 'nets'\np = p + '/a'\np += '.pt'\ntorch.save(m, p)", ["nets/a.pt"]),
        ("p = 'net'\nif big:\n    p = p + '_big'\ntorch.save(m, p + '.pt')", ["net*.pt"]),
        ("p = 'net'\nif big:\n    p += '_big'\ntorch.save(m, p + '.pt')", ["net*.pt"]),
        ("p = 'net'\nfor word in words:\n    p += '_' + word\ntorch.save(m, p + '.pt')", ["net*.pt"]),
        ("if __name__ == '__main__':\n    p = 'net'\n    p += '_big'\n    torch.save(m, p + '.pt')", ["net_big.pt"]),
        ("p = 'net'\np -= 'x'\ntorch.save(m, p)", []),
        ("p = 'net'\np = p + '_big' if big else p\ntorch.save(m, p + '.pt')", ["net*.pt"]),
        ("p = 'net'\ntorch.save(m, p + '.pt')\np += '_last'\ntorch.save(m, p + '.pt')", ["net*.pt"]),
        (
            "def one():\n    p = 'net'\n    torch.save(m, p + '.pt')\n"
            "def two(p):\n    p = p + '_big'\n    torch.save(m, p + '.pt')",
            ["net*.pt"],
        ),
        ("def one():\n    p = 'net'\n    p = p + '_big'\n    torch.save(m, p + '.pt')", ["net_big.pt"]),
        ("p = 'aa'\np = 'aaa'\ntorch.save(m, p + '/x.pt')", ["aa*/x.pt"]),
    ],
)
def test_a_variable_with_several_values_is_what_they_have_in_common(text, patterns):
    assert outputs_of({"a.py": ast.parse(text)}, {})[0] == patterns


def test_a_framework_that_functions_of_other_files_import_is_asked_for_by_nobody(project):
    written(
        project, train="import torch\nfrom tools import export\n", tools__export="def tf():\n    import tensorflow\n"
    )
    assert draft_of(project / "train.py").frameworks == ["pytorch"]
    written(project, late="from tools import export\n")
    assert draft_of(project / "late.py").frameworks == ["tensorflow"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("datasets.CIFAR10('cifar', download=True)", "CIFAR10 (train.py:2)"),
        ("datasets.CIFAR10('here', download=True)", ""),
        ("datasets.CIFAR10('cifar', download=args.get)", ""),
        ("datasets.MNIST('data', download=True)", ""),
        ("models.resnet18(pretrained=True)", "resnet18 (train.py:2)"),
        ("models.resnet18(weights=models.ResNet18_Weights.DEFAULT)", "resnet18 (train.py:2)"),
        ("AutoModel.from_pretrained('some/model')", "some/model (train.py:2)"),
        ("AutoModel.from_pretrained('here')", ""),
        ("model.save_pretrained('nets/best')\nAutoModel.from_pretrained('nets/best')", ""),
        ("GPT.from_pretrained('scratch')", ""),
        ("BertForMaskedLM.from_pretrained(name)", ""),
        ("keras.datasets.mnist.load_data()", "keras.datasets.mnist.load_data (train.py:2)"),
        ("fetch_california_housing()", "fetch_california_housing (train.py:2)"),
        ("urllib.request.urlretrieve(a, b)", "urllib.request.urlretrieve (train.py:2)"),
        ("own.load_data()", ""),
        ("evaluate.load('accuracy')", "evaluate.load (train.py:2)"),
        ("evaluate.load('here')", ""),
        ("import seaborn as sns\nsns.load_dataset('iris')", "seaborn.load_dataset (train.py:3)"),
        ("from gensim import downloader as api\napi.load('glove')", "gensim.downloader.load (train.py:3)"),
        (
            "from torch_geometric.datasets import Planetoid\nPlanetoid('graphs', 'Cora')",
            "torch_geometric.datasets.Planetoid (train.py:3)",
        ),
        ("from torch_geometric.datasets import FakeDataset\nFakeDataset()", ""),
        ("import tensorflow_datasets as tfds\ntfds.builder('mnist')", "tensorflow_datasets.builder (train.py:3)"),
        ("SentenceTransformer('all-MiniLM-L6-v2')", "all-MiniLM-L6-v2 (train.py:2)"),
        ("keras_hub.models.Bert.from_preset('bert_tiny_en')", "bert_tiny_en (train.py:2)"),
        ("pipeline('summarization', model='some/model')", "some/model (train.py:2)"),
        ("pandas.read_csv('https://example.org/x.csv')", "https://example.org/x.csv (train.py:2)"),
        ("requests.get(f'https://example.org/{name}')", "https://example.org/* (train.py:2)"),
        ("polars.scan_parquet('s3://bucket/rows/*.parquet')", "s3://bucket/rows/*.parquet (train.py:2)"),
        ("SFTTrainer(model='some/model', args=args)", "some/model (train.py:2)"),
        ("Trainer(model=model, args=args)", ""),
        ("requests.post('https://example.org/log')", ""),
    ],
)
def test_what_a_job_would_fetch_is_told(project, text, told):
    """Mostly the nodes of a cluster have no network, and the job would end there."""
    (project / "here").mkdir()
    (project / "here" / "x.bin").write_text("x")
    written(project, train=f"import torch\n{text}\n")
    notes = [note for note in draft_of(project / "train.py").notes if note.startswith("it fetches")]
    assert [note.partition(" where it runs")[0] for note in notes] == ([f"it fetches {told}"] if told else [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/rows/imagenet", "-a", "net"], ["/rows/imagenet"]),
        (["fit", "--data-dir", "/rows"], ["--data-dir"]),
        (["fit", "--out-dir", "/nets", "here", "http://example.org/x"], []),
    ],
)
def test_a_word_that_names_what_is_not_here_is_told(project, words, told):
    """Of which the target may have a copy of its own."""
    (project / "here").mkdir()
    written(project, train="import torch, sys\ntorch.save(train(sys.argv), 'm.pt')\n")
    notes = [note for note in draft_of(project / "train.py", words).notes if "is not on this machine: a job" in note]
    assert [note.split()[0] for note in notes] == told
    assert all(
        note.endswith("finds it only where the target has it: on_target of a dataset names it") for note in notes
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("flags = tf.app.flags\nflags.DEFINE_string('x', '', '')", "tensorflow.app (train.py:2)"),
        ("with tf.Session() as s: pass\nx = tf.placeholder(1)", "tensorflow.Session (train.py:2)"),
        ("tf.estimator.DNNClassifier()", "tensorflow.estimator (train.py:2)"),
        ("tf.compat.v1.Session()\ntf.Session", ""),
        ("tf.data.Dataset", ""),
    ],
)
def test_what_tensorflow_has_no_more_is_told(project, text, told):
    written(project, train=f"import tensorflow as tf\n{text}\n")
    notes = [note.partition(", which TensorFlow")[0] for note in draft_of(project / "train.py").notes]
    assert notes == ([f"it uses {told}"] if told else [])
    (project / "requirements.txt").write_text("tensorflow==1.14\n")
    assert draft_of(project / "train.py").notes == []


@pytest.mark.parametrize(
    ("option", "words", "told"),
    [
        ("'--data_path', default='/path/to/images'", [], "--data_path is /path/to/images, which is not on this machine: "),
        ("'--data-dir'", ["--data-dir", "pictures"], "--data-dir is pictures, which is not on this machine, and a job "),
        ("'--data-dir'", ["--data-dir", "here"], ""),
        ("'--data-dir', default=''", [], ""),
        ("'--rows'); add_all(p", ["--data-dir", "pictures"], "--data-dir is pictures, which is not on this machine, and a job "),
        ("'--dataset', default='cifar10'", [], ""),
        ("'--out-dir', default='nets'", [], ""),
        ("'--data-dir', default='.'", [], ". (which --data-dir names) is the script's own folder and is not copied: "),
        ("'--data-dir', default='~'", [], "~ (which --data-dir names) is the whole home folder and is not copied: "),
        ("'--data-dir', default='readers'", [], ""),
        ("'--data_path'); p.add_argument('--root', default='./here/'", ["--data_path", "x.bin"], ""),  # which it joins
        ("'--data-dir', default='s3://bucket/rows'", [], ""),
    ],
)  # fmt: skip
def test_data_that_an_option_names_and_that_is_not_here_is_told(project, option, words, told):
    (project / "here").mkdir()
    (project / "here" / "x.bin").write_text("x")
    text = f"{FLAGS}import readers.rows\np.add_argument({option})\ntrain(p.parse_args())\n"
    written(project, train=text, readers__rows="")
    notes = draft_of(project / "train.py", words).notes
    assert [note[: len(told)] for note in notes] == ([told] if told else [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data = torch.load('waves.pt')", "waves.pt (train.py:2)"),
        ("def batch(split):\n    if split == 'train':\n        return np.memmap('bins/train.bin')", "bins/train.bin (train.py:4)"),
        ("pandas.read_csv('here.csv')", ""),
        ("torch.save(m, 'm.pt')\ntorch.load('m.pt')", ""),
        ("if args.resume:\n    torch.load('m.pt')", ""),
        ("def main(resume):\n    if resume and not fresh:\n        torch.load('m.pt')", ""),
        ("def main(start):\n    if start is not None:\n        torch.load('m.pt')", ""),
        ("net = torch.load('m.pt') if resume else None", ""),
        ("if __name__ == '__main__':\n    torch.load('m.pt')", "m.pt (train.py:3)"),
        ("open('m.txt', mode)", ""),
        ("shutil.copy(a, 'w/b.json')\nopen('w/b.json')", ""),
        ("state.write(path='w/b.json')\nopen('w/b.json')", ""),
        ("try:\n    open('m.txt')\nexcept OSError: pass", ""),
        ("if os.path.exists(x): pass\nopen('m.txt')", ""),
        ("if os.path.exists('meta.pkl') or args.resume.exists(): pass\nopen('m.txt')", "m.txt (train.py:3)"),
        ("if os.path.isfile(args.resume): pass\nopen('m.txt')", "m.txt (train.py:3)"),
        ("if not os.path.isdir('w'): make()\nopen('w/m.txt')", ""),
        ("if Path('m.txt').exists(): pass\nopen('m.txt')", ""),
        ("root = 'images'\ndatasets.ImageFolder(os.path.join(root, 'train'))", "images/train (train.py:3)"),
        ("os.makedirs('w')\nos.listdir('w')", ""),
        ("model.save_pretrained('out')\nopen('out/m.txt')", ""),
        (f"{FLAGS}p.add_argument('--data-dir', default='rows')\nargs = p.parse_args()\nos.listdir(args.data_dir + '/train')", ""),
        ("evaluate.load('some/metric.x')", ""),
        ("with zipfile.ZipFile('here.csv') as z:\n    z.open('in/rows.csv')", ""),
        ("gzip.open('rows.gz')", "rows.gz (train.py:2)"),
        ("pandas.read_csv('https://example.org/x.csv')", ""),
        ("urllib.request.urlretrieve(a, 'm.txt')\nopen('m.txt')", ""),
    ],
)  # fmt: skip
def test_a_file_that_is_opened_and_that_nothing_makes_is_told(project, text, told):
    (project / "here.csv").write_text("1\n")
    written(project, train=f"import torch\n{text}\n")
    notes = [note for note in draft_of(project / "train.py").notes if note.startswith("it opens")]
    assert [note.partition(", which")[0] for note in notes] == ([f"it opens {told}"] if told else [])


@pytest.mark.parametrize(
    ("call", "travels"),
    [
        ("glob.glob('rows/part-*.csv')", ["rows"]),
        ("tf.data.Dataset.list_files('rows/**/part-?.csv')", ["rows"]),
        ("webdataset.WebDataset('rows/part-{0..1}.csv')", ["rows"]),
        ("read('rows/part-%d.csv' % number)", ["rows"]),
        ("read('rows/part-{}.csv'.format(number))", ["rows"]),
        ("glob.glob('*.tsv')", ["a.tsv", "b.tsv"]),
        ("polars.scan_csv('?.tsv')", ["a.tsv", "b.tsv"]),
        ("pathlib.Path().glob('*.tsv')", ["a.tsv", "b.tsv"]),
        ("folder.glob('*.tsv')", []),  # which may be any
        ("glob.glob('*')", []),
        ("read('rows/gone.csv')", []),
        ("table.write_csv('x.tsv')\nglob.glob('rows/x*.csv')\ntorch.save(m, 'rows/x1.csv')", []),
        ("print('*** rows: 100% [done] ***')", []),
    ],
)
def test_what_a_pattern_names_travels(project, call, travels):
    written(project, train=f"import torch\n{call}\n")
    (project / "rows").mkdir()
    for name in ("rows/part-0.csv", "rows/part-1.csv", "a.tsv", "b.tsv"):
        (project / name).write_text("1\n")
    assert draft_of(project / "train.py").files == ["train.py", *travels]


@pytest.mark.parametrize("call", ["open('rows/x.bin')", "glob('rows/*.bin')"])
def test_what_git_lfs_has_in_the_place_of_a_file_is_told(project, call):
    """As a clone without Git LFS has it."""
    written(project, train=f"import torch\n{call}\n")
    (project / "rows").mkdir()
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 12345\n"
    (project / "rows" / "x.bin").write_text(text)
    (note,) = draft_of(project / "train.py").notes
    assert note == "rows/x.bin is a pointer of Git LFS, not the file itself: git lfs pull"


@pytest.mark.parametrize("link", ["rows", "rows/train", "rows/train/x.csv"])
@pytest.mark.parametrize(
    ("call", "mount"), [("open('rows/train/x.csv')", "rows/train/x.csv"), ("glob('rows/*/x.csv')", "rows")]
)
def test_data_that_a_link_has_from_elsewhere_is_brought_and_laid_where_it_lies(project, tmp_path, link, call, mount):
    """It does not travel: a link out of the project may lead to anything."""
    (tmp_path / "rows" / "train").mkdir(parents=True)
    (tmp_path / "rows" / "train" / "x.csv").write_text("1\n")
    (project / link).parent.mkdir(parents=True, exist_ok=True)
    (project / link).symlink_to(tmp_path / link)
    written(project, train=f"import torch\n{call}\ntorch.save(m, 'm.pt')\n")
    service = project / "service.yaml"
    service.write_text(text_of(draft_of(project / "train.py")))
    plan = plan_blueprint(service, Inputs()).plan
    (dataset,) = plan.datasets
    assert (dataset.mount_as, dataset.sources[0].contents.files) == (mount, 1)
    assert [each.path for each in plan.application.files] == ["train.py"]


def test_data_that_a_path_with_a_dot_names_by_default_is_brought_once(project):
    (project / "rows").mkdir()
    (project / "rows" / "x.csv").write_text("1\n")
    written(project, own__train=f"{FLAGS}p.add_argument('--data', default='./../rows')\ntrain(p.parse_args())\n")
    draft = draft_of(project / "own" / "train.py")
    assert [(each.source, each.mount_as) for each in draft.data] == [("../rows", "")]


def configured(project):
    (project / "requirements.txt").write_text("torch\neinops\ntqdm\nhydra-core\n")
    written(project, nets__small="import tqdm\n", nets__big="")
    for name, text in {
        "config": "defaults:\n  - model: small\nepochs: 1\n",
        "model/small": "_target_: nets.small.Net\nopt: { _target_: einops.Rearrange, lr: 1 }\n",
        "model/big": "# _target_: gone.Net\nnet:\n  _target_: 'nets.big.Net' # large\nother:\n  _target_: absent.Net\n",
    }.items():
        (project / "conf" / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (project / "conf" / f"{name}.yaml").write_text(text)


HYDRA = '@hydra.main(version_base=None, config_path="{}", config_name="config")\ndef main(cfg): pass\n'


def test_classes_that_hydra_s_configuration_names_travel_and_their_packages_come(project):
    configured(project)
    written(project, train=f"import hydra, torch\n{HYDRA.format('conf')}main()\n")
    draft = draft_of(project / "train.py", ["epochs=3"])
    assert draft.files == ["train.py", "nets/big.py", "nets/small.py", "conf"]
    assert draft.requirements == ["einops", "hydra-core", "tqdm"]


def test_a_script_that_starts_one_of_hydra_s_has_its_configuration(project):
    configured(project)
    written(project, src__train=f"import hydra, torch\n{HYDRA.format('../conf')}")
    (project / "src" / "__init__.py").write_text("")
    written(project, start="from src.train import main\nmain()\n")
    draft = draft_of(project / "start.py", ["epochs=3"])
    assert set(draft.files) == {"start.py", "src/__init__.py", "src/train.py", "nets/small.py", "nets/big.py", "conf"}
    assert draft.words == ["epochs=3"]
    written(project, other="import argparse\nfrom src.train import main\nargparse.ArgumentParser().parse_args()\n")
    assert "conf" not in draft_of(project / "other.py").files
    written(project, own="from src import train\ndef main(): pass\nmain()\n")
    assert "conf" not in draft_of(project / "own.py").files
    written(project, own="from src import train\ndef main(): train.main()\nmain()\n")
    assert "conf" in draft_of(project / "own.py").files


@pytest.mark.parametrize("key", ["class_path", "target", "_target_"])
def test_classes_that_a_file_of_the_command_line_names_travel(project, key):
    configured(project)
    (project / "one.yaml").write_text(f"model:\n  {key}: nets.small.Net\n")
    written(project, train="import torch\n")
    for words in (["fit", "--config", "one.yaml"], ["--config=one.yaml"]):
        draft = draft_of(project / "train.py", words)
        assert "nets/small.py" in draft.files
        assert "nets/big.py" not in draft.files


IDIOMS = "import os, torch\nimport os.path as osp\nfrom os.path import dirname, join\nfrom pathlib import Path\n"


@pytest.mark.parametrize(
    "here",
    [
        "f'{os.path.dirname(__file__)}/{}'", "os.path.dirname(os.path.abspath(__file__)) + '/{}'",
        "osp.join(osp.dirname(osp.realpath(__file__)), '{}')", "join(dirname(__file__), '{}')",
        "'%s/{}' % os.path.split(os.path.realpath(__file__))[0]", "Path(__file__).resolve().parents[0] / '{}'",
        "os.path.join(os.getcwd(), '{}')", "os.path.join(os.path.dirname(__file__), 'x', '..', '{}')",
    ],
)  # fmt: skip
def test_the_script_s_own_folder_is_known_however_it_is_said(project, here):
    (project / "table.csv").write_text("1\n")
    said = [here.replace("{}", name) for name in ("table.csv", "out.txt")]
    written(project, train=f"{IDIOMS}rows = open({said[0]})\nwith open({said[1]}, 'w') as file: pass\n")
    draft = draft_of(project / "train.py")
    assert (draft.files, draft.outputs, draft.notes) == (["train.py", "table.csv"], ["out.txt"], [])


def test_the_parts_of_a_text_that_is_called_a_path_are_no_folders(project):
    for separator, output in ((".", "*_best.pt"), ("/", "*_best.pt")):
        written(project, train=f"import torch\ntorch.save(m, model_path.split('{separator}')[0] + '_best.pt')\n")
        assert draft_of(project / "train.py").outputs == [output]


@pytest.mark.parametrize(
    "above",
    [
        "Path(__file__).parent.parent", "Path(__file__).absolute().parents[1]", "Path(__file__).resolve().parent / '..'",
        "os.path.dirname(os.path.dirname(os.path.abspath(__file__)))", "Path.cwd().parent",
    ],
)  # fmt: skip
def test_the_folder_above_is_known_however_it_is_said(project, above):
    for name in ("shared", "runs"):
        (project / name).mkdir()
        (project / name / "rows.csv").write_text("1\n")
    written(
        project,
        scripts__train=f"{IDIOMS}ROOT = {above}\nrows = open(os.path.join(ROOT, 'shared', 'rows.csv'))\n"
        "runs = os.path.join(ROOT, 'runs')\ntorch.save(m, f'{runs}/m.pt')\n",
    )
    draft = draft_of(project / "scripts" / "train.py")
    assert [(each.name, each.source, each.mount_as) for each in draft.data] == [
        ("rows", "../shared/rows.csv", "../shared/rows.csv")
    ]
    (note,) = draft.notes
    assert note.startswith("it writes to ../runs/m.pt, outside of its folder, from where nothing comes back; ")


@pytest.mark.parametrize("module", ["_ours", "ours_", "größe"])
def test_a_module_whose_name_no_package_can_have_is_told(project, module):
    written(project, train=f"import torch\nimport {module}\n")
    draft = draft_of(project / "train.py")
    assert draft.requirements == []
    assert draft.notes == [
        f"{module}, which train.py:2 imports, is not the name of a package: left out; what is needed all the same goes into "
        "requirements_txt"
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import wandb\nwandb.init(project='x')", "WANDB_MODE"),
        ("def log():\n    import wandb\n    wandb.init(mode=mode)", "WANDB_MODE"),
        ("import wandb\nwandb.init(mode='offline')", ""),
        ("import os, wandb\nos.environ['WANDB_MODE'] = 'disabled'", ""),
        ("from clearml import Task\nTask.init()", "CLEARML_OFFLINE_MODE"),
        ("from flash_attn import flash_attn_func", "nvcc"),
        ("try:\n    import wandb, flash_attn\nexcept ImportError:\n    pass", ""),
    ],
)
def test_what_wants_a_server_or_a_compiler_that_a_cluster_has_not_is_told(project, text, told):
    written(project, train=f"import torch\n{text}\ntorch.save(1, 'a.pt')\n")
    notes = draft_of(project / "train.py").notes
    assert len(notes) == bool(told)
    assert told in "".join(notes)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("root = os.environ['DATA_ROOT']", "it takes DATA_ROOT (train.py:2) from its environment"),
        ("def main():\n    read(os.environ['A'], os.environ['B'])", "it takes A (train.py:3), B (train.py:3) from its"),
        ("os.environ['A'] = '1'\nos.environ['A']", ""),
        ("os.environ['MY_TOKEN']", "it takes MY_TOKEN (train.py:2) from its environment, where no job has that: environment of "
                                   "a blueprint says it; of a secret, pre_execution: [ 'export NAME=$(cat ~/.name)' ]"),
        ("if 'A' in os.environ:\n    os.environ['A']", ""),
        ("try:\n    os.environ['A']\nexcept KeyError: pass", ""),
        ("rank = int(os.environ['LOCAL_RANK']) + int(os.environ['SLURM_PROCID'])", ""),
        ("os.environ[name]\nother['A']", ""),
    ],
)  # fmt: skip
def test_variables_that_no_job_has_are_told(project, text, told):
    written(project, train=f"import os, torch\n{text}\ntorch.save(1, 'a.pt')\n")
    notes = draft_of(project / "train.py").notes
    assert [note[: len(told)] for note in notes] == ([told] if told else [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("YOLO('yolo11n.pt').train(data='here.yaml')", "yolo11n.pt (train.py:3)"),
        ("YOLO('yolo11n.yaml')\nYOLO('here.yaml')", ""),
        ("import tensorflow as tf\ntf.keras.applications.ResNet50(weights='imagenet')", "ResNet50 (train.py:4)"),
        ("import keras\nkeras.applications.ResNet50(weights=None)\nkeras.applications.vgg16.VGG16(weights='w.h5')", ""),
        ("from torchvision import models\nmodels.resnet18(weights='DEFAULT')\nother(weights='balanced')", "resnet18 (train.py:4)"),
        ("import tensorflow_hub as hub\nhub.KerasLayer('https://tfhub.dev/x/1')", "https://tfhub.dev/x/1 (train.py:4)"),
        ("from webdataset import WebDataset\nWebDataset('pipe:aws s3 cp s3://b/{0..9}.tar -')", "pipe:aws s3 cp s3://b/{0..9}.tar - (train.py:4)"),
        ("from fastai.vision.all import *\nuntar_data(URLs.PETS)", "untar_data (train.py:4)"),
    ],
)  # fmt: skip
def test_weights_and_streams_that_are_fetched_are_told(project, text, told):
    (project / "here.yaml").write_text("nc: 1\n")
    written(project, train=f"import torch\nfrom ultralytics import YOLO\n{text}\n")
    notes = [note for note in draft_of(project / "train.py").notes if note.startswith("it fetches")]
    assert [note.partition(" where it runs")[0] for note in notes] == ([f"it fetches {told}"] if told else [])


def test_a_submodule_that_is_not_here_is_told_with_what_fetches_it_and_code_aside_is_no_data(project):
    (project / ".gitmodules").write_text("[submodule]\n")
    (project / "third" / "lib").mkdir(parents=True)
    text = "import sys, torch\nsys.path.insert(0, 'third/lib')\nsys.path.append('../../libs')\nfrom common import io\n"
    written(project, train=text, one__two__train=text, libs__common__io="")
    (note,) = draft_of(project / "train.py").notes
    assert note.endswith(
        "has no files yet: a job finds none there; git submodule update --init fetches those of submodules"
    )
    note, *more = draft_of(project / "one" / "two" / "train.py").notes
    assert not [each for each in more if "libs" in each]
    assert note.startswith("common, which train.py:4 imports, lies in ../../libs/common")


def test_values_of_hydra_that_name_others_are_these(project):
    (project / "conf").mkdir()
    (project / "conf" / "config.yaml").write_text(
        "top: ${oc.env:DATA,rows}\ndata: { dir: '${top}/train', other: '${oc.env:DATA}/x', path: /lustre/nobody/a }\n"
        "out: ${hydra:runtime.output_dir}/m.pt\nround: ${round}\nmore: ${more}${more}${round}\nplain: nets/${name}.pt\nname: a\n"
    )
    (project / "rows" / "train").mkdir(parents=True)
    (project / "rows" / "train" / "x.csv").write_text("1")
    main = HYDRA.format("conf").replace(": pass", ": torch.save(1, cfg.out); torch.save(1, cfg.plain)")
    written(project, train=f"import hydra, torch\n{main}main()\n")
    draft = draft_of(project / "train.py")
    assert draft.files == ["train.py", "rows", "conf"]
    assert draft.outputs == ["nets/a.pt", "outputs"]
    assert [note.partition(" is not")[0] for note in draft.notes] == ["/lustre/nobody/a"]


def test_what_only_an_extra_asks_for_has_its_version_and_comes_where_it_is_needed(project):
    (project / "pyproject.toml").write_text(
        '[project]\ndependencies = ["torch"]\n[project.optional-dependencies]\nall = ["einops==0.7", "timm==1", "onnx==1"]\n'
    )
    tools = "def export():\n    import onnx\n"
    written(
        project, train="import einops, tools, torch\ntry:\n    import timm\nexcept ImportError: pass\n", tools=tools
    )
    draft = draft_of(project / "train.py")
    assert draft.requirements == ["einops==0.7"]
    (note,) = draft.notes
    assert note.startswith("the project does not ask for onnx (tools.py:2), which functions alone import: left out")


@pytest.mark.parametrize(
    ("python", "pinned", "told"),
    [
        ("3.11", "pandas==1.5.3", '.python-version is for Python 3.11, and python-3.13 has 3.13: version: "3.11" has that'),
        ("3.8.2", "pandas<2", ".python-version is for Python 3.8, and python-3.13 has 3.13: what it pins may have no wheels for that"),
        ("3.13.1", "pandas==1.5.3", ""),
        ("3.11", "pandas", ""),
    ],
)  # fmt: skip
def test_versions_for_another_python_are_told(project, python, pinned, told):
    (project / ".python-version").write_text(python)
    (project / "requirements.txt").write_text(pinned)
    written(project, train="import pandas\n")
    assert draft_of(project / "train.py").notes == ([told] if told else [])
