"""Which files a script writes, and what it fetches, as far as its source says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import PurePosixPath
from typing import TypeGuard

from modak_ansible.reading.blueprint.script.libraries import PARSERS
from modak_ansible.reading.blueprint.script.source import source_of
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of
from modak_ansible.reading.drafts.texts import ANY, FORMATTED, Calls, Texts, below

# Where the path stands among the arguments: of a function, by the end of its name, and of a method.
_FUNCTIONS = {
    "torch.save": 1, "jit.save": 1, "onnx.export": 2, "dump": 1, "onnx.save": 1, "image.imsave": 0, "save_file": 1,
    "save_image": 1, "saved_model.save": 1, "save_on_master": 1, "accelerator.save": 1, "copyfile": 1, "shutil.copy": 1,
    "copy2": 1, "train.CheckpointManager": 1, "copytree": 1, "shutil.move": 1, "os.rename": 1, "os.replace": 1,
}  # fmt: skip
_METHODS = {
    "save": 0, "save_weights": 0, "save_model": 0, "save_pretrained": 0, "savefig": 0, "imsave": 0, "imwrite": 0,
    "to_csv": 0, "to_parquet": 0, "to_json": 0, "to_pickle": 0, "to_hdf": 0, "to_excel": 0, "to_feather": 0, "savez": 0,
    "savez_compressed": 0, "savetxt": 0, "export": 0, "write_html": 0, "write_image": 0, "dump_model": 0,
    "save_checkpoint": 0, "tofile": 0, "SummaryWriter": 0, "CSVLogger": 0, "TensorBoardLogger": 0, "ModelCheckpoint": 0,
    "BackupAndRestore": 0, "write_csv": 0, "write_parquet": 0, "save_state": 0, "FileHandler": 0,
    "create_file_writer": 0, "TensorBoard": 0, "export_chrome_trace": 0, "tensorboard_trace_handler": 0,
    "FileStorageObserver": 0, "to_netcdf": 0, "to_zarr": 0, "sink_parquet": 0, "sink_csv": 0,
    "to_file": 0, "tree_serialise_leaves": 0, "save_to_disk": 0, "to_disk": 0, "save_word2vec_format": 0,
    "CheckpointManager": 0,
}  # fmt: skip
_KEYWORDS = {
    "output_dir", "save_dir", "default_root_dir", "dirpath", "checkpoint_dir", "logging_dir", "log_dir", "save_path",
    "filepath", "model_dir", "logdir", "save_directory", "tensorboard_log",
}  # fmt: skip
# What a path gets that has no ending, by the end of the name of what writes it.
_ENDINGS = {"np.save": ".npy", "numpy.save": ".npy", "savez": ".npz", "savez_compressed": ".npz", "savefig": ".png"}
# What adds endings of its own to a path without one, or to that of TensorFlow's checkpoints.
_PREFIXED = ("save", "save_weights")
_NAMED = {"basicConfig": "filename"}  # the keyword that names the file, of what takes it by no place
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,11}$")  # of a file, and not of a version or a model's name
# What writes somewhere where nobody says where.
_DEFAULTS = {"SummaryWriter": "runs", "TensorBoard": "logs"}
# Hugging Face's arguments of a training, trl's among them: the folder is their first, and has a name of its own.
_OF_TRAINER = re.compile(
    r"\w*TrainingArguments|(SFT|DPO|GRPO|PPO|KTO|ORPO|CPO|Reward|RLOO|OnlineDPO|BCO|XPO|GKD)Config"
)
_TRAINER_FOLDER = "trainer_output"
_LIGHTNING = ("lightning", "pytorch_lightning")
_LIGHTNING_FOLDERS = ("lightning_logs", "checkpoints")  # with a logger, and without
_FETCHES = {"urlretrieve", "snapshot_download", "hf_hub_download", "load_dataset", "download", "get_file", "wget"}
OPENERS = ("io", "gzip", "bz2", "lzma", "codecs", "fsspec", "tarfile", "Image", "rasterio", "wave", "zarr")  # modules
_OPENING = ("h5py.File", "ZipFile")  # classes that open a file as open does
# What reads a file beside open and pandas' functions.
_READERS = ("fromfile", "genfromtxt", "imread", "load", "loadtxt", "memmap")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
# The switches, and the functions, of libraries that have something fetched.
_FETCHING = ("download", "pretrained")
_REMOTE = re.compile(r"(pipe:.*\s)?(https?|s3|gs|hf)://")
_STREAMING = ("WebDataset", "StreamingDataset", "KerasLayer")
_ASKING = ("requests.get", "urllib.request.urlopen")
_FETCHERS = re.compile(
    r"\.(urlretrieve|snapshot_download|hf_hub_download|hub\.load|fetch_(openml|california_housing|covtype|20newsgroups\w*)"
    r"|(mnist|fashion_mnist|cifar10|cifar100|imdb|reuters|boston_housing|california_housing)\.load_data|get_file|tfds\.load"
    r"|tensorflow_datasets\.(load|builder)|evaluate\.load|nltk\.download|(gdown|wget)\.download\w*|seaborn\.load_dataset"
    r"|gensim\.downloader\.load|kagglehub\.\w+_download|untar_data|load_state_dict_from_url|fetch_ucirepo"
    r"|(torch_geometric\.datasets|ogb\.\w+)\.(?!Fake|Evaluator)[A-Z]\w+)$"
)
_WEIGHTED = re.compile(r"(^|\.)(keras\.applications|torchvision\.models|segmentation_models_pytorch)\.[\w.]+$")
_PRETRAINED = re.compile(
    r"(^|\.)(Auto\w+|\w+(Tokenizer|TokenizerFast|Model|Processor|Pipeline)|\w+For\w+)\.from_pretrained$"
    r"|\w\.from_preset$|(^|\.)ultralytics\.[A-Z]\w+$|(^|\.)(SentenceTransformer|CrossEncoder|pipeline|\w+Trainer)$"
)
_WRITERS = ("write_text", "write_bytes")
_FEWEST_LETTERS = 2


def outputs_of(trees: Mapping[str, ast.Module], options: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Patterns of the files that a script writes below its folder, and the paths elsewhere that it writes to.

    Args:
        options: the defaults of its options, by the names that hold their values.
    """
    inside: list[str] = []
    outside: list[str] = []
    calls = _calls_of(trees, options)
    for path, tree in trees.items():
        texts = Texts(tree, options, path, calls)
        names, parsed_classes = _lightning_names(tree), source_of(tree).parsed
        for node in nodes_of(tree):
            paths = (
                [*_written_paths(node, texts), *_trainer_folders(node, texts, names, parsed_classes)]
                if isinstance(node, ast.Call)
                else ()
            )
            for text in paths:
                pattern = _escaped(below(FORMATTED.sub(ANY, text)))  # of a callback, which fills it in
                if pattern and len(pattern.replace(ANY, "").strip("./")) >= _FEWEST_LETTERS:
                    inside.append(pattern)
                elif not pattern and text.strip(f"./{ANY}"):
                    outside.append(text.removeprefix("./"))
    patterns = [
        pattern
        for pattern in dict.fromkeys(inside)
        if not any(pattern.startswith(f"{other}/") for other in inside if other != pattern)
    ]
    return sorted(patterns), sorted(set(outside))


