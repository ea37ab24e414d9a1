"""A source that does not answer is planned with what it held before, and that is said."""

import pytest

from modak_ansible.model.dataset import DataFile
from modak_ansible.sources.base import SourceSpec, SourceWarning, Unreached
from modak_ansible.sources.hugging_face import HuggingFace
from modak_ansible.sources.listed import ListedSource, Listing
from modak_ansible.sources.s3 import S3

FILES = (DataFile(name="a/b.csv", size=7, sha256="a" * 64), DataFile(name="c.csv", size=3, version="v1"))


class Far(ListedSource):
    kinds = ("far",)

    def __init__(self, answer, server=""):
        super().__init__()
        self._answer, self._server = answer, server

    def server(self):
        return self._server

    def listing(self, text):
        if self._answer is None:
            raise Unreached(f"{text} cannot be asked: no network", "the network of this machine")
        return Listing(text, self._answer, 12)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_what_it_held_before_counts_and_is_said():
    asked = SourceSpec(text="far://x/d", name="d", format="", folder=None)
    there = Far(FILES).read(asked)
    with pytest.warns(SourceWarning, match=r"far://x/d cannot be asked: no network; planned with what it held on 20"):
        assert Far(None).read(asked) == there


def test_what_was_never_asked_is_told_as_that():
    with pytest.raises(Unreached) as raised:
        Far(None).read(SourceSpec(text="far://x/d", name="d", format="", folder=None))
    assert "not been asked from here before" in raised.value.hint


def test_what_another_server_held_before_is_not_what_this_one_holds():
    asked = SourceSpec(text="far://x/d", name="d", format="", folder=None)
    Far(FILES, "https://mirror.example").read(asked)
    with pytest.raises(Unreached):
        Far(None, "https://other.example").read(asked)
    source = Far(FILES, "https://mirror.example")
    source.read(asked)
    source._server, source._answer = "https://other.example", FILES[:1]
    assert source.read(asked).files == FILES[:1]


def test_mirrors_of_the_environment_are_other_servers(monkeypatch):
    for source, name in ((HuggingFace(), "HF_ENDPOINT"), (S3(), "AWS_ENDPOINT_URL")):
        monkeypatch.delenv(name, raising=False)
        before = source.server()
        monkeypatch.setenv(name, "https://mirror.example")
        assert (before, source.server()) == ("", "https://mirror.example")
