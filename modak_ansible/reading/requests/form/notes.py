"""Notes what is wrong with a request, or better written otherwise, at the place where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field

from modak_ansible.model.plan import Note
from modak_ansible.reading.blueprint.forms.forms import FieldProblem, Path, place_of
from modak_ansible.reading.blueprint.forms.mistakes import NOT_KEPT, Mistakes
from modak_ansible.reading.blueprint.forms.reader import FormReader
from modak_ansible.reading.blueprint.forms.yaml_tree import Item


@dataclass
class Notes:
    """Where mistakes, preferences that are not kept, and warnings of one request go."""

    tree: Item  # the request in today's spelling; a request for an image alone has a job around it
    reader: FormReader  # knows how paths are shown
    mistakes: Mistakes
    warnings: Mistakes
    strict: bool = False  # whether a preference that cannot be kept is a mistake
    unkept: list[Note] = field(default_factory=list)  # the preferences that are not kept, for the plan

    def refuse(self, path: Path, problem: FieldProblem) -> None:
        message = f"{self.reader.shown(path)} is refused: {problem.reason}"
        self.mistakes.add(place_of(self.tree, path), problem.rule, message, problem.hint)

    def contradicts(self, path: Path, reason: str, hint: str = "") -> None:
        """Notes a field that says other than another one."""
        self.refuse(path, FieldProblem("contradiction", reason, hint))

    def cannot_keep(self, path: Path, reason: str, hint: str = "") -> None:
        """Notes a preference that the plan leaves out, or takes otherwise."""
        field_path, place = self.reader.shown(path), place_of(self.tree, path)
        if self.strict:
            self.mistakes.add(place, NOT_KEPT, f"{field_path} is refused: {reason}", hint)
            return
        self.warnings.add(place, NOT_KEPT, f"{field_path}: {reason}", hint)
        note = Note(path=field_path, reason=reason, hint=hint)
        if note not in self.unkept:
            self.unkept.append(note)

    def warn(self, path: Path, words: str, hint: str = "") -> None:
        """Notes what a field comes to, where that is not plain."""
        self.warnings.add(place_of(self.tree, path), "read-as", f"{self.reader.shown(path)}: {words}", hint)


def notes_of(tree: Item, reader: FormReader, mistakes: Mistakes, warnings: Mistakes, *, strict: bool) -> Notes:
    """The notes of a request that is about to be read; fields that cannot be acted on are preferences, too."""
    notes = Notes(tree, reader, mistakes, warnings, strict)

    def unkept(modern: Item, path: Path, reason: str, hint: str) -> None:
        notes.tree = modern
        notes.cannot_keep(path, reason, hint)

    reader.unkept = unkept
    return notes
