"""How the processes of a script that PyTorch makes parallel learn which of them each is; nothing of it is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.source import ScriptSource
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of, parts_of

# What may stand in a file that says something of it.
WORDS = re.compile(
    rb"RANK|WORLD_SIZE|local[-_]rank|SLURM_|multiprocessing|parse_\w*args|TF_CONFIG|MASTER_|gethostname|getfqdn|uname|platform"
)
# What torchrun and others say to a process, and what one that is alone would be told.
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
_NUMBERS = re.compile(
    r"(LOCAL_|GROUP_|NODE_|OMPI_\w*|PMIX?_|MV2_\w*|JSM_\w*|FLUX_TASK_)?RANK|SLURM_(PROC|LOCAL|NODE)ID|MPI_LOCALRANKID"
    r"|PALS_(LOCAL_)?RANKID"
)
_MEETING = {"MASTER_ADDR", "MASTER_PORT"}
_OF_SLURM = {"SLURM_PROCID", "SLURM_LOCALID"}  # which a job of one process has, too
_GROUP = re.compile(r"torch\.distributed(\.\w+)*\.init_process_group")
# What asks MPI where the environment says nothing.
_DEEPSPEED = re.compile(r"deepspeed(\.comm)*\.(initialize|init_distributed)")
# By which a process may know itself in another way.
_HOST = re.compile(r"socket\.(gethostname|getfqdn)|platform\.node|os\.uname")
_LOOPBACK = re.compile(r"(tcp://)?(localhost|127\.0\.0\.1)(:.*)?")  # of each node its own
# What starts processes by their numbers, and what starts any.
_SPAWN = re.compile(r"torch\.multiprocessing(\.\w+)*\.(spawn|start_processes)")
_PROCESS = re.compile(r"(torch\.)?multiprocessing(\.\w+)*\.Process")
_LOCAL_RANK = "local_rank"  # of torch.distributed.launch
_TF_CONFIG = "TF_CONFIG"
Sources: TypeAlias = Mapping[str, tuple[ast.Module, ScriptSource]]  # by the paths of the files


class RankDiscovery(NamedTuple):
    """What the files of a script say of it."""

    spawns: str = ""  # what starts its processes in itself; empty where others do
    spawns_at: str = ""  # its place
    option: str = ""  # by which alone each learns its number, and its place; empty where there is none
    is_first: bool = False  # whether it takes itself for the first of its node without that option
    needs_words: bool = False  # whether one process, too, ends without being told that it is alone
    asks_slurm: bool = False  # whether it does so only where Slurm's variables make it believe that there are others
    asks_port: bool = False  # whether it asks for the port itself, or processes that it starts do
    meets_at: str = ""  # where its processes meet, and its place, if that is another one on each node


def rank_discovery_of(sources: Sources) -> RankDiscovery:
    """How the processes of a script learn who they are, which makes a group of PyTorch's in one of its files."""
    trees = [tree for tree, _ in sources.values()]
    calls = [named_call for _, source in sources.values() for named_call in source.calls()]
    groups = [call for name, call in calls if _GROUP.fullmatch(name)]
    gives_numbers = bool(groups) and all(_gives_number(call) for call in groups)
    mentioned = _all_mentioned(sources)
    looks = _looks_at_identity(sources, mentioned)
    set_names = {name for tree in trees for name in _variables_set(tree)}
    starts = False
    for pattern, is_sure in ((_SPAWN, gives_numbers or "RANK" in set_names), (_PROCESS, gives_numbers)):
        places = (place for path, (_, source) in sources.items() for place in places_of(path, source, pattern))
        name, place = next(places, ("", ""))
        if name and is_sure and not looks:
            return RankDiscovery(name, place)
        starts = starts or bool(name)
    option, is_first = _local_option(sources, groups, mentioned, looks=looks)
    knows = any(map(_knows_that_it_is_alone, trees))
    needs = (
        any(_requires_variables(nodes_of(tree), {*_ALONE, *(_MEETING - set_names)}) for tree in trees)
        or any(_needs_environment(call, set_names) for call in groups)
        or ("RANK" not in set_names and any(_DEEPSPEED.fullmatch(name) for name, _ in calls))
    )
    return RankDiscovery(
        option=option,
        is_first=is_first,
        needs_words=needs and not knows,
        asks_slurm=needs and knows and bool(mentioned & _OF_SLURM),
        asks_port=starts or "MASTER_PORT" in mentioned,
        meets_at=next((f"{name} ({path}:{line})" for path, name, line in _loopback_meetings(sources, mentioned)), ""),
    )


