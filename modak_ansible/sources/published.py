"""The words for what the catalogue knows: the published files of a dataset, and digits drawn in place of MNIST."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import nearest
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.sources.base import Carrier, Source, SourceProblem, SourceSpec

WORDS = ("published", "digits")


class Published(Source):
    """A plan has the addresses in its place."""

    kinds: ClassVar[tuple[str, ...]] = ("published",)
    order = 0

    def knows(self, text: str) -> bool:
        return text == "published"

    def read(self, spec: SourceSpec) -> DataSource:
        return DataSource(kind="published", unpack=spec.unpacks(is_archive=False))


class Digits(Source):
    """Drawn here, for a machine that has no MNIST and no way to fetch it."""

    kinds: ClassVar[tuple[str, ...]] = ("digits",)
    order = 0

    def knows(self, text: str) -> bool:
        return text == "digits"

    def read(self, spec: SourceSpec) -> DataSource:
        drawn_names = [dataset.name for dataset in load_catalogue().datasets.values() if dataset.is_drawn]
        if spec.name not in drawn_names:
            hint = nearest(spec.name, drawn_names) or f"name: {drawn_names[0]}, or give the data's own source"
            raise SourceProblem(f"digits can be drawn in place of {drawn_names[0]}, not of {spec.name}", hint)
        return DataSource(kind="digits", unpack=spec.unpacks(is_archive=False))

    def bring(self, source: DataSource, carrier: Carrier) -> None:
        from modak_ansible.catalogue import digits  # noqa: PLC0415 - numpy is slow to import, and plans need no digits

        with carrier.passing() as folder:
            carrier.say("drawing digits: MNIST is not available, and these are not MNIST")
            files = [DataFile(**asdict(file)) for file in digits.write(Path(folder))]
            carrier.send(source, Path(folder), files)