def _calls_of(trees: Mapping[str, ast.Module], options: Mapping[str, str]) -> Calls:
    """What is called, by its last name; of fire's commands with the options by the names of their parameters."""
    calls: dict[str, list[tuple[str, ast.Call]]] = {}
    keywords = [ast.keyword(name, ast.Constant(value)) for name, value in options.items()]
    for path, call in ((path, node) for path, tree in trees.items() for node in nodes_of(tree)):
        if isinstance(call, ast.Call):
            is_fire = last_name(call.func) == "Fire" and call.args
            effective = ast.Call(call.func, [], keywords) if is_fire else call
            calls.setdefault(last_name(call.args[0] if is_fire else call.func), []).append((path, effective))
    return calls


def _escaped(path: str) -> str:
    """A pattern of a path in which only ANY stands for something else."""
    return ANY.join(map(escape, path.split(ANY)))


def downloads(trees: Mapping[str, ast.Module]) -> bool:
    """Whether a script fetches something into a folder, which is no output of it."""
    calls = [node for tree in trees.values() for node in nodes_of(tree) if isinstance(node, ast.Call)]
    return any(last_name(call.func) in _FETCHES or "download" in {word.arg for word in call.keywords} for call in calls)


def _written_paths(call: ast.Call, texts: Texts) -> Iterator[str]:
    name = last_name(call.func)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    full = ast.unparse(call.func) if isinstance(call.func, ast.Attribute | ast.Name) else name
    node: ast.expr | None = None
    if name == "open" or full.endswith(_OPENING):
        node = _opened(call, keywords)
    elif name in _NAMED:
        node = keywords.get(_NAMED[name])
    elif name in _WRITERS and isinstance(call.func, ast.Attribute):
        node = call.func.value
    else:
        indices = [index for end, index in _FUNCTIONS.items() if full == end or full.endswith(f".{end}")]
        index = indices[0] if indices else _METHODS.get(name)
        if index is not None:
            paths = [keywords[key] for key in ("f", "path", "filename", "fname", "file", "dst") if key in keywords]
            node = next(iter([*paths, *call.args[index : index + 1]]), None)
    text = texts.of(node)
    if text is None and name.startswith("save") and len(call.args) > 1:  # behind what is saved
        second = texts.of(call.args[1]) or ""
        text = second if _ENDING.search(second) else None
    if isinstance(node, ast.Call) and last_name(node.func) == "open":
        text = None  # which is looked at by itself
    if text:
        ending = next((ending for end, ending in _ENDINGS.items() if full == end or full.endswith(f".{end}")), "")
        suffix, is_exact = PurePosixPath(text).suffix, full.endswith("torch.save") or name not in _PREFIXED
        yield (
            text if suffix not in ("", ".ckpt") or (is_exact and suffix) else f"{text}{ending or ANY * (not is_exact)}"
        )
    elif name in _DEFAULTS and not call.args and not _KEYWORDS & set(keywords):
        yield _DEFAULTS[name]
    for keyword in sorted(_KEYWORDS & set(keywords)):
        if path := texts.of(keywords[keyword]):
            yield path


