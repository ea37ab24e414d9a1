"""Which files and folders of this machine a script reads, as far as its source and its options say it."""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import filter as filter_names
from fnmatch import fnmatch
from glob import escape
from itertools import chain, islice
from pathlib import Path, PurePosixPath

from modak_ansible.reading.blueprint.files import is_hidden
from modak_ansible.reading.blueprint.forms.secret_rules import named_problem
from modak_ansible.reading.blueprint.script.paths import OF_OUTPUT, lies_above, named_words
from modak_ansible.reading.blueprint.script.starting import start_above
from modak_ansible.reading.blueprint.script.syntax import env_of, last_name, nodes_of, parts_of
from modak_ansible.reading.drafts.configured import paths_elsewhere, paths_in
from modak_ansible.reading.drafts.outputs import HUB_NAME, opens
from modak_ansible.reading.drafts.texts import ANY, PLAIN_CALLS, Texts, below
from modak_ansible.sources.local import FETCH_IT, POINTER, pointer_in
from modak_ansible.target.core.files import exists, expanded, is_folder, real_path

_OF_DATA = re.compile(
    r"(^|_)(data|dataset|corpus)(_?(dir|path|root|folder|file))?$|^(train|input|image)s?_(dir|path|root|folder|file)$"
)
_OF_PATH = re.compile("(dir|path|root|folder|file)$")
_MAY_BE_PATHS = (ast.Constant, ast.BinOp, ast.Call, ast.JoinedStr)
_MOST_LETTERS = 200
_OF_FOLDER = ("ImageFolder", "DatasetFolder", "listdir", "scandir", "load_from_disk", "image_dataset_from_directory")
_LOADERS = re.compile(r"(^|\.)(torch|np|numpy|joblib)\.load$")
# What lists the files that a pattern names, and which of these do it for a folder, too; where a pattern begins.
_LISTING = ("glob", "iglob", "rglob", "list_files")
_OF_FOLDERS = ("glob", "rglob", "gfile")
_WILDCARD = re.compile(r"[*?{%\[]")
# What a script looks with whether something is there, and what it has other programs make it with.
_LOOKING = ("exists", "isfile", "is_file", "isdir", "is_dir")
_RUNNING_PROGRAMS = ("system", "run", "call", "check_call", "Popen")
# Variables of the environment that a job has, or what joins its ranks.
_OF_JOB = re.compile(
    r"(MODAK|SLURM|PBS|LSB|PMI|OMPI|CUDA|OMP|MKL|OPENBLAS|LC|TORCHELASTIC|NCCL)_|(MASTER_(ADDR|PORT)|(LOCAL_|GROUP_|NODE_)?RANK"
    r"|(LOCAL_)?WORLD_SIZE|HOME|USER|LOGNAME|PATH|PWD|SHELL|TMPDIR|LANG|HOSTNAME|LD_LIBRARY_PATH|PYTHONPATH"
    r"|KERAS_BACKEND)$"
)
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/log")
_HOMES = ("/home/", "/Users/", "/mnt/", "/media/", "/Volumes/", "~/")
_IN_HOME = 3  # parts of a path that only names a home
# Of more files or bytes than this each deployment would send a copy of its own; a dataset is brought once.
_MOST_FILES, _MOST_BYTES = 500, 20 * 10**6
_MOST_LISTED = 4  # files of one folder that a file of configuration names, and that are named one by one
# What load_dataset takes for a format of files, and not for a dataset.
_BUILDERS = (
    "csv", "json", "text", "parquet", "arrow", "pandas", "sql", "xml", "imagefolder", "audiofolder", "videofolder",
    "pdffolder", "webdataset", "hdf5", "lance", "generator",
)  # fmt: skip


ONLY_THERE = "finds it only where the target has it: on_target of a dataset names it"


