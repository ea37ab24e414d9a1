"""Datasets of the Hugging Face Hub: its own client asks a server on loopback that answers as the Hub does."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest
from hub_server import Repository, git_sha1, hub_at_loopback
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import ModakError
from modak_ansible.sources import kind_of
from modak_ansible.sources.base import SourceProblem
from modak_ansible.sources.hugging_face import HuggingFace, _place
from modak_ansible.sources.listed import chosen
from modak_ansible.sources.reader import Said, read_dataset
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets.dataset import DatasetStore
from modak_ansible.target.datasets.fetch import fetch_all

LARGE = bytes(range(256)) * 2000
FILES = {
    ".gitattributes": "*.parquet filter=lfs",
    "README.md": "A dataset",
    "data/train-0.parquet": LARGE,
    "data/train-1.parquet": LARGE[::-1],
    "data/test-0.parquet": b"PAR1",
    "more/deep/names.csv": "a,b\n1,2\n",
}


@pytest.fixture(scope="module")
def server():
    with hub_at_loopback() as hub:
        yield hub


@pytest.fixture
def hub(server, tmp_path, monkeypatch):
    for each in (server.repositories, server.requests, server.cut, server.damaged):
        each.clear()
    server.busy = 0
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.setattr("modak_ansible.sources.listed._KEPT", -1)
    server.repositories["team/flowers"] = Repository()
    server.main = server.repositories["team/flowers"].commit(FILES)
    return server


def read(text, **said):
    refused = []
    said = Said(**{"name": "mine", "source": (text,), **said})
    dataset = read_dataset(said, None, lambda name, number, problem: refused.append((name, number, problem)))
    return dataset, refused


def one(text, **said):
    dataset, refused = read(text, **said)
    assert refused == []
    return dataset, dataset.sources[0]


def problem(text, **said):
    dataset, refused = read(text, **said)
    assert dataset is None
    ((name, number, found),) = refused
    assert (name, number) == ("source", 0)
    return found


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

    def send(self, source, root, files):
        self.sent = {file.name: (root / file.name).read_bytes() for file in files}
        assert all(file.sha256 for file in files)

    def have_fetched(self, source, access=None):
        if not self.reaches:
            raise ModakError("the target reaches no network")
        place = self.folder / "partial"
        place.mkdir(exist_ok=True)
        json.dumps(access)
        fetch_all([file.model_dump() for file in source.files], source.location, place, self.say, access)
        self.fetched = {file.name: (place / file.name).read_bytes() for file in source.files}


def brought(source, carrier):
    kind_of(source).bring(source, carrier)
    return carrier.fetched or carrier.sent


# --- what a plan knows


def test_a_branch_is_planned_as_the_commit_that_it_was(hub):
    dataset, source = one("hf://datasets/team/flowers")
    assert source.location == f"hf://datasets/team/flowers@{hub.main}"
    assert [file.name for file in source.files] == sorted(set(FILES) - {".gitattributes"})
    assert source.contents.files == 5
    assert source.bytes_there == sum(len(content) for content in FILES.values()) - len(FILES[".gitattributes"])
    known = {file.name: (file.sha256, file.version) for file in source.files}
    assert known["README.md"] == (None, f"git:{git_sha1(b'A dataset')}")
    assert known["data/train-0.parquet"][0]
    assert dataset.format == "parquet"
    other = hub.repositories["team/flowers"].commit({**FILES, "README.md": "Another"})
    assert one("hf://datasets/team/flowers")[1].location.endswith(other)
    again = one(f"hf://datasets/team/flowers@{hub.main}")[1]
    assert (again.location, again.contents) == (source.location, source.contents)


def test_a_commit_is_asked_for_once(hub):
    one(f"hf://datasets/team/flowers@{hub.main}")
    hub.requests.clear()
    one(f"hf://datasets/team/flowers@{hub.main}/data/*.parquet")
    assert hub.requests == []


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/data", ["test-0.parquet", "train-0.parquet", "train-1.parquet"]),
        ("/data/", ["test-0.parquet", "train-0.parquet", "train-1.parquet"]),
        ("/data/train-*.parquet", ["train-0.parquet", "train-1.parquet"]),
        ("/**/*.csv", ["more/deep/names.csv"]),
        ("/more/*", ["deep/names.csv"]),
        ("/data/test-0.parquet", ["test-0.parquet"]),
        ("/data/train-[!1]*", ["train-0.parquet"]),
    ],
)
def test_a_part_of_it(hub, path, names):
    assert [file.name for file in one(f"hf://datasets/team/flowers{path}")[1].files] == names


def test_revisions_with_a_slash(hub):
    for branch in ("refs/convert/parquet", "pr/new"):
        hub.repositories["team/flowers"].commit({"default/train.parquet": branch}, branch)
    assert one("hf://datasets/team/flowers@refs/convert/parquet/default")[1].contents.files == 1
    assert one("hf://datasets/team/flowers@pr%2Fnew")[1].contents.files == 1


def test_the_card_says_the_samples(hub):
    splits = [{"name": "train", "num_examples": 1234}, {"name": "test", "num_examples": 5}]
    hub.repositories["team/flowers"].card = {"dataset_info": {"splits": splits}}
    assert one("hf://datasets/team/flowers")[0].samples == 1234
    assert one("hf://datasets/team/flowers/data")[0].samples is None


def test_an_archive_is_unpacked(hub):
    hub.repositories["team/flowers"].commit({"images.tar.gz": b"x", "README.md": "x"})
    assert one("hf://datasets/team/flowers/images.tar.gz")[1].unpack == "archive"
    assert one("hf://datasets/team/flowers")[1].unpack == ""


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("hf://datasets/team/flower", "has no dataset team/flower, or it is private", "did you mean team/flowers?"),
        ("hf://datasets/team/zebra", "has no dataset team/zebra, or it is private", "hf auth login"),
        ("hf://datasets/team/flowers@mian", "team/flowers has no revision mian", "did you mean main?"),
        ("hf://datasets/team/flowers/daat", "there is no file or folder daat in team/flowers@", "did you mean data?"),
        ("hf://datasets/team/flowers/*.none", "nothing matches *.none", ""),
        ("hf://team/flowers", "names no dataset of the Hub", "hf://datasets/team/flowers"),
        ("hf://datasets/", "names no dataset of the Hub", "hf://datasets/OWNER/NAME"),
        ("hf://datasets/a b", "holds a sign that no address has", "%20"),
        ("https://huggingface.co/datasets/team/flowers/tree/main/data", "is a page", "write hf://datasets/team/flowers@main/data"),
        ("https://huggingface.co/datasets/team/flowers", "is a page", "write hf://datasets/team/flowers"),
    ],
)  # fmt: skip
def test_what_is_refused(hub, text, reason, hint):
    found = problem(text)
    assert found.rule in ("dataset-source", "file-not-found")
    assert reason in found.reason
    assert hint in found.hint


def test_an_address_of_a_file_of_the_hub_is_an_address():
    assert not HuggingFace().knows("https://huggingface.co/datasets/team/flowers/resolve/main/a.csv")


def test_a_checksum_that_is_another(hub):
    found = problem("hf://datasets/team/flowers", checksum={"data/train-0.parquet": "ab" * 32})
    assert (found.rule, "not abab" in found.reason) == ("checksum", True)


def test_a_private_one_wants_a_token_which_is_written_nowhere(hub, monkeypatch, tmp_path):
    hub.repositories["team/secret"] = Repository(token="hf_sesame")
    hub.repositories["team/secret"].commit({"a.csv": "x", "b.parquet": LARGE})
    assert "has no dataset team/secret, or it is private" in problem("hf://datasets/team/secret").reason
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    found = problem("hf://datasets/team/secret")
    assert "refuses the login for team/secret" in found.reason
    assert "expired" in found.hint
    monkeypatch.setenv("HF_TOKEN", "hf_sesame")
    _, source = one("hf://datasets/team/secret")
    assert "sesame" not in source.model_dump_json()
    for reaches in (True, False):
        carrier = Carrier(tmp_path / str(reaches), reaches=reaches)
        carrier.folder.mkdir()
        hub.requests.clear()
        assert brought(source, carrier) == {"a.csv": b"x", "b.parquet": LARGE}
        assert not any("Authorization" in headers for _, path, headers in hub.asked("/storage/"))
        assert "sesame" not in "".join(carrier.lines)


def test_a_gated_one(hub):
    hub.repositories["team/gated"] = Repository(token="hf_x", gated=True)
    found = problem("hf://datasets/team/gated")
    assert found.reason == "team/gated is only for who has accepted its terms"
    assert f"{hub.address}/datasets/team/gated" in found.hint


def test_a_hub_that_is_busy_or_away(hub, monkeypatch):
    hub.busy = 2
    one("hf://datasets/team/flowers")
    monkeypatch.setattr("modak_ansible.sources.hugging_face._ATTEMPTS", 1)
    hub.busy = 9
    assert "is asked too often" in problem("hf://datasets/team/flowers@v1").reason
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9 cannot be asked for team/flowers: " in problem("hf://datasets/team/flowers").reason


@pytest.mark.component
def test_a_plan_without_such_data_does_not_import_the_client():
    code = "import sys, modak_ansible.planning.service, modak_ansible.sources.reader as r; r.kind_of; "
    code += "from modak_ansible.sources.base import _all; _all(); print([m for m in sys.modules if 'hugg' in m.split('.')[0] or 'boto' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_client_the_message_has_the_line_for_pip(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    found = problem("hf://datasets/team/flowers")
    assert found.reason == "such a source needs huggingface_hub, which is not installed"
    assert 'pip install "modak-ansible[hf]"' in found.hint


@given(st.text(max_size=30))
def test_any_text_is_a_place_or_is_refused(text):
    try:
        place = _place(f"hf://{text}")
    except SourceProblem:
        return
    assert place.name.count("/") <= 1
    assert ".." not in place.name.split("/")


@given(st.lists(st.text("ab/*[!]?.", min_size=1, max_size=6), max_size=5), st.text("ab/*[!]?.-\\^", max_size=8))
def test_any_pattern_means_files_or_is_refused(names, pattern):
    try:
        found = chosen(names, pattern, "there")
    except SourceProblem:
        return
    assert set(found.values()) <= set(names)


# --- how it is brought


@pytest.mark.parametrize("reaches", [True, False])
def test_it_is_brought(hub, tmp_path, reaches):
    _, source = one("hf://datasets/team/flowers/data")
    carrier = Carrier(tmp_path, reaches=reaches)
    found = brought(source, carrier)
    assert found == {name[5:]: content for name, content in FILES.items() if name.startswith("data/")}
    assert bool(carrier.fetched) == reaches
    assert ("the target reaches no network; fetching it from here" in carrier.lines) == (not reaches)


@pytest.mark.parametrize("reaches", [True, False])
def test_a_connection_that_is_cut_goes_on_where_it_was(hub, tmp_path, monkeypatch, reaches):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    _, source = one("hf://datasets/team/flowers/data/train-0.parquet")
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)
    hub.cut[:] = [50_000] * 4
    hub.busy = 1
    assert brought(source, Carrier(tmp_path, reaches=reaches)) == {"train-0.parquet": LARGE}
    assert "bytes=200000-" in [headers.get("Range", headers.get("range")) for _, _, headers in hub.asked("/storage/")]


@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("name", ["README.md", "data/train-0.parquet"])
def test_damage_on_the_way_is_found(hub, tmp_path, monkeypatch, reaches, name):
    _, source = one("hf://datasets/team/flowers")
    hub.damaged.add(name)
    with pytest.raises(ModakError, match=f"{name} arrived with "):
        brought(source, Carrier(tmp_path, reaches=reaches))
    hub.damaged.clear()
    assert brought(source, Carrier(tmp_path, reaches=reaches))[name.split("/", 0)[0]]


def test_a_commit_stays_what_it_was(hub, tmp_path):
    """What main holds when it is brought matters no more: the plan has the commit."""
    _, source = one("hf://datasets/team/flowers/data/train-0.parquet")
    hub.repositories["team/flowers"].commit({"data/train-0.parquet": b"other"})
    assert brought(source, Carrier(tmp_path, reaches=True)) == {"train-0.parquet": LARGE}


def test_of_a_commit_that_follows_only_what_changed_is_fetched(hub, tmp_path):
    workspace = Workspace(str(tmp_path / "work"))
    contents = []
    for number in range(2):
        files = {**FILES, "README.md": f"State {number}"}
        hub.repositories["team/flowers"].commit(files)
        _, source = one("hf://datasets/team/flowers")
        named, _ = HuggingFace().fetched(source, HuggingFace().listing(source.location).files)
        dataset = {"name": "mine", "path": f"datasets/mine-{number}", "format": "", "sources": [], "digest": "x"}
        store = DatasetStore(workspace, dataset)
        listed = [file.model_dump() for file in named]
        hub.requests.clear()
        store._download({**source.model_dump(), "files": listed}, None, store.activity)
        contents.append([path for _, path, _ in hub.asked("/resolve/")])
        assert (store.path / "README.md").read_text() == f"State {number}"
        assert store.description()["files"] == 5
    assert [len(paths) for paths in contents] == [5, 1]