def _trainer_folders(call: ast.Call, texts: Texts, lightning: set[str], parsed_classes: set[str]) -> Iterator[str]:
    """The folders that libraries' trainers write, where they are said and where they are not."""
    name = last_name(call.func)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if _OF_TRAINER.fullmatch(name) and None not in keywords:
        folder = call.args[0] if call.args else keywords.get("output_dir")
        if folder is None or (isinstance(folder, ast.Constant) and folder.value is None):
            yield _TRAINER_FOLDER
        elif "output_dir" not in keywords:
            yield texts.of(folder) or ""
    elif name in PARSERS:
        if any(_OF_TRAINER.fullmatch(class_name) for class_name in parsed_classes):
            yield texts.of(ast.Name("output_dir")) or _TRAINER_FOLDER
    elif ast.unparse(call.func) in lightning and "default_root_dir" not in keywords:
        logger = keywords.get("logger")
        has_none = isinstance(logger, ast.Constant) and logger.value in (None, False)
        if logger is None or isinstance(logger, ast.Constant):
            yield _LIGHTNING_FOLDERS[has_none]


def _lightning_names(tree: ast.Module) -> set[str]:
    """How a file calls Lightning's Trainer and its command line."""
    names = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            names |= {
                f"{alias.asname or alias.name}.Trainer"
                for alias in node.names
                if alias.name.split(".")[0] in _LIGHTNING
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _LIGHTNING:
            names |= {alias.asname or alias.name for alias in node.names if alias.name in ("Trainer", "LightningCLI")}
            names |= {f"{alias.asname or alias.name}.Trainer" for alias in node.names if alias.name == "pytorch"}
    return names


def _opened(call: ast.Call, keywords: Mapping[str, ast.expr]) -> ast.expr | None:
    """The path that open(path, "w") or path.open("w") writes; None where it reads."""
    is_method = (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "open"
        and ast.unparse(call.func.value) not in OPENERS
    )
    mode_index = 0 if is_method else 1
    mode = keywords.get("mode") or (call.args[mode_index] if len(call.args) > mode_index else None)
    is_written = isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax")
    if not is_written:
        return None
    if is_method and isinstance(call.func, ast.Attribute):
        return call.func.value
    return call.args[0] if call.args else None


def opens(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether something is opened to be read, by the name of what is called."""
    if not (isinstance(node, ast.Call) and node.args):
        return False
    name, mode = last_name(node.func), ast.unparse(node.args[1]) if len(node.args) > 1 else ""
    if name == "open" and isinstance(node.func, ast.Attribute) and last_name(node.func.value) not in OPENERS:
        return False  # of an archive, or a path
    mode = next((ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "mode"), mode)
    is_read = not mode or re.fullmatch("'[^wax]*'", mode)  # as far as it is said
    return (name == "open" and bool(is_read)) or name.startswith(("read_", "scan_")) or name in _READERS


@dataclass(frozen=True)
class Fetched:
    """What a script has a library fetch from the network where it runs."""

    name: str  # of what fetches it, or its own
    place: str  # the file and the line
    root: str  # the folder where it is looked for first, as far as it is known


def fetched_by(trees: Mapping[str, ast.Module], options: Mapping[str, str]) -> list[Fetched]:
    """What libraries fetch for a script, each once, by what its source says for certain."""
    fetches: dict[str, Fetched] = {}
    variables = {name.replace("-", "_"): value for name, value in options.items()}
    for name, tree in trees.items():
        texts = Texts(tree, variables, name)
        for full_name, call in source_of(tree).calls():
            if what := _fetches(full_name, call, texts):
                keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                root = texts.of(call.args[0] if call.args else keywords.get("root")) or ""
                fetches.setdefault(what, Fetched(what, f"{name}:{call.lineno}", root))
    return list(fetches.values())


def _fetches(full: str, call: ast.Call, texts: Texts) -> str:
    """What a call, of something by its full name, fetches, in a word; empty where it is not known to fetch anything."""
    name = last_name(call.func)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    address = texts.of(call.args[0]) or "" if call.args else ""
    if _REMOTE.match(address) and (opens(call) or full in _ASKING or name in _STREAMING):
        return address
    if _FETCHERS.search(f".{full}"):
        return full
    if any(isinstance(value, ast.Constant) and value.value is True for value in map(keywords.get, _FETCHING)):
        return name
    argument = keywords.get("weights", keywords.get("encoder_weights"))
    text = texts.of(argument) or ""  # a word, and no file
    if argument and ("_Weights." in ast.unparse(argument) or (_WEIGHTED.search(full) and text and "." not in text)):
        return name
    if _PRETRAINED.search(full):
        takes_any = name == "pipeline" or name.endswith("Trainer")  # a model, or its name
        argument = keywords.get("model" if takes_any else "pretrained_model_name_or_path")
        text = texts.of(argument) or ("" if takes_any else address)
        return text if HUB_NAME.fullmatch(text) and not text.endswith(".yaml") else ""
    return ""
