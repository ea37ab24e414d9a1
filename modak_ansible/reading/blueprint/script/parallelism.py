"""What makes a script parallel by itself, as far as its source says it; nothing of it is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from modak_ansible.model.distributed import Parallelism
from modak_ansible.reading.blueprint.script.rank_discovery import WORDS, places_of, rank_discovery_of, sets_tf_config
from modak_ansible.reading.blueprint.script.source import ScriptSource, source_of
from modak_ansible.reading.blueprint.script.syntax import syntax_of

# Full names of what runs the loop of a training, or places its parts, whatever machine it is on.
TRAINERS = (
    r"accelerate(\.\w+)*\.(Accelerator|PartialState)"
    r"|(transformers|trl|sentence_transformers|setfit)(\.\w+)*\.\w*Trainer"
    r"|(lightning|pytorch_lightning|lightning_fabric)(\.\w+)*\.(Trainer|Fabric|LightningCLI)"
    r"|composer(\.\w+)*\.Trainer"
)
# Full names of what makes one training of several processes: by the variables of torchrun or the scheduler's own.
_RANKS = re.compile(
    rf"{TRAINERS}"
    r"|torch\.distributed(\.\w+)*\.(init_process_group|init_device_mesh)"
    r"|timm(\.\w+)*\.init_distributed_device(_so)?|colossalai(\.\w+)*\.launch_from_torch"
    r"|deepspeed(\.comm)*\.(initialize|init_distributed)"
    r"|ignite\.distributed\.(Parallel|initialize)"
    r"|jax\.distributed\.initialize"
    r"|tensorflow\.distribute\.cluster_resolver\.SlurmClusterResolver"
)
# By MPI.
_MPI = re.compile(r"(mpi4py|horovod)\.\w+(\.\w+)*")
# By TF_CONFIG, unless something of the above fills that in.
_TENSORFLOW = re.compile(r"tensorflow\.distribute(\.experimental)?\.(MultiWorkerMirrored|ParameterServer)Strategy")
_FORMS: tuple[tuple[Literal["mpi", "ranks", "tf_config"], re.Pattern[str]], ...] = (
    ("mpi", _MPI),
    ("ranks", _RANKS),
    ("tf_config", _TENSORFLOW),
)
# By which each process reads files of its own.
_SHARES = re.compile(r"webdataset(\.\w+)*\.split_by_node|datasets(\.\w+)*\.split_dataset_by_node")
# Of the above, what goes by what PyTorch itself finds in the environment, or is given.
_PLAIN = re.compile(r"(torch|deepspeed)\..*")
# Lightning's words for what the job has.
_LIGHTNING = {"num_nodes": "nodes", "devices": "processes_per_node"}
_WORDS = re.compile(
    rb"distribut|colossalai|[aA]ccelerat|Trainer|[lL]ightning|deepspeed|mpi4py|horovod|split_\w*by_node"
)
_DISCOVERY_WORDS = re.compile(_WORDS.pattern + b"|" + WORDS.pattern)


def parallelism_of(folder: Path, paths: Sequence[str]) -> Parallelism | None:
    """What one of a script's files uses for it; MPI where several things are used, for it is started otherwise.

    Args:
        paths: of the files of Python, below the folder.
    """
    sources = {path: source for path in paths if (source := _read(folder / path))}
    parallelisms = [
        Parallelism(by=by, name=name, place=place).model_copy(
            update=_lightning_numbers(sources[place.partition(":")[0]], name)
        )
        for by, pattern in _FORMS
        for name, place in _used(sources, pattern)
    ]
    shares = next((f"{name}, {place}" for name, place in _used(sources, _SHARES)), "")
    if not parallelisms:
        return None
    is_plain = all(parallelism.by == "ranks" and _PLAIN.fullmatch(parallelism.name) for parallelism in parallelisms)
    if not (is_plain or parallelisms[0].by == "tf_config"):
        return parallelisms[0].model_copy(update={"shares": shares})
    discovery = _rank_discovery(folder, paths, parallelisms[0])
    return parallelisms[0].model_copy(update={"shares": shares, **discovery})


def _rank_discovery(folder: Path, paths: Iterable[str], parallelism: Parallelism) -> dict[str, object]:
    """How its processes learn which of them each is; nothing where that is nested too deeply to be read."""
    trees = {path: tree for path in paths if (tree := syntax_of(folder / path, _DISCOVERY_WORDS))}
    sources = {path: (tree, source) for path, tree in trees.items() if (source := _source(tree))}
    try:
        if parallelism.by == "tf_config":
            return {"option": sets_tf_config(sources)}
        discovery = rank_discovery_of(sources)
    except RecursionError:
        return {}
    if discovery.spawns:
        return {"by": "spawn", "name": discovery.spawns, "place": discovery.spawns_at}
    return {name: value for name, value in discovery._asdict().items() if not name.startswith("spawns")}


def _read(path: Path) -> ScriptSource | None:
    """The source of a file that may use something of it; None of one that cannot be parsed."""
    tree = syntax_of(path, _WORDS)
    return _source(tree) if tree else None


def _source(tree: ast.Module) -> ScriptSource | None:
    try:
        return source_of(tree)
    except RecursionError:
        return None


def _used(sources: Mapping[str, ScriptSource], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """What is used of a pattern's names, and where, in the order of files and lines."""
    return (place for path, source in sources.items() for place in places_of(path, source, pattern))


def _lightning_numbers(source: ScriptSource, name: str) -> dict[str, int]:
    """The processes that Lightning is told in the source, which it then believes more than the job; not those of a node
    where it is told to start them itself."""
    if "lightning" not in name:
        return {}
    numbers = source.numbers_at(name)
    if any(used_name.endswith(".LightningEnvironment") for used_name in source.used):
        numbers.pop("devices", None)
    return {name_here: numbers[name_there] for name_there, name_here in _LIGHTNING.items() if name_there in numbers}
