"""A blueprint in the making: what is known of a script, what somebody has to say, and what is taken otherwise."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from modak_ansible.blueprint.script.options import options_of
from modak_ansible.blueprint.script.source import Option, ScriptSource
from modak_ansible.drafts.data import Read, data_options, hub_datasets, read_by, torchvision_root
from modak_ansible.drafts.imports import Code, read_code
from modak_ansible.drafts.installed import Installed, environment_folders
from modak_ansible.drafts.outputs import outputs_of
from modak_ansible.drafts.packages import PYTHON, frameworks_of, requirements_of
from modak_ansible.drafts.pins import pins_of
from modak_ansible.drafts.words import arguments_of
from modak_ansible.errors import UsageError
from modak_ansible.store.project import project_root

WALLTIME = "01:00:00"
KNOWN = "mnist"  # the dataset that the catalogue has by name
_MOST_LISTED = 4  # files of one folder that are named one by one


@dataclass(frozen=True)
class Data:
    """A dataset of the blueprint.

    Attributes:
        name: of the dataset.
        source: where it lies, as the blueprint says it; empty for a known name.
        mount_as: where the script looks for it, below its folder; empty where an argument says it.
        unpack: whether it is to lie there unpacked.
    """

    name: str
    source: str = ""
    mount_as: str = ""
    unpack: bool = False


@dataclass
class Draft:
    """What a blueprint will say.

    Attributes:
        script: the script's path.
        folder: where the blueprint will lie, the script's own or one above it.
        name: of the blueprint.
        framework: of the catalogue.
        frameworks: all that the script imports, the likeliest first.
        version: of it; empty for the newest.
        target: a name of modak targets; empty where the blueprint says none.
        target_type: of the target's node.
        arguments: of the script.
        words: what follows them, as it stands.
        requirements: lines of requirements.txt.
        files: that travel with the script, as patterns below its folder.
        data: what it reads; None for nothing.
        outputs: what is brought back.
        walltime: the longest that it may run.
        nodes, processes_per_node: in how many places it is trained.
        found: what was found, and where, in pairs for people.
        notes: what somebody should know.
        missing: options that the script does not start without.
        unsaid: options that tell where data lies, of which nobody says it.
    """

    script: Path
    folder: Path
    name: str
    framework: str
    frameworks: list[str] = field(default_factory=list)
    version: str = ""
    target: str = ""
    target_type: str = "modak.nodes.Local"
    arguments: dict[str, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    requirements: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    data: Data | None = None
    outputs: list[str] = field(default_factory=list)
    walltime: str = WALLTIME
    nodes: int = 1
    processes_per_node: int = 1
    found: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)


def draft_of(script: Path, words: Sequence[str] = (), *, folder: Path | None = None, framework: str = "") -> Draft:
    """What a blueprint of a script says, as far as the script tells.

    Args:
        script: a Python file.
        words: options that it is to be started with.
        folder: where the blueprint will lie; the script's own without it.
        framework: in place of what the script's imports say.

    Raises:
        UsageError: it is no script, or does not lie below the folder.
        BrokenScript: it is no Python, with its place.
    """
    return _Drafting(script, words, folder or script.parent, framework).draft


class _Drafting:
    def __init__(self, script: Path, words: Sequence[str], folder: Path, framework: str) -> None:
        if not script.absolute().is_relative_to(folder.absolute()):
            hint = f"leave it out, or name {script.absolute().parent} or a folder above it"
            raise UsageError(f"{script} does not lie below {folder}, where its blueprint would be", hint=hint)
        self._code = read_code(script)
        self._options = options_of(script)
        self._declared = _declared(self._code)
        self._trees = {path.relative_to(self._code.folder).as_posix(): tree for path, tree in self._code.trees.items()}
        self.draft = Draft(script, folder, name_of(script), framework)
        self._frameworks(framework)
        self._requirements()
        self._arguments(words)
        self._outputs()
        self._data()
        self._missing()

    def _say(self, what: str, text: str) -> None:
        self.draft.found.append((what, text))

    def _frameworks(self, given: str) -> None:
        found = frameworks_of(self._code)
        self.draft.frameworks = [name for name, _ in found]
        self.draft.framework = given or (found[0][0] if found else PYTHON)
        if given:
            self._say("framework", given)
        elif found:
            self._say("framework", f"{found[0][0]}, which {found[0][1].place} imports")
            if len(found) > 1:
                others = ", ".join(f"{name} ({each.place})" for name, each in found[1:])
                self.draft.notes.append(f"it imports {others}, too: --framework takes another")
        else:
            self._say("framework", "python: no framework is imported")

    def _requirements(self) -> None:
        here = self._code.folder.absolute()
        root = project_root(here)
        above = [each for each in here.parents if each.is_relative_to(root)]
        folders = [here, *above]
        found = requirements_of(
            self._code, self.draft.framework, pins_of(folders), Installed(environment_folders(folders))
        )
        self.draft.requirements, self.draft.version = found.lines, found.version
        self.draft.notes += found.notes
        for line, reason in zip(found.lines, found.reasons, strict=True):
            self._say("package", f"{line}, {reason}")

    def _arguments(self, words: Sequence[str]) -> None:
        self.draft.arguments, self.draft.words = arguments_of(words, self._declared)

    def _values(self) -> dict[str, str]:
        """The texts that options have, by their longest names without dashes: as given, or by default."""
        found = {}
        for option in self._declared:
            name = longest(option)
            value = self.draft.arguments.get(name, option.default)
            if isinstance(value, str) and value:
                found[name] = value
        return found

    def _held(self) -> dict[str, str]:
        """The same by the names that the script has them under."""
        values = self._values()
        names = {longest(each): each.held_by or longest(each).replace("-", "_") for each in self._declared}
        return {names[name]: value for name, value in values.items()}

    def _outputs(self) -> None:
        inside, outside = outputs_of(self._trees, self._held())
        if "hydra" in self._code.modules:
            inside.append("outputs")
        self.draft.outputs = sorted(set(inside))
        self._say("outputs", ", ".join(self.draft.outputs) or "none that its source names")
        for text in outside:
            self.draft.notes.append(f"it writes to {text}, outside of its folder, from where nothing comes back")

    def _data(self) -> None:
        draft = self.draft
        reads = read_by(self._code.folder, self._trees, self._values(), draft.outputs)
        draft.files = _patterns(self._code.files)
        datasets = [each for each in reads if not each.inside]
        for each in reads:
            if each.inside:
                if not any(each.inside == other or each.inside.startswith(f"{other}/") for other in draft.files):
                    draft.files.append(each.inside)
                self._say("data", f"{each.inside}, {self._why(each)}; it travels with the script")
        root = torchvision_root(self._trees, self._values())
        if datasets and not draft.words:
            self._outside(datasets.pop(0))
        elif root is not None and (mount := _torchvision_folder(root)):
            draft.data = Data("mnist", mount_as=mount, unpack=True)
            self._say("data", f"MNIST, laid where torchvision looks for it: {mount}")
        elif root is not None:
            draft.notes.append(f"it looks for MNIST in {root}, and fetches it where it runs")
        self._of_hub()
        for each in datasets:
            draft.notes.append(f"{each.path} ({self._why(each)}) stays here")
        known = {each.option for each in reads}
        values = self._values()
        for name in data_options([longest(each) for each in self._declared]):
            if name not in known and not (root and values.get(name) == root):
                draft.unsaid.append(name)

    def _outside(self, read: Read) -> None:
        """Data that lies elsewhere on this machine is brought, and the option that names it says where it is then."""
        draft, value = self.draft, self._values()[read.option]
        is_own = value.startswith(("/", "~"))
        source = value if is_own else PurePosixPath(os.path.relpath(read.path, draft.folder)).as_posix()
        name = name_of(read.path.resolve())
        draft.data = Data("data" if name == KNOWN else name, source)
        draft.arguments[read.option] = "{dataset}" if read.path.is_dir() else f"{{dataset}}/{read.path.name}"
        self._say("data", f"{source}, {self._why(read)}; it is brought to the target")

    def _of_hub(self) -> None:
        """load_dataset takes a folder of the name that it is given for the dataset, and then needs no network."""
        draft = self.draft
        asked = hub_datasets(self._code.folder, self._trees, self._held()) if "datasets" in self._code.modules else []
        for name, revision in asked:
            if draft.data is None:
                source = f"hf://datasets/{name}{'@' if revision else ''}{revision.replace('/', '%2F')}"
                draft.data = Data(name_of(Path(name.rpartition("/")[2])), source, mount_as=name)
                self._say("data", f"{source}, laid where load_dataset takes it for that dataset: {name}")
            else:
                draft.notes.append(f"it asks the Hugging Face Hub for {name}, where it runs")

    def _why(self, read: Read) -> str:
        return f"which --{read.option} names" if read.option else "which its source names"

    def _missing(self) -> None:
        if self._options is None or self.draft.words:
            return
        self.draft.missing = list(self._options.missing(self.draft.arguments))


def longest(option: Option) -> str:
    """The name by which an option is given, without dashes."""
    return max(option.names, key=len).lstrip("-")


def name_of(script: Path) -> str:
    """A blueprint's name after its script, of the letters that a job's name may have."""
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", script.stem).strip("-.+_")[:40]
    return name or "training"


def _declared(code: Code) -> list[Option]:
    """The options of a script's files, whatever else there may be."""
    found: dict[str, Option] = {}
    for tree in code.trees.values():
        source = ScriptSource(tree)
        for option in (*source.options, *(source.command or ())):
            found.setdefault(longest(option), option)
    return list(found.values())


def _torchvision_folder(root: str) -> str:
    """Where torchvision looks for MNIST's files below a root; empty where a job cannot have them there."""
    path = PurePosixPath(posixpath.normpath(root), "MNIST", "raw")
    return "" if path.is_absolute() or path.parts[:2] == ("..", "..") or "~" in root else path.as_posix()


def _patterns(files: list[str]) -> list[str]:
    """Patterns for some files of code: of many in one folder, one for them all."""
    folders: dict[str, list[str]] = {}
    for file in files:
        folders.setdefault(PurePosixPath(file).parent.as_posix(), []).append(file)
    found: list[str] = []
    for folder, inner in sorted(folders.items()):
        is_many = len(inner) > _MOST_LISTED and folder != "."
        covered = any(folder == each or folder.startswith(f"{each.removesuffix('/*.py')}/") for each in found)
        found += [] if covered and is_many else [f"{folder}/*.py"] if is_many else inner
    return found