def _loopback_meetings(sources: Sources, mentioned: Set[str]) -> Iterator[tuple[str, str, int]]:
    """The files, names and lines by which processes meet on their own node, whatever the job tells them."""
    for path, (tree, source) in sources.items():
        values = [value for name, call in source.calls() if _GROUP.fullmatch(name) for value in _init_methods(call)]
        addresses = _addresses(tree)
        if "MASTER_ADDR" not in mentioned and all(map(_is_loopback, addresses)):
            values += addresses
        loopback = [value for value in values if _is_loopback(value)]
        conditional = _conditional_nodes(tree) if loopback else set()
        yield from ((path, str(literal(value)), value.lineno) for value in loopback if value not in conditional)


def _conditional_nodes(tree: ast.Module) -> set[ast.AST]:
    """What is done in a case only: below a condition, or in a function that is left under one."""
    conditions = (node for node in nodes_of(tree) if isinstance(node, ast.If))
    branches = [node for node in conditions if "__name__" not in ast.unparse(node.test)]
    leaving = {node for node in branches if any(isinstance(inner, ast.Return) for inner in parts_of(node))}
    left_functions = [node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef) and leaving & set(node.body)]
    return {inner for node in (*branches, *left_functions) for inner in parts_of(node)}


def _init_methods(call: ast.Call) -> list[ast.expr]:
    return [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "init_method")]


def _addresses(tree: ast.Module) -> list[ast.expr]:
    """What a file sets MASTER_ADDR to, wherever it does."""
    assigns = [node for node in nodes_of(tree) if isinstance(node, ast.Assign)]
    return [node.value for node in assigns if any(_is_variable(target, "MASTER_ADDR") for target in node.targets)]