@dataclass(frozen=True)
class Read:
    path: Path  # where it lies here
    inside: str  # its path below the script's folder; empty where it lies elsewhere
    option: str = ""  # the script's option that names it; empty where the source does
    word: str = ""  # of its command line that names it, where no option does


def read_by(
    folder: Path,
    trees: Mapping[str, ast.Module],
    options: Mapping[str, str],
    outputs: Sequence[str],
    words: Sequence[str] = (),
) -> list[Read]:
    """What is there of the paths that a script names, or a file of configuration that it is given.

    Args:
        options: the value or the default of each option, by its longest name without dashes.
        words: of its command line, where no options are told from them.
    """
    reads: list[Read] = []
    for name, value in options.items():
        path = _named_by(folder, name, value)
        inside = below(value)
        if not path:
            continue
        if not (path.is_dir() and escape(inside) in outputs):  # what earlier runs wrote; a file may be gone on with
            reads.append(Read(path, inside, name))
    variables = {name.replace("-", "_"): value for name, value in options.items()}
    for name, tree in trees.items():
        texts = Texts(tree, variables, name)
        for text in _texts_in(tree, texts, folder):
            inside = below(text)
            if inside and not is_output(inside, outputs) and inside not in trees and exists(folder / inside):
                reads.append(Read(folder / inside, inside))
    spelled_paths = [read.inside for read in reads]
    for file in dict.fromkeys((*spelled_paths, *options.values(), *(value for _, value in named_words(words)))):
        texts_in = (_folder_of_pattern(text) for _, text in paths_in(folder, file))
        paths = [
            text for text in map(below, texts_in) if text and not is_output(text, outputs) and exists(folder / text)
        ]
        counts = Counter(map(posixpath.dirname, paths))
        kept = [top if counts[top := posixpath.dirname(text)] > _MOST_LISTED and top else text for text in paths]
        reads += [Read(folder / text, text, word=file) for text in kept]
    data_reads = [read for read in once(reads) if not _is_code(read.path, folder, trees)]
    reads = [read for read in data_reads if not far_more_than_data(read.path)]
    tops = [read for read in reads if not any(other.path in read.path.parents and not other.option for other in reads)]
    return sorted(tops, key=lambda read: (str(read.path), read.option))


def once(reads: Iterable[Read]) -> list[Read]:
    """The first read of each place; each option that names one elsewhere is to be told where that is then."""
    return list({(read.path, "" if read.inside else read.option): read for read in reversed([*reads])}.values())[::-1]


def _named_by(folder: Path, option: str, value: str) -> Path | None:
    """What is there of an option's value; None for what it writes."""
    path = folder / expanded(value) if _is_path(value) else None
    return path if path and exists(path) and not OF_OUTPUT.search(option.replace("-", "_")) else None


