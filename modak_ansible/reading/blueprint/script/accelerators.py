"""Whether a script computes on an accelerator, as far as its source says it; nothing of it is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from modak_ansible.model.application import SourceFile
from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.parallelism import TRAINERS
from modak_ansible.reading.blueprint.script.source import source_of
from modak_ansible.reading.blueprint.script.syntax import cached, children_of, env_of, last_name, nodes_of, syntax_of

# What a device is called in PyTorch, or what sends between several; and what it is to TensorFlow, JAX and trainers.
_CUDA = re.compile(r"cuda(:\d*)?|nccl")
_GPU = re.compile(r"/?(device:)?(gpu|cuda)(:\d+)?", re.IGNORECASE)
# Names of PyTorch's that are used where there is one: asking whether there is, or seeding it, says nothing.
_PYTORCH = re.compile(
    r"torch\.cuda\.(set_device|current_device|device|Stream)|torch\.accelerator\.(current_accelerator|set_device_index)"
)
# What takes one by itself where there is one: trainers, and these frameworks.
_AUTOMATIC = re.compile(rf"{TRAINERS}|ultralytics(\.\w+)*\.YOLO")
_FRAMEWORKS = ("tensorflow", "keras", "jax")
# What keeps it to processors: keywords of trainers, variables, and options.
_PROCESSORS = {"accelerator": ("cpu",), "use_cpu": (True,), "no_cuda": (True,), "cpu": (True,)}
_HIDING = {"CUDA_VISIBLE_DEVICES": ("", "-1"), "JAX_PLATFORMS": ("cpu",), "JAX_PLATFORM_NAME": ("cpu",)}
_SWITCHES = {"no-cuda", "no-gpu", "no-accel", "cpu", "use-cpu"}
# What stands in every file that says anything of this.
_WORDS = re.compile(rb"cuda|nccl|gpu|cpu|accel|trainer|lightning|yolo|device_map|tensorflow|keras|jax", re.IGNORECASE)
_JAX_PLATFORM = ("jax_platforms", "jax_platform_name")


class Use(NamedTuple):
    name: str  # what uses one, as it stands there or by its full name
    place: str  # the file, as its path below the script's folder, and the line
    is_said: bool  # whether the source says it; otherwise a library takes one by itself where there is one

    def __str__(self) -> str:
        return f"{self.place} has {self.name}"


def is_hidden(environment: Iterable[tuple[str, str]]) -> bool:
    """Whether variables of a job keep its script to processors."""
    return any(value in _HIDING.get(name, ()) for name, value in environment)


def use_in(
    folder: Path, code: Iterable[SourceFile], framework: str, values: Iterable[tuple[str, object]]
) -> Use | None:
    """As :func:`use_of`, of a script's files."""
    paths = [file.path for file in code if file.path.endswith(".py")]
    trees = {path: tree for path in paths if (tree := syntax_of(folder / path, _WORDS))}
    try:
        return use_of(trees, framework, values)
    except RecursionError:
        return None


def use_of(trees: Mapping[str, ast.Module], framework: str, values: Iterable[tuple[str, object]]) -> Use | None:
    """What in a script's files uses an accelerator; None where nothing tells it, or something keeps it to processors.

    Args:
        values: those of its options by their names, which go before the source; of a word the name is empty.
    """
    for name, value in values:
        text = str(value).rpartition("=")[2]
        switch = name.replace("_", "-") if value is True else "" if name else text.lstrip("-")
        if text == "cpu" or switch in _SWITCHES:
            return None
        if _GPU.fullmatch(text):
            return Use(f"--{name} {value}" if name else str(value), "its command line", is_said=True)
    if any(_keeps_to_processors(tree) for tree in trees.values()):
        return None
    explicit = ((path, *first) for path, tree in trees.items() if (first := _first_explicit(tree)))
    uses = (Use(name, f"{path}:{line}", is_said=True) for path, line, name in explicit)
    return next(uses, None) or next(_implicit_uses(trees, framework), None)


@cached
def _first_explicit(tree: ast.Module) -> tuple[int, str] | None:
    return min(_explicit_uses(tree), default=None)


def _explicit_uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The lines that say it, and what they say it with."""
    source, compared = source_of(tree), _only_compared(tree)
    yield from ((line, name) for name, line in source.used.items() if _PYTORCH.fullmatch(name))
    for name, call in source.calls():
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if name.startswith(("tensorflow.", "jax.")) and any(
            _GPU.fullmatch(str(literal(argument))) for argument in arguments
        ):
            yield call.lineno, name
        elif isinstance(call.func, ast.Attribute) and last_name(call.func) == "cuda":
            yield call.lineno, ".cuda()"
        for keyword in call.keywords:
            value = literal(keyword.value)
            is_gpu = keyword.arg == "accelerator" and _GPU.fullmatch(str(value))
            if is_gpu or (keyword.arg == "device_map" and value not in (None, "cpu")):
                yield keyword.value.lineno, f"{keyword.arg}={value!r}"
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and node not in compared and _CUDA.fullmatch(str(node.value)):
            yield node.lineno, repr(node.value)


def _only_compared(tree: ast.Module) -> set[ast.AST]:
    """The constants with which something is compared, or which are among several that something may be."""
    constants: set[ast.AST] = set()
    unpacked = {
        node.value for node in nodes_of(tree) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    }
    for node in nodes_of(tree):
        if node in unpacked:
            continue
        if isinstance(node, ast.Compare | ast.List | ast.Tuple | ast.Set | ast.MatchValue):
            constants.update(children_of(node))
        elif isinstance(node, ast.Dict):
            constants.update(filter(None, node.keys))
        elif isinstance(node, ast.Call) and last_name(node.func) == "startswith":
            constants.update(node.args)
    return constants


def _implicit_uses(trees: Mapping[str, ast.Module], framework: str) -> Iterator[Use]:
    """What takes one by itself, in the order of files and lines."""
    for path, tree in trees.items():
        for name, line in sorted(source_of(tree).used.items(), key=lambda item: item[1]):
            first = name.partition(".")[0]
            if _AUTOMATIC.fullmatch(name):
                yield Use(name, f"{path}:{line}", is_said=False)
            elif first == framework and framework in _FRAMEWORKS:
                yield Use(first, f"{path}:{line}", is_said=False)


@cached
def _keeps_to_processors(tree: ast.Module) -> bool:
    if any(env_of(tree, variable) in values for variable, values in _HIDING.items()):
        return True
    for name, call in source_of(tree).calls():
        words = [literal(argument) for argument in call.args]
        if any(literal(keyword.value) in _PROCESSORS.get(keyword.arg or "", ()) for keyword in call.keywords):
            return True
        if name.startswith("tensorflow.config.") and name.endswith(".set_visible_devices") and words[:1] == [[]]:
            return True
        if name == "jax.config.update" and words[:1] and words[0] in _JAX_PLATFORM and words[1:] == ["cpu"]:
            return True
    return False
