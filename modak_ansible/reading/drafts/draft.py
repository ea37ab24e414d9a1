"""A blueprint in the making: what is known of a script, what somebody has to say, and what is taken otherwise."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from glob import escape
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

from modak_ansible.errors import Location, UsageError
from modak_ansible.model.distributed import Parallelism
from modak_ansible.reading.blueprint.files import travels
from modak_ansible.reading.blueprint.script.accelerators import Use, use_of
from modak_ansible.reading.blueprint.script.hydra import Hydra, hydra_of
from modak_ansible.reading.blueprint.script.option import Option
from modak_ansible.reading.blueprint.script.options import all_options, library_options, options_of
from modak_ansible.reading.blueprint.script.parallelism import parallelism_of
from modak_ansible.reading.blueprint.script.paths import OF_OUTPUT_FOLDER
from modak_ansible.reading.blueprint.script.source import source_of
from modak_ansible.reading.blueprint.script.starting import package_of, start_above, with_one_start_hint
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of
from modak_ansible.reading.drafts.configured import NamedClass, classes_named, options_in_files
from modak_ansible.reading.drafts.data import (
    ONLY_THERE,
    OutsidePath,
    Read,
    absent,
    absent_words,
    data_options,
    elsewhere_by,
    far_more_than_data,
    holds_something,
    hub_datasets,
    is_much,
    is_output,
    lacking_in,
    leads_away,
    once,
    pointers,
    read_by,
    too_wide,
    torchvision_folder,
    torchvision_root,
    unset_by,
)
from modak_ansible.reading.drafts.imports import BrokenScript, patterns_of, read_code
from modak_ansible.reading.drafts.installed import Installed, environment_folders
from modak_ansible.reading.drafts.outputs import downloads, fetched_by, outputs_of
from modak_ansible.reading.drafts.packages import PYTHON, frameworks_of, python_of, requirements_of
from modak_ansible.reading.drafts.pins import pins_of
from modak_ansible.reading.drafts.texts import ANY, below, constants_of, override_variables
from modak_ansible.reading.drafts.words import arguments_of
from modak_ansible.sources.reader import mount_problem
from modak_ansible.store.project import project_root
from modak_ansible.target.core.files import exists, expanded, is_file
from modak_ansible.target.jobs.results import ALL

WALLTIME = "01:00:00"
_SUBMODULES = "; git submodule update --init fetches those of submodules"
KNOWN = "mnist"  # the dataset that the catalogue has by name
_NOTHING_BACK = (
    "nothing comes back: its source names nothing that it writes, and with all of it the data that it fetches would "
    "come, too; outputs of the blueprint says what should"
)
_NARROWER = "give it a folder of data alone, or a dataset in the blueprint"


@dataclass(frozen=True)
class Data:
    name: str  # of the dataset
    source: str = ""  # where it lies, as the blueprint says it; empty for a known name
    mount_as: str = ""  # where the script looks for it, below its folder; empty where an argument says it
    unpack: bool = False  # whether it is to lie there unpacked


@dataclass
class Draft:
    """What a blueprint will say."""

    script: Path  # the script's path
    folder: Path  # where the blueprint will lie, the script's own or one above it
    name: str  # of the blueprint
    framework: str  # of the catalogue
    frameworks: list[str] = field(default_factory=list)  # all that the script imports, the likeliest first
    version: str = ""  # of it; empty for the newest
    entry: str = ""  # of the catalogue, where not any build of the framework serves
    target: str = ""  # a name of modak targets; empty where the blueprint says none
    target_type: str = "modak.nodes.Local"  # of the target's node
    target_properties: dict[str, str] = field(default_factory=dict)  # without which its type is not valid
    arguments: dict[str, Any] = field(default_factory=dict)  # of the script
    words: list[str] = field(default_factory=list)  # what follows them, as it stands
    requirements: list[str] = field(default_factory=list)  # lines of requirements.txt
    files: list[str] = field(default_factory=list)  # that travel with the script, as patterns below its folder
    data: list[Data] = field(default_factory=list)  # what it reads
    outputs: list[str] = field(default_factory=list)  # what is brought back
    walltime: str = WALLTIME  # the longest that it may run
    # nodes, processes_per_node: in how many places it is trained
    nodes: int = 1
    processes_per_node: int = 1
    accelerators: int | None = None  # of each node; 0 where somebody wants none, None where nobody says it
    partition: str = ""  # where others than the usual one have them
    use: Use | None = None  # what in the script uses one
    parallel: Parallelism | None = None  # what makes the script parallel by itself
    findings: list[tuple[str, str]] = field(default_factory=list)  # what was found, and where, in pairs for people
    notes: list[str] = field(default_factory=list)  # what somebody should know
    missing: list[str] = field(default_factory=list)  # what the script does not start without: see given_as
    unsaid: list[str] = field(default_factory=list)  # options that tell where data lies, of which nobody says it


def draft_of(script: Path, words: Sequence[str] = (), *, folder: Path | None = None, framework: str = "") -> Draft:
    """What a blueprint of a script says, as far as the script tells.

    Args:
        folder: where the blueprint will lie; the script's own without it.
        framework: in place of what the script's imports say.

    Raises:
        UsageError: it is no script, or is not below the folder.
        BrokenScript: it is no Python, with its place, or too much of it stands within each other.
    """
    try:
        return _Drafting(script, words, folder or script.parent, framework).draft
    except RecursionError as error:
        raise BrokenScript(
            "it, or a file that it imports, is nested too deeply to be read",
            hint="fix it first",
            location=Location(str(script)),
        ) from error


class _Drafting:
    def __init__(self, script: Path, words: Sequence[str], folder: Path, framework: str) -> None:
        if not script.absolute().is_relative_to(folder.absolute()):
            hint = f"leave it out, or name {script.absolute().parent} or a folder above it"
            raise UsageError(f"{script} is not below {folder}, where its blueprint would be", hint=hint)
        self._read(script, words)
        self._options = options_of(script)
        self._hydra = self._of_hydra(words)
        values = [*words, *(option.default for option in self._declared if isinstance(option.default, str))]
        configuration = self._hydra.folder if self._hydra else ""
        if classes := classes_named(self._code.folder, configuration, values):
            self._read(script, words, classes)
        self.draft = Draft(script, folder, name_of(script), framework)
        self._frameworks(framework)
        self._requirements()
        self._words = words
        self._exact = {name for option in self._declared for name in option.names}
        self.draft.arguments, self.draft.words = arguments_of(words, self._declared)
        self._constants = constants_of(self._trees)
        self._file_options = options_in_files(script.parent, self.draft.words) if library_options(self._sources) else {}
        self._outputs()
        self._data()
        self._missing()
        arguments = [*self.draft.arguments.items(), *(("", word) for word in self.draft.words)]
        self.draft.use = use_of(self._trees, self.draft.framework, arguments)
        self.draft.notes = with_one_start_hint(self.draft.notes)
        self.draft.parallel = parallelism_of(self._code.folder, list(self._trees))

    def _read(self, script: Path, words: Sequence[str], classes: Sequence[NamedClass] = ()) -> None:
        self._code = read_code(script, classes)
        override_variables(self._code.trees[self._code.script], script.parent, words)
        self._sources = [source_of(tree) for tree in self._code.trees.values()]
        self._declared = all_options(self._sources)
        self._trees = {path.relative_to(self._code.folder).as_posix(): tree for path, tree in self._code.trees.items()}

    def _of_hydra(self, words: Sequence[str]) -> Hydra | None:
        """What the script tells hydra, or one of its own files that it starts."""
        files = list(self._code.trees.items())
        nodes = nodes_of(files[0][1])
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        names = {last_name(node) for node in calls if not (isinstance(node, ast.Name) and node.id in defined)}
        starts = bool(names & {"main", "run_module", "run_path"}) and not self._declared
        hydras = (hydra_of(path, tree, words, self._code.folder) for path, tree in (files if starts else files[:1]))
        return next(filter(None, hydras), None)

    def _say(self, what: str, text: str) -> None:
        self.draft.findings.append((what, text))

    def _frameworks(self, framework: str) -> None:
        frameworks = frameworks_of(self._code)
        self.draft.frameworks = [name for name, _ in frameworks]
        self.draft.framework = framework or (frameworks[0][0] if frameworks else PYTHON)
        if framework:
            self._say("framework", framework)
        elif frameworks:
            self._say("framework", f"{frameworks[0][0]}, which {frameworks[0][1].place} imports")
            if len(frameworks) > 1:
                other_names = ", ".join(f"{name} ({imported.place})" for name, imported in frameworks[1:])
                self.draft.notes.append(f"it imports {other_names}, too: --framework takes another")
        else:
            self._say("framework", "python: no framework is imported")

    def _requirements(self) -> None:
        folder = self._code.folder.absolute()
        roots = (project_root(folder), package_of(folder).parent if (folder / "__init__.py").is_file() else folder)
        above = [parent for parent in folder.parents if any(parent.is_relative_to(root) for root in roots)]
        folders = [folder, *above]
        project = pins_of(folders, self._code.script, python_of(self.draft.framework))
        installed = Installed(environment_folders(folders))
        needs = requirements_of(self._code, self.draft.framework, project, installed, folders)
        self.draft.requirements, self.draft.version, self.draft.entry = needs.lines, needs.version, needs.entry
        self.draft.notes += needs.notes
        for line, reason in zip(needs.lines, needs.reasons, strict=True):
            self._say("package", f"{line}, {reason}")

    def _argument_names(self, option: Option) -> list[str]:
        """The names, without dashes, by which an option is given."""
        names = {name.lstrip("-") for name in option.names}
        exact = [key for key in self.draft.arguments if key in names]
        abbreviations = [key for key in self.draft.arguments if len(key) > 1 and f"--{key}" not in self._exact]
        return exact or [key for key in abbreviations if any(name.startswith(key) for name in names)]

    def _values(self) -> dict[str, str]:
        """The texts that options have, by their longest names without dashes: as given, as a file says, or by default;
        and those of a configuration, by dotted names."""
        values: dict[str, Any] = {**(self._hydra.values if self._hydra else {}), **self._file_options}
        known_names = set()
        for option in self._declared:
            names = self._argument_names(option)
            known_names |= set(names)
            name = option.longest
            values[name] = self.draft.arguments[names[0]] if names else values.get(name, option.default)
        values |= {name: value for name, value in self.draft.arguments.items() if name not in known_names}
        return {name: value for name, value in values.items() if isinstance(value, str) and value}

    def _vars(self) -> dict[str, str]:
        """The same by the names that the script has them under, and the words of the command line by their numbers."""
        names = {option.longest: option.held_by or option.longest.replace("-", "_") for option in self._declared}
        values = self._values().items()
        places = [place for source in self._sources for place in source.places if isinstance(place.default, str)]
        variables = self._constants | {place.names[0]: place.default for place in places if place.default}
        variables |= {names.get(name, _plain(name.rpartition(".")[2])): value for name, value in values}
        return {**variables, **{f"sys.argv[{number}]": word for number, word in enumerate(self._words, 1)}}

    def _outputs(self) -> None:
        inside, outside = outputs_of(self._trees, self._vars())
        if self._hydra:
            folders = [output for output in self._hydra.outputs if below(output)]
            outside += [output for output in self._hydra.outputs if output not in folders]
            own_paths = [] if self._hydra.changes_folder and folders else [path for path in inside if path[0] != ANY]
            inside = [*folders, *own_paths]
        self._downloads = downloads(self._trees)
        if inside or self._downloads:  # else all that it writes is brought
            inside += self._folders_of_options(inside)
        if not inside and not outside and self._downloads:
            self._say("outputs", "none that its source names")
            self.draft.notes.append(_NOTHING_BACK)
        elif not inside and not outside:
            inside = [ALL]
            self._say("outputs", "whatever it writes, as its source names nothing")
        else:
            self._say("outputs", ", ".join(sorted(set(inside))) or "none that its source names")
        self.draft.outputs = sorted(set(inside))
        self._elsewhere = set(outside)
        for text in outside:
            self.draft.notes.append(f"it writes to {text}, outside of its folder, from where nothing comes back")
        folder = self._code.folder
        above = [path for path in outside if path[:3] == "../" and _holds(project_root(folder), folder / path)]
        if above:
            self.draft.notes[-1] += f"; {start_above(self._code.script, max(above, key=lambda it: it.count('../')))}"

    def _folders_of_options(self, inside: Sequence[str]) -> list[str]:
        """The folders below its own that options have it write to, by their names."""
        paths = {name: below(value) for name, value in self._values().items() if OF_OUTPUT_FOLDER.search(_plain(name))}
        folders = dict.fromkeys(escape(value) for value in paths.values() if value)
        return [path for path in folders if not any(other == path or other.startswith(f"{path}/") for other in inside)]

    def _data(self) -> None:
        draft = self.draft
        written = [output for output in draft.outputs if output != ALL]
        reads = read_by(self._code.folder, self._trees, self._values(), written, draft.words)
        draft.files = patterns_of(self._code.files)
        if self._hydra and self._hydra.folder:
            reads = self._with_configuration(self._hydra.folder, reads)
        reads = [*self._of_words(), *reads]
        defaults = {option.longest: option.default for option in self._declared if isinstance(option.default, str)}
        spelled_paths = elsewhere_by(self._code.folder, self._trees, {**self._values(), **defaults}, reads)
        known_options = {read.option for read in reads}
        root = torchvision_root(self._trees, self._values())
        datasets = [read for read in reads if self._is_brought(read)]
        for name, value, what in too_wide(self._code.folder, self._values()):
            draft.notes.append(f"{value} (which --{name} names) is {what} and is not copied: {_NARROWER}")
        for read in once(reads):
            is_below = bool(read.inside) and any(other.path in read.path.parents for other in datasets)
            if read in datasets and not is_below:
                self._bring(read)
            elif not read.inside:
                draft.notes.append(f"{read.path} ({self._why(read)}) stays here")
            elif not is_below:
                self._travels(read)
        if root is not None and not any(_holds(read.path, self._code.folder / expanded(root)) for read in datasets):
            mount = torchvision_folder(root)
            if mount:
                draft.data.append(Data(KNOWN, mount_as=mount, unpack=True))
                self._say("data", f"MNIST, laid where torchvision looks for it: {mount}")
            else:
                draft.notes.append(f"it looks for MNIST in {root}, and fetches it where it runs")
        self._of_hub()
        self._spelled_out(spelled_paths, root)
        values = self._values()
        for name in data_options(list(dict.fromkeys((*(opt.longest for opt in self._declared), *draft.arguments)))):
            if name not in known_options and not (root and values.get(name) == root):
                draft.unsaid.append(name)
                notes = absent(self._code.script, name, values.get(name, ""), values.values())
                draft.notes += () if self._downloads else notes
                if notes:
                    written.append(escape(values[name]))  # which is told here already
        draft.notes += absent_words(self._code.script, draft.words, self._elsewhere, values if self._hydra else None)
        draft.notes += pointers(self._code.folder, reads)
        self._lacking(written)

    def _lacking(self, written: Sequence[str]) -> None:
        """Tells what a job would fetch, and what it would not find; not what lies here already, or is brought."""
        # of MNIST something was said already
        fetches = [fetch for fetch in fetched_by(self._trees, self._vars()) if fetch.name != "MNIST"]
        missing = [
            fetch for fetch in fetches if not any(self._is_made(path, written) for path in (fetch.root, fetch.name))
        ]
        if missing:
            fetched = ", ".join(f"{fetch.name} ({fetch.place})" for fetch in missing)
            words = f"it fetches {fetched} where it runs, and mostly the nodes of a cluster have no network"
            self.draft.notes.append(f"{words}: fetch it beforehand, beside the script here or from the front end there")
        self.draft.notes += unset_by(self._trees)
        if not self._downloads:
            self.draft.notes += lacking_in(self._code.script, next(iter(self._trees.values())), self._vars(), written)

    def _is_made(self, path: str, written: Sequence[str]) -> bool:
        return bool(path) and (exists(self._code.folder / expanded(path)) or is_output(below(path), written))

    def _travels(self, read: Read) -> None:
        draft, pattern = self.draft, escape(read.inside)
        if not travels(read.path, is_of_blueprint=read.path.parent.resolve() == draft.folder.resolve()):
            if read.path.is_dir():
                hint = _SUBMODULES if exists(project_root(read.path) / ".gitmodules") else ""
                draft.notes.append(f"{read.inside}, {self._why(read)}, has no files yet: a job finds none there{hint}")
            return
        if not any(pattern == other or pattern.startswith(f"{other}/") for other in draft.files):
            draft.files.append(pattern)
        self._say("data", f"{read.inside}, {self._why(read)}; it travels with the script")

    def _with_configuration(self, folder: str, reads: list[Read]) -> list[Read]:
        """What a script reads, with the folder of its configuration."""
        if not below(folder):  # which its source spells out
            return reads
        configuration = Read(self._code.folder / folder, folder)
        return [*(read for read in reads if not below(read.inside).startswith(folder)), configuration]

    def _of_words(self) -> list[Read]:
        """The files and folders that words of its command line name, and that the script does not write."""
        reads = []
        for word in self.draft.words:
            value = word.rpartition("=")[2]
            inside, outputs = below(value), self.draft.outputs
            is_written = any(inside == output or fnmatch(inside, output) for output in outputs if output != ALL)
            path = self._code.folder / inside
            if value in self._elsewhere:
                continue
            if not inside and not self._hydra and value.startswith(("/", "~", "..")):
                elsewhere = self._code.folder / expanded(value)
                if what := far_more_than_data(elsewhere):
                    self.draft.notes.append(f"{value} (which {word} names) is {what} and is not copied: {_NARROWER}")
                elif is_file(elsewhere) or holds_something(elsewhere):
                    reads.append(Read(elsewhere, "", word=word))
            elif inside and not is_written and exists(path) and path.resolve() != self._code.folder.resolve():
                reads.append(Read(path, inside, word=word))
        return reads

    def _is_brought(self, read: Read) -> bool:
        """Whether it becomes a dataset: what lies elsewhere and can be named to the script, and much below its folder,
        which the job cannot write to then."""
        inside = read.inside
        if not inside:
            return bool(read.word or self._hydra or not self.draft.words)
        names = {inside, escape(inside)}  # hydra's own folders are outputs as they are
        is_written = any(
            output == name or output.startswith(f"{name}/") for output in self.draft.outputs for name in names
        )
        is_apart = is_much(read.path) or leads_away(read.path, project_root(self.draft.folder))
        return not is_written and not mount_problem(inside) and is_apart

    def _dataset(self, place: Path, source: str = "", mount_as: str = "", option: str = "") -> str:
        """Has a dataset of its own for what lies in a place, and gives what stands for its folder in an argument.

        Args:
            source: as the blueprint says it; relative to its folder without one.
            option: the script's that names it, after which it is called where another one has its name.
        """
        draft, source = self.draft, source or self._beside(place)
        for number, dataset in enumerate(draft.data):
            if (dataset.source, dataset.mount_as) == (source, mount_as):  # another option names the same place
                return f"{{dataset.{dataset.name}}}" if number else "{dataset}"
        taken_names = [KNOWN.upper(), *(_variable(dataset.name) for dataset in draft.data)]
        names = chain([name_of(place), name_of(Path(option or "data"))], (f"data-{number}" for number in count(2)))
        name = next(name for name in names if _variable(name) not in taken_names)
        draft.data.append(Data(name, source, mount_as))
        return "{dataset}" if len(draft.data) == 1 else f"{{dataset.{name}}}"

    def _beside(self, path: Path) -> str:
        """A path as the blueprint says it."""
        return PurePosixPath(os.path.relpath(path, self.draft.folder)).as_posix()

    def _bring(self, read: Read) -> None:
        """Data of this machine is brought: much that lies below the script's folder to where it lies here, and of what
        lies elsewhere the option that names it says where it is then."""
        draft = self.draft
        if read.inside:
            self._dataset(read.path, mount_as=read.inside)
            source = draft.data[-1].source
            self._say("data", f"{source}, {self._why(read)}; it is copied to the target, to the same path as here")
            return
        value = read.word.rpartition("=")[2] or self._values()[read.option]
        source = value if value.startswith(("/", "~")) else self._beside(read.path)
        folder = self._dataset(read.path.resolve(), source, option=read.option)
        target_path = folder if read.path.is_dir() else f"{folder}/{read.path.name}"
        if read.word:
            new_word = f"{read.word.removesuffix(value)}{target_path}"
            draft.words = [new_word if word == read.word else word for word in draft.words]
        elif self._hydra:
            other_words = [word for word in draft.words if not word.startswith(f"{read.option}=")]
            draft.words = [*other_words, f"{read.option}={target_path}"]
        else:
            for option in self._declared:
                for name in self._argument_names(option) if option.longest == read.option else ():
                    draft.arguments.pop(name)
            draft.arguments[read.option] = target_path
        self._say("data", f"{source}, {self._why(read)}; it is copied to the target")

    def _spelled_out(self, spelled_paths: list[OutsidePath], root: str | None) -> None:
        """What the source names elsewhere is laid where it looks for it, or told: no job has it there."""
        draft = self.draft
        for ref in spelled_paths:
            is_written = any(f"{other}/".startswith(f"{ref.text}/") for other in self._elsewhere)
            is_of_root = root is not None and ref.text.startswith(PurePosixPath(root).as_posix())
            if is_written or is_of_root or ref.path in self._code.search_path:
                continue
            mount = PurePosixPath(ref.text).as_posix()
            if not ref.is_here:
                words = f"it names {ref.text} ({ref.place}), which is not on this machine"
                draft.notes.append(f"{words}: a job {ONLY_THERE}")
            elif not mount_problem(mount):
                source = self._beside(ref.path)
                self._dataset(ref.path.resolve(), source, mount)
                self._say("data", f"{source}, which {ref.place} names; it is copied to where the script looks for it")
            else:
                words = f"it names {ref.text} ({ref.place}), which stays here, and no job finds it there"
                draft.notes.append(f"{words}: let an option name it (--data), which then names a dataset")

    def _of_hub(self) -> None:
        """load_dataset takes a folder of the name that it is given for the dataset, and then needs no network."""
        trees = self._trees if "datasets" in self._code.modules else {}
        datasets, notes = hub_datasets(self._code.folder, trees, self._vars())
        self.draft.notes += notes
        for name, revision in datasets.items():
            source = f"hf://datasets/{name}{'@' if revision else ''}{revision.replace('/', '%2F')}"
            self._dataset(Path(name.rpartition("/")[2]), source, name)
            self._say("data", f"{source}, laid where load_dataset takes it for that dataset: {name}")

    def _why(self, read: Read) -> str:
        if read.word:
            return f"which {'the command line' if read.word == read.inside else read.word} names"
        if self._hydra:
            return "which its configuration names" if read.option else "which hydra reads"
        return f"which --{read.option} names" if read.option else "which its source names"

    def _missing(self) -> None:
        if self._hydra:
            self.draft.missing = [f"{name}=" for name in self._hydra.missing]
        if self._options is not None and not self.draft.words:
            self.draft.missing = list(self._options.missing(self.draft.arguments))


def name_of(script: Path) -> str:
    """A blueprint's name after its script, of the letters that a job's name may have."""
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", script.stem).strip("-.+_")[:40]
    return name or "training"


def _variable(name: str) -> str:
    """What tells two datasets of a training apart, which are variables of its environment, too."""
    return re.sub(r"\W", "_", name).upper()


def _holds(path: Path, other: Path) -> bool:
    return other.resolve().is_relative_to(path.resolve())


def _plain(name: str) -> str:
    return name.replace("-", "_")
