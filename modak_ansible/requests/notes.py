"""Notes what is wrong with a request, or better written otherwise, at the place where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from modak_ansible.blueprint.form_reader import FormReader
from modak_ansible.blueprint.forms import FieldProblem, Path, place_of
from modak_ansible.blueprint.mistakes import Mistakes
from modak_ansible.blueprint.yaml_tree import Item


@dataclass(frozen=True)
class Notes:
    """Where mistakes and warnings of one request go.

    Attributes:
        tree: the request in today's spelling; a request for an image alone has a job around it.
        reader: knows how paths are shown.
    """

    tree: Item
    reader: FormReader
    mistakes: Mistakes
    warnings: Mistakes

    def refuse(self, path: Path, problem: FieldProblem) -> None:
        """Notes a mistake about a field."""
        message = f"{self.reader.shown(path)} is refused: {problem.reason}"
        self.mistakes.add(place_of(self.tree, path), problem.rule, message, problem.hint)

    def contradicts(self, path: Path, reason: str, hint: str = "") -> None:
        """Notes a field that says other than another one."""
        self.refuse(path, FieldProblem("contradiction", reason, hint))

    def warn(self, path: Path, words: str, hint: str = "") -> None:
        """Notes what a field comes to, where that is not plain."""
        self.warnings.add(place_of(self.tree, path), "read-as", f"{self.reader.shown(path)}: {words}", hint)
