"""How the processes of a script that PyTorch makes parallel learn which of them each is; nothing of it is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.source import ScriptSource
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of

# What may stand in a file that says something of it.
WORDS = re.compile(rb"RANK|WORLD_SIZE|local_rank|local-rank|SLURM_|PROCID|multiprocessing|parse_\w*args")
# What torchrun and others say to a process, and what one that is alone would be told.
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
_NUMBERS = re.compile(r"(LOCAL_|GROUP_|NODE_|OMPI_\w*|PMIX?_|MV2_\w*)?RANK|SLURM_(PROC|LOCAL|NODE)ID|MPI_LOCALRANKID")
_GROUP = re.compile(r"torch\.distributed(\.\w+)*\.init_process_group")
# What starts processes by their numbers, and what starts any.
_SPAWN = re.compile(r"torch\.multiprocessing(\.\w+)*\.(spawn|start_processes)")
_PROCESS = re.compile(r"(torch\.)?multiprocessing(\.\w+)*\.Process")
_OPTION = "local_rank"


class Told(NamedTuple):
    """What the files of a script say of it."""

    spawns: str = ""  # what starts its processes in itself; empty where others do
    spawns_at: str = ""  # its place
    option: str = ""  # by which alone each learns its number on its node, and its place; empty where there is none
    is_first: bool = False  # whether it takes itself for the first without that option
    needs_words: bool = False  # whether one process, too, ends without being told that it is alone


def told_of(sources: Mapping[str, tuple[ast.Module, ScriptSource]]) -> Told:
    """How the processes of a script learn who they are, which makes a group of PyTorch's in one of its files."""
    trees = [tree for tree, _ in sources.values()]
    asked = {name for tree in trees for name in _asked(tree)}
    groups = [call for _, source in sources.values() for name, call in source.calls() if _GROUP.fullmatch(name)]
    gives_numbers = bool(groups) and all(_gives_number(call) for call in groups)
    if not any(map(_NUMBERS.fullmatch, asked)):
        for pattern, is_sure in ((_SPAWN, True), (_PROCESS, gives_numbers)):
            used = (each for path, (_, source) in sources.items() for each in _places(path, source, pattern))
            name, place = next(used, ("", ""))
            if name and is_sure:
                return Told(name, place)
    option, is_first = _option(sources) if "LOCAL_RANK" not in asked else ("", False)
    needs_words = not any(map(_knows_that_it_is_alone, trees)) and (
        any(map(_takes, trees)) or not all(map(_gives_number, groups))
    )
    return Told(option=option, is_first=is_first, needs_words=needs_words)


def _places(path: str, source: ScriptSource, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for name, line in sorted(source.used.items(), key=lambda each: each[1]):
        if pattern.fullmatch(name):
            yield name, f"{path}:{line}"


def _gives_number(call: ast.Call) -> bool:
    """Whether a group is told the number of its process, in place of finding it in the environment."""
    return any(keyword.arg in ("rank", "store", None) for keyword in call.keywords)


def _asked(tree: ast.Module) -> Iterator[str]:
    """The texts of a file, but for the variables that it sets."""
    assigned = [target for node in nodes_of(tree) if isinstance(node, ast.Assign) for target in node.targets]
    set_here = {target.slice for target in assigned if isinstance(target, ast.Subscript)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in set_here:
            yield node.value


def _takes(tree: ast.Module) -> bool:
    """Whether a variable of torchrun's is taken as if it were certain to be there."""
    assigned = {target for node in nodes_of(tree) if isinstance(node, ast.Assign) for target in node.targets}
    found = (node for node in nodes_of(tree) if isinstance(node, ast.Subscript) and node not in assigned)
    return any(last_name(node.value) == "environ" and literal(node.slice) in _ALONE for node in found)


def _knows_that_it_is_alone(tree: ast.Module) -> bool:
    """Whether a file looks whether the variables are there, and so has a way of its own for one process.

    One that takes what one process would be told where nothing is said looks at nothing.
    """
    for node in nodes_of(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            looks = literal(node.left) in _ALONE
        elif isinstance(node, ast.Call) and last_name(node.func) in ("get", "getenv", "pop") and node.args:
            name = literal(node.args[0])
            default = str(literal(node.args[1])) if len(node.args) > 1 else ""
            looks = name in _ALONE and default != _ALONE[name]
        elif isinstance(node, ast.Try):
            looks = any(_takes(ast.Module([each], [])) for each in node.body)
        else:
            looks = last_name(node) == "is_torchelastic_launched"
        if looks:
            return True
    return False


def _option(sources: Mapping[str, tuple[ast.Module, ScriptSource]]) -> tuple[str, bool]:
    """The option by which torch.distributed.launch told a process its number, if the script goes by that alone."""
    holders = {name for tree, _ in sources.values() for name in _parsed(tree)}
    used = [
        node
        for tree, _ in sources.values()
        for node in nodes_of(tree)
        if isinstance(node, ast.Attribute) and node.attr == _OPTION and last_name(node.value) in holders
    ]
    if not used or not all(isinstance(node.ctx, ast.Load) for node in used):
        return "", False
    for path, (tree, source) in sources.items():
        for option in source.options:
            if _OPTION in option.plain_names:
                return f"{option.names[0]} ({path}:{_line_of(tree, option.names[0])})", str(option.default) == "0"
    return "", False


def _parsed(tree: ast.Module) -> Iterator[str]:
    """The variables that hold what a parser has made of the command line."""
    for node in nodes_of(tree):
        call = node.value if isinstance(node, ast.Assign) else None
        if isinstance(call, ast.Call) and last_name(call.func) in ("parse_args", "parse_known_args"):
            for target in node.targets:
                yield last_name(target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target)


def _line_of(tree: ast.Module, text: str) -> int:
    return next((node.lineno for node in nodes_of(tree) if isinstance(node, ast.Constant) and node.value == text), 1)
