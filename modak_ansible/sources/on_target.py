"""A path that is on the target already: nothing is brought, and it is looked at before every job and in it."""

from __future__ import annotations

from typing import ClassVar

from modak_ansible.model.dataset import DataSource
from modak_ansible.sources.base import Carrier, Source, SourceProblem, SourceSpec

KIND = "on_target"


class OnTarget(Source):
    """Named by a property of its own, as a path could be either machine's."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)

    def knows(self, text: str) -> bool:  # noqa: ARG002
        return False

    def read(self, spec: SourceSpec) -> DataSource:
        if not spec.text.startswith(("/", "~", "$")):
            hint = "it begins with /, ~ or $NAME; a path of this machine is given as source"
            raise SourceProblem(f"{spec.text} is not a path on the target", hint, "unsafe-value")
        return DataSource(kind=KIND, label=f"{spec.name} at {spec.text}", location=spec.text)

    def bring(self, source: DataSource, carrier: Carrier) -> None:
        """Nothing is brought."""