def _is_variable(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and literal(target.slice) == name


def _is_loopback(value: ast.expr) -> bool:
    return _LOOPBACK.fullmatch(str(literal(value))) is not None


def sets_tf_config(sources: Sources) -> str:
    """Where a script sets TF_CONFIG without a look at what would tell its processes apart; empty where it does not."""
    mentioned = _all_mentioned(sources)
    if _TF_CONFIG in mentioned or _looks_at_identity(sources, mentioned):
        return ""
    for path, (tree, _) in sources.items():
        for target in _assigned(nodes_of(tree)):
            if _is_variable(target, _TF_CONFIG):
                return f"{path}:{target.lineno}"
    return ""


def _looks_at_identity(sources: Sources, mentioned: Set[str]) -> bool:
    """Whether a script looks at what tells its processes apart: a variable of whoever starts them, or the host."""
    if any(map(_NUMBERS.fullmatch, mentioned)):
        return True
    return any(_HOST.fullmatch(name) for _, source in sources.values() for name in source.used)


def places_of(path: str, source: ScriptSource, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """What a file uses of a pattern's names, and where, in the order of lines."""
    for name, line in sorted(source.used.items(), key=lambda item: item[1]):
        if pattern.fullmatch(name):
            yield name, f"{path}:{line}"


def _gives_number(call: ast.Call) -> bool:
    """Whether a group is told the number of its process, in place of finding it in the environment."""
    return any(keyword.arg in ("rank", "store", None) for keyword in call.keywords)


def _needs_environment(call: ast.Call, set_names: set[str]) -> bool:
    """Whether a group finds in the environment what nothing in the script puts there."""
    names = {keyword.arg for keyword in call.keywords}
    method = literal(call.args[1]) if len(call.args) > 1 else None
    if {"store", "init_method", None} & names or method not in (None, "env://"):
        return not _gives_number(call)
    return ("MASTER_ADDR" if "rank" in names else "RANK") not in set_names


def _all_mentioned(sources: Sources) -> set[str]:
    return {name for tree, _ in sources.values() for name in _mentioned_texts(tree)}


def _mentioned_texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a file, but for the variables that it sets."""
    nodes = nodes_of(tree)
    set_here = {target.slice for target in _assigned(nodes) if isinstance(target, ast.Subscript)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in set_here:
            yield node.value


def _variables_set(tree: ast.Module) -> Iterator[str]:
    """The variables that a file sets, and whatever else has a name in brackets or by default."""
    nodes = nodes_of(tree)
    calls = (node for node in nodes if isinstance(node, ast.Call) and node.args)
    name_nodes = [node.args[0] for node in calls if last_name(node.func) in ("setdefault", "putenv")]
    name_nodes += [target.slice for target in _assigned(nodes) if isinstance(target, ast.Subscript)]
    yield from (name for node in name_nodes if isinstance(name := literal(node), str))


def _assigned(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    return (target for node in nodes if isinstance(node, ast.Assign) for target in node.targets)


def _requires_variables(nodes: Sequence[ast.AST], names: Set[str] = frozenset(_ALONE)) -> bool:
    """Whether a variable of torchrun's is taken as if it were certain to be there."""
    assigned = set(_assigned(nodes))
    subscripts = (node for node in nodes if isinstance(node, ast.Subscript) and node not in assigned)
    is_taken = any(last_name(node.value) == "environ" and str(literal(node.slice)) in names for node in subscripts)
    return is_taken or bool(_converted_at_once(nodes))


def _converted_at_once(nodes: Sequence[ast.AST]) -> set[ast.Call]:
    """What is asked for by ``get`` alone, and made a number at once, which fails where it is not there."""
    calls = (node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "int")
    arguments = (call.args[0] for call in calls if call.args)
    return {
        argument
        for argument in arguments
        if isinstance(argument, ast.Call) and _variable_asked(argument) in _ALONE and len(argument.args) == 1
    }


def _variable_asked(call: ast.Call) -> str:
    """The variable that ``os.environ.get`` or ``os.getenv`` is called for; empty for another call."""
    return str(literal(call.args[0])) if last_name(call.func) in ("get", "getenv", "pop") and call.args else ""


def _knows_that_it_is_alone(tree: ast.Module) -> bool:
    """Whether a file looks whether the variables are there, and so has a way of its own for one process.

    One that takes what one process would be told where nothing is said looks at nothing.
    """
    nodes = nodes_of(tree)
    certain = _converted_at_once(nodes)
    for node in nodes:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            looks = str(literal(node.left)) in _ALONE
        elif isinstance(node, ast.Call) and (name := _variable_asked(node)) in _ALONE:
            default = str(literal(node.args[1])) if len(node.args) > 1 else ""
            looks = node not in certain and default != _ALONE[name]
        elif isinstance(node, ast.Try):
            looks = _requires_variables([inner for statement in node.body for inner in parts_of(statement)])
        else:
            looks = last_name(node) == "is_torchelastic_launched"
        if looks:
            return True
    return False


def _local_option(sources: Sources, groups: list[ast.Call], mentioned: Set[str], *, looks: bool) -> tuple[str, bool]:
    """The option by which alone a process learns its number, and whether it is the first of its node without it.

    Those of torch.distributed.launch had ``--local_rank``, and others a ``--rank`` that each was started with.
    """
    names = {keyword.value.attr for call in groups for keyword in call.keywords
             if keyword.arg == "rank" and isinstance(keyword.value, ast.Attribute)}  # fmt: skip
    for name in sorted(names) if not looks else ():
        if (option := _option(sources, name))[0]:
            return option[0], False
    return _option(sources, _LOCAL_RANK) if "LOCAL_RANK" not in mentioned else ("", False)


def _option(sources: Sources, name: str) -> tuple[str, bool]:
    """An option that a script goes by, with its place, and whether it is 0 by default.

    One that takes something else in its place (``args.local_rank or rank % 4``), or sets it, may do without.
    """
    trees = [tree for tree, _ in sources.values()]
    choices = [node for tree in trees for node in nodes_of(tree) if isinstance(node, ast.BoolOp | ast.IfExp)]
    choice_parts = {inner for node in choices for inner in parts_of(node)}
    holders = {holder for tree in trees for holder in _parsed_variables(tree)}
    uses = [
        node
        for tree in trees
        for node in nodes_of(tree)
        if isinstance(node, ast.Attribute) and node.attr == name and last_name(node.value) in holders
    ]
    if not uses or choice_parts & set(uses) or not all(isinstance(node.ctx, ast.Load) for node in uses):
        return "", False
    for path, (tree, source) in sources.items():
        for option in source.options:
            if name in option.plain_names:
                return f"{option.names[0]} ({path}:{_line_of(tree, option.names[0])})", str(option.default) == "0"
    return "", False


def _parsed_variables(tree: ast.Module) -> Iterator[str]:
    """The variables that hold what a parser has made of the command line."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets if last_name(node.value.func) in ("parse_args", "parse_known_args") else ():
                yield last_name(target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target)


def _line_of(tree: ast.Module, text: str) -> int:
    return next((node.lineno for node in nodes_of(tree) if isinstance(node, ast.Constant) and node.value == text), 1)