def too_wide(folder: Path, options: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The options of a script that name a folder which holds far more than data: each with its value, and what that is.

    The script's own folder, and those above it, count where the option is one of data by its name.
    """
    for name, value in options.items():
        path = _named_by(folder, name, value)
        if path and (what := far_more_than_data(path)):
            yield name, value, what
        elif path and data_options([name]) and folder.resolve().is_relative_to(real_path(path)):
            yield name, value, "the script's own folder" if real_path(path) == folder.resolve() else "above the script"


def far_more_than_data(path: Path) -> str:
    """What a folder is that nobody means by data, be it below the script's or elsewhere; empty for every other path."""
    if not is_folder(path):
        return ""
    real = real_path(path)
    if real == real_path(expanded("~")):
        return "the whole home folder"
    is_system = str(real) in _SYSTEM or f"{real}/" in _HOMES or real in (Path(real.anchor), Path("/tmp"))  # noqa: S108
    return "a folder of the system" if is_system else ""


@dataclass(frozen=True)
class OutsidePath:
    """A path outside of a script's folder that its source spells out."""

    text: str
    place: str  # the file and the line that name it
    path: Path
    is_here: bool  # on this machine


def elsewhere_by(
    folder: Path, trees: Mapping[str, ast.Module], options: Mapping[str, str], reads: Sequence[Read] = ()
) -> list[OutsidePath]:
    """The paths elsewhere that a script seems to read: what is there, what lies in somebody's home, and what it opens.

    A folder of code, or one that the script lies in, is none of them, nor is what an option says by default; files of
    configuration among what it reads name some, too.
    """
    by_path: dict[Path, OutsidePath] = {}
    nodes = list(_nodes_of(trees, options))
    opened_texts = {texts.of(node.args[0]) for _, texts, node in nodes if opens(node)}
    paths = ((name, texts, node) for name, texts, node in nodes if isinstance(node, _MAY_BE_PATHS))
    spelled_texts = [(f"{name}:{node.lineno}", texts.of(node)) for name, texts, node in paths]
    configured_texts = [(read.inside, text) for read in reads for text in paths_elsewhere(folder, read.inside)]
    opened_texts |= {text for _, text in configured_texts}
    for place, spelling in [*spelled_texts, *configured_texts]:
        text = (spelling or "").removeprefix("./")
        if spelling in options.values() or not text.startswith(("../", "/", "~/")) or ANY in text or not _is_path(text):
            continue
        path = Path(os.path.normpath(folder / expanded(text)))
        is_here = _is_data(path, folder)
        is_somebodys = text.startswith(_HOMES) and len(PurePosixPath(text).parts) > _IN_HOME and not exists(path)
        is_away = text in opened_texts and text.startswith("/") and not exists(path) and not _is_of_system(path)
        if is_here or is_somebodys or is_away:
            by_path.setdefault(path, OutsidePath(text, place, path, is_here))
    # the longest of those that begin alike: a folder that is joined with a name is named by the way
    return [elsewhere for path, elsewhere in by_path.items() if not any(path in other.parents for other in by_path)]


def lacking_in(script: Path, tree: ast.Module, options: Mapping[str, str], outputs: Sequence[str]) -> Iterator[str]:
    """What is to be said of the files and folders below its own that a script opens whatever happens, that are not
    there and that it does not write itself, look for first, or have something else make.

    There are none of a script that has other programs do something, or looks for what is not known here.

    Args:
        options: the values of its options, by the names that hold them.
    """
    texts = Texts(tree, options, script.name)
    calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call)]
    lookups = [call for call in calls if last_name(call.func) in _LOOKING and isinstance(call.func, ast.Attribute)]
    places = [
        call.args[0] if call.args else call.func.value for call in lookups if isinstance(call.func, ast.Attribute)
    ]
    sought = {texts.of(place) for place in places if not isinstance(place, ast.Attribute)}  # which an option mostly is
    if None in sought or any(last_name(call.func) in _RUNNING_PROGRAMS for call in calls):
        return
    makers = [call for call in calls if not opens(call) and last_name(call.func) not in (*PLAIN_CALLS, *_OF_FOLDER)]
    nodes = [node for call in makers for node in (*call.args, *(keyword.value for keyword in call.keywords))]
    made_paths = {texts.of(node) for node in nodes}
    lines: dict[str, int] = {}
    for node in _whatever_happens(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = last_name(node.func)
        is_of_folder = name in _OF_FOLDER
        if not (is_of_folder or opens(node)) or (name == "load" and not _LOADERS.search(ast.unparse(node.func))):
            continue
        text = texts.of(node.args[0]) or ""
        inside = below(text) if ANY not in text and (is_of_folder or PurePosixPath(text).suffix) else ""
        is_made = text in made_paths or not sought.isdisjoint((text, *map(str, PurePosixPath(text).parents)))
        if inside and not is_made and not exists(script.parent / inside) and not is_output(inside, outputs):
            lines.setdefault(text, node.lineno)
    for text, line in lines.items():
        folder_above = lies_above(script.parent, text)
        consequence = "is not here: a job ends there, unless something makes it first"
        consequence = f"lies in {folder_above}; {start_above(script, folder_above)}" if folder_above else consequence
        yield f"it opens {text} ({script.name}:{line}), which {consequence}"


def unset_by(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """What is to be said of the variables of its environment that a script does not go on without, and that neither a
    job nor itself sets."""
    nodes = ((file, node) for file, tree in trees.items() for node in _whatever_happens(tree))
    reads = [(file, node) for file, node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)]
    places: dict[str, str] = {}
    for file, node in reads:
        if ast.unparse(node.value) in ("os.environ", "environ") and isinstance(node.slice, ast.Constant):
            places.setdefault(str(node.slice.value), f"{file}:{node.lineno}")
    unset = [
        name for name in places if not _OF_JOB.match(name) and not any(env_of(tree, name) for tree in trees.values())
    ]
    if unset:
        words = f"it takes {', '.join(f'{name} ({places[name]})' for name in unset)} from its environment"
        is_secret = any(named_problem(name, "a secret") for name in unset)
        hint = "; of a secret, pre_execution: [ 'export NAME=$(cat ~/.name)' ]" if is_secret else ""
        yield f"{words}, where no job has that: environment of a blueprint says it{hint}"


def _whatever_happens(tree: ast.Module) -> Iterator[ast.AST]:
    """What a file is made of without what it does if something of its options is so, or tries."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        is_maybe = isinstance(node, ast.If | ast.IfExp) and not _is_of_names(node.test)
        if not is_maybe and not isinstance(node, ast.Try):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _is_of_names(test: ast.expr) -> bool:
    """Whether a variable is compared with a name, such as __name__ with that of a script, or a split with train."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.NotEq):
        return False
    return not any(isinstance(node, ast.Attribute | ast.Call) for node in ast.walk(test))


def _is_of_system(path: Path) -> bool:
    if path.is_relative_to("/dev/shm/") and path != Path("/dev/shm"):  # noqa: S108 - files in memory, as people copy data to
        return False
    return any(path.is_relative_to(system) for system in _SYSTEM) or path in (Path(path.anchor), Path("/tmp"))  # noqa: S108


def _is_data(path: Path, folder: Path) -> bool:
    """Whether something of the user's lies there that is no code and no folder of the system."""
    if _is_of_system(path):
        return False
    if folder.resolve().is_relative_to(real_path(path)):
        return False
    try:
        is_data = path.is_dir() and any(path.iterdir()) and not any(path.glob("*.py"))
        return is_data or (
            path.is_file() and path.suffix != ".py" and path.stat().st_size > 0
        )  # as /.dockerenv is none
    except OSError:
        return False


def data_options(names: Sequence[str]) -> list[str]:
    """The options that, by their names, tell where data lies."""
    return [name for name in names if _OF_DATA.search(name.replace("-", "_"))]


def absent(script: Path, name: str, value: str, other_values: Iterable[str] = ()) -> list[str]:
    """What is to be said of data that an option names and that is not here, in one note; none where it may be no path.

    Args:
        value: given, or by default; empty where there is none.
        other_values: the values of other options, one of which may be the folder that it is joined with.
    """
    is_elsewhere = value.startswith(("/", "~"))
    if not value or not (is_elsewhere or value.startswith(".") or _OF_PATH.search(name)):
        return []
    if "://" in value or any(
        exists(script.parent / expanded(other) / expanded(value)) for other in ("", *other_values)
    ):
        return []
    if folder_above := lies_above(script.parent, value):
        return [f"--{name} is {value}, which lies in {folder_above}; {start_above(script, folder_above)}"]
    consequence = f": a job {ONLY_THERE}" if is_elsewhere else ", and a job finds nothing there"
    return [f"{f'--{name} is {value}, which' if name else value} is not on this machine{consequence}"]


def absent_words(
    script: Path, words: Sequence[str], elsewhere: Container[str], configured: Mapping[str, str] | None
) -> Iterator[str]:
    """The same of the paths elsewhere that words of its command line name, or what a configuration says of data, but
    for those that it writes to.

    Args:
        configured: the values of hydra's configuration, by dotted names; None where there is none.
    """
    settings = (configured or {}).items()
    of_data = [("", value) for name, value in settings if data_options([name.replace(".", "_")]) and ANY not in value]
    for name, value in named_words(words) if configured is None else of_data:
        if value.startswith(("/", "~")) and value not in elsewhere and not OF_OUTPUT.search(name.replace("-", "_")):
            yield from absent(script, name, value)


def torchvision_root(trees: Mapping[str, ast.Module], options: Mapping[str, str]) -> str | None:
    """The folder in which a script has torchvision look for MNIST; None where it does not."""
    for _, texts, node in _nodes_of(trees, options):
        if isinstance(node, ast.Call) and last_name(node.func) == "MNIST":
            keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            if (root := texts.of(node.args[0] if node.args else keywords.get("root"))) is not None:
                return root
    return None


def torchvision_folder(root: str) -> str:
    """Where torchvision looks for MNIST's files below a root; empty where a job cannot have them there, or where a part
    of it is not known."""
    path = PurePosixPath(posixpath.normpath(root), "MNIST", "raw")
    is_no_place = path.is_absolute() or path.parts[:2] == ("..", "..")
    return "" if is_no_place or {"~", ANY} & set(root) else path.as_posix()


def hub_datasets(
    folder: Path, trees: Mapping[str, ast.Module], options: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The datasets that a script asks the Hugging Face Hub for, with the revision that it names, or none; and what
    is to be said of those of which it asks for one in the place of another.

    A name that is a folder or a file of the script's is no dataset of the Hub, nor is that of a format.
    """
    datasets: dict[str, str] = {}
    choices: dict[str, None] = {}
    for _, texts, node in _nodes_of(trees, options):
        if isinstance(node, ast.Call) and (name := _of_hub(node, texts, folder)):
            revision = next((texts.of(word.value) for word in node.keywords if word.arg == "revision"), "") or ""
            datasets.setdefault(name, revision if ANY not in revision else "")
        elif isinstance(node, ast.If) and node.orelse:
            arms = [[part for statement in arm for part in parts_of(statement)] for arm in (node.body, node.orelse)]
            calls = [[node for node in arm if isinstance(node, ast.Call)] for arm in arms]
            names = [dict.fromkeys(filter(None, (_of_hub(call, texts, folder) for call in arm))) for arm in calls]
            choices |= names[0] | names[1] if all(names) and names[0] != names[1] else {}
    words = f"it asks the Hub for one of {', '.join(choices)}, and which one is not known here"
    note = f"{words}: a dataset with source: hf://datasets/NAME and mount_as: NAME brings it"
    return {name: revision for name, revision in datasets.items() if name not in choices}, [note] if choices else []


def _of_hub(call: ast.Call, texts: Texts, folder: Path) -> str:
    """The dataset of the Hub that a call asks for; empty for any other call."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if last_name(call.func) != "load_dataset" or {"data_files", "data_dir"} & set(keywords):
        return ""
    name = texts.of(call.args[0] if call.args else keywords.get("path")) or ""
    return name if HUB_NAME.fullmatch(name) and name not in _BUILDERS and not exists(folder / name) else ""


def _nodes_of(trees: Mapping[str, ast.Module], options: Mapping[str, str]) -> Iterator[tuple[str, Texts, ast.AST]]:
    """All that files are made of, with the file's name and what texts in it are."""
    variables = {name.replace("-", "_"): value for name, value in options.items()}
    for name, tree in trees.items():
        texts = Texts(tree, variables, name)
        yield from ((name, texts, node) for node in nodes_of(tree))


def holds_something(folder: Path) -> bool:
    """Whether it is a folder that may be looked into, and is not empty."""
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def is_much(path: Path) -> bool:
    """Whether a file or folder is too much to travel with a script, into each deployment anew."""
    size = 0
    files = [path] if path.is_file() else (Path(parent, name) for parent, _, names in os.walk(path) for name in names)
    for number, file in enumerate(files, 1):
        with suppress(OSError):
            size += file.stat().st_size
        if number > _MOST_FILES or size > _MOST_BYTES:
            return True
    return False


def pointers(folder: Path, reads: Iterable[Read]) -> Iterator[str]:
    """What is to be said of files that travel, and are none."""
    for read in reads:
        walked = (Path(parent, name) for parent, _, names in os.walk(read.path) for name in names)
        files = islice(chain([read.path], walked), _MOST_FILES)
        inside = (path.relative_to(folder).as_posix() for path in files if path.is_relative_to(folder))
        if pointer := pointer_in(folder, inside):
            yield f"{pointer} {POINTER}: {FETCH_IT}"


def leads_away(path: Path, root: Path) -> bool:
    """Whether something, or a part of it, lies outside of a project: what links have from there does not travel."""
    parts = (Path(parent, name) for parent, folders, names in os.walk(path) for name in (*folders, *names))
    links = (part for part in parts if part.is_symlink())
    return any(not real_path(part).is_relative_to(root) for part in (path, *links))


def _texts_in(tree: ast.Module, texts: Texts, folder: Path) -> Iterator[str]:
    """The paths that a file spells out, of a pattern its folder; parts of one that is there are none of their own."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        text = texts.of(node) if isinstance(node, _MAY_BE_PATHS) else None
        text = text.partition("?format=")[0] if text else None  # as XGBoost says what a file holds
        if text and _is_path(text):
            inside = below(text)
            if ANY not in text:
                yield text
            if inside and exists(folder / inside):
                continue
            if _WILDCARD.search(text):
                yield _folder_of_pattern(text)
        yield from _matching(node, texts, folder)
        waiting += ast.iter_child_nodes(node)


def _folder_of_pattern(text: str) -> str:
    """The folder up to which a path is no pattern; the path itself where it is none."""
    before, *rest = _WILDCARD.split(text, maxsplit=1)
    return before.rpartition("/")[0] if rest else text


def _matching(node: ast.AST, texts: Texts, folder: Path) -> list[str]:
    """The files right in a script's folder that a pattern names with which something looks for files, or reads them."""
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    if not (isinstance(node, ast.Call) and node.args and (name in _LISTING or opens(node))):
        return []
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_here = owner is None or name not in _OF_FOLDERS or last_name(owner) in _OF_FOLDERS
    pattern = texts.of(node.args[0]) or ""
    is_pattern = "/" not in pattern and PurePosixPath(pattern).suffix and (is_here or texts.of(owner) == ".")
    if not is_pattern or not isinstance(node.args[0], ast.Constant):
        return []
    return filter_names((path.name for path in folder.iterdir()), pattern)


def _is_path(text: str) -> bool:
    return bool(text) and len(text) <= _MOST_LETTERS and text.isprintable() and not text.startswith("-")


def is_output(inside: str, outputs: Sequence[str]) -> bool:
    is_named = any(fnmatch(f"{inside}/", f"{output}/*") for output in outputs)  # or lies below it
    return is_named or any(output.startswith(f"{escape(inside)}/") for output in outputs)


def _is_code(path: Path, folder: Path, trees: Mapping[str, ast.Module]) -> bool:
    """Whether it is the script's folder, or one that holds nothing but code."""
    if is_hidden(path.name) or folder.resolve().is_relative_to(path.resolve()):
        return True
    relative = PurePosixPath(os.path.relpath(path, folder)).as_posix()
    return path.is_dir() and any(name.startswith(f"{relative}/") for name in trees)
