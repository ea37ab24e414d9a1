"""What the tests of sources that can be listed have in common: a target that fetches, or does not."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext

from modak_ansible.errors import NotReached
from modak_ansible.sources import kind_of
from modak_ansible.sources.reader import DatasetDescription, read_dataset
from modak_ansible.target.datasets.fetch import fetch_all


class Carrier:
    """A target of which the test says whether it reaches the server."""

    is_local = False

    def __init__(self, folder, *, reaches):
        self.folder, self.downloads = folder, folder / "downloads"
        self.reaches, self.lines, self.sent, self.fetched = reaches, [], {}, {}

    def say(self, text):
        self.lines.append(text)

    def passing(self):
        return nullcontext(str(self.folder))

    @contextmanager
    def fetching(self):
        self.downloads.mkdir(exist_ok=True, parents=True)
        yield True

    def send(self, source, root, files):
        self.sent = {file.name: (root / file.name).read_bytes() for file in files}
        assert all(file.sha256 for file in files)

    def have_fetched(self, source, access=None):
        if not self.reaches:
            raise NotReached("the target reaches no network")
        place = self.folder / "partial"
        place.mkdir(exist_ok=True, parents=True)
        json.dumps(access)  # it travels so
        fetch_all([file.model_dump() for file in source.files], source.location, place, self.say, access)
        self.fetched = {file.name: (place / file.name).read_bytes() for file in source.files}


class Sources:
    """What a test asks of a source."""

    Carrier = Carrier

    @staticmethod
    def read(text, **said):
        refused = []
        said = DatasetDescription(**{"name": "mine", "source": (text,), **said})
        dataset = read_dataset(said, None, lambda name, number, problem: refused.append((name, number, problem)))
        return dataset, refused

    def one(self, text, **said):
        """A dataset and its source, of which nothing is refused."""
        dataset, refused = self.read(text, **said)
        assert refused == []
        return dataset, dataset.sources[0]

    def problem(self, text, **said):
        """What is wrong with a source."""
        dataset, refused = self.read(text, **said)
        assert dataset is None
        ((name, number, found),) = refused
        assert (name, number) == ("source", 0)
        return found

    @staticmethod
    def brought(source, carrier):
        """The files that reach a target."""
        kind_of(source).bring(source, carrier)
        return carrier.fetched or carrier.sent
