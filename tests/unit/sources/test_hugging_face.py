"""Datasets of the Hugging Face Hub: its own client asks a server on loopback that answers as the Hub does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hub_server import Repository, git_sha1, hub_at_loopback
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import ModakError
from modak_ansible.sources.base import SourceProblem, SourceWarning
from modak_ansible.sources.hugging_face import HuggingFace, _place
from modak_ansible.sources.listed import select_names
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets.dataset import DatasetStore

pytestmark = pytest.mark.component  # which talks to a server of its own

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
def hub(server, sources, tmp_path, monkeypatch):
    for each in (server.repositories, server.requests, server.cut, server.damaged):
        each.clear()
    server.busy = 0
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    server.repositories["team/flowers"] = Repository()
    server.main = server.repositories["team/flowers"].commit(FILES)
    return server


# --- what a plan knows


def test_a_branch_is_planned_as_the_commit_that_it_was(hub, sources):
    dataset, source = sources.one("hf://datasets/team/flowers")
    assert source.location == f"hf://datasets/team/flowers@{hub.main}"
    assert [file.name for file in source.files] == sorted(set(FILES) - {".gitattributes"})
    assert source.contents.files == 5
    assert source.bytes_there == sum(len(content) for content in FILES.values()) - len(FILES[".gitattributes"])
    known = {file.name: (file.sha256, file.version) for file in source.files}
    assert known["README.md"] == (None, f"git:{git_sha1(b'A dataset')}")
    assert known["data/train-0.parquet"][0]
    assert dataset.format == "parquet"
    other = hub.repositories["team/flowers"].commit({**FILES, "README.md": "Another"})
    assert sources.one("hf://datasets/team/flowers")[1].location.endswith(other)
    again = sources.one(f"hf://datasets/team/flowers@{hub.main}")[1]
    assert (again.location, again.contents) == (source.location, source.contents)


def test_a_commit_is_asked_for_once(hub, sources):
    sources.one(f"hf://datasets/team/flowers@{hub.main}")
    hub.requests.clear()
    sources.one(f"hf://datasets/team/flowers@{hub.main}/data/*.parquet")
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
def test_a_part_of_it(hub, sources, path, names):
    assert [file.name for file in sources.one(f"hf://datasets/team/flowers{path}")[1].files] == names


def test_revisions_with_a_slash(hub, sources):
    for branch in ("refs/convert/parquet", "pr/new"):
        hub.repositories["team/flowers"].commit({"default/train.parquet": branch}, branch)
    assert sources.one("hf://datasets/team/flowers@refs/convert/parquet/default")[1].contents.files == 1
    assert sources.one("hf://datasets/team/flowers@pr%2Fnew")[1].contents.files == 1


def test_the_card_says_the_samples(hub, sources):
    splits = [{"name": "train", "num_examples": 1234}, {"name": "test", "num_examples": 5}]
    hub.repositories["team/flowers"].card = {"dataset_info": {"splits": splits}}
    assert sources.one("hf://datasets/team/flowers")[0].samples == 1234
    assert sources.one("hf://datasets/team/flowers/data")[0].samples is None


def test_an_archive_is_unpacked(hub, sources):
    hub.repositories["team/flowers"].commit({"images.tar.gz": b"x", "README.md": "x"})
    assert sources.one("hf://datasets/team/flowers/images.tar.gz")[1].unpack == "archive"
    assert sources.one("hf://datasets/team/flowers")[1].unpack == ""


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
        ("hf://datasets/a b", "contains a character that an address cannot have", "%20"),
        ("https://huggingface.co/datasets/team/flowers/tree/main/data", "is a page", "write hf://datasets/team/flowers@main/data"),
        ("https://huggingface.co/datasets/team/flowers", "is a page", "write hf://datasets/team/flowers"),
    ],
)  # fmt: skip
def test_what_is_refused(hub, sources, text, reason, hint):
    found = sources.problem(text)
    assert found.rule in ("dataset-source", "file-not-found")
    assert reason in found.reason
    assert hint in found.hint


def test_an_address_of_a_file_of_the_hub_is_an_address():
    assert not HuggingFace().knows("https://huggingface.co/datasets/team/flowers/resolve/main/a.csv")


def test_a_checksum_that_is_another(hub, sources):
    found = sources.problem("hf://datasets/team/flowers", checksum={"data/train-0.parquet": "ab" * 32})
    assert (found.rule, "not abab" in found.reason) == ("checksum", True)


def test_a_private_one_wants_a_token_which_is_written_nowhere(hub, sources, monkeypatch, tmp_path):
    hub.repositories["team/secret"] = Repository(token="hf_sesame")
    hub.repositories["team/secret"].commit({"a.csv": "x", "b.parquet": LARGE})
    assert "has no dataset team/secret, or it is private" in sources.problem("hf://datasets/team/secret").reason
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    found = sources.problem("hf://datasets/team/secret")
    assert "refuses the login for team/secret" in found.reason
    assert "expired" in found.hint
    monkeypatch.setenv("HF_TOKEN", "hf_sesame")
    _, source = sources.one("hf://datasets/team/secret")
    assert "sesame" not in source.model_dump_json()
    for reaches in (True, False):
        carrier = sources.Carrier(tmp_path / str(reaches), reaches=reaches)
        carrier.folder.mkdir()
        hub.requests.clear()
        assert sources.brought(source, carrier) == {"a.csv": b"x", "b.parquet": LARGE}
        assert not any("Authorization" in headers for _, path, headers in hub.asked("/storage/"))
        assert "sesame" not in "".join(carrier.lines)


def test_a_gated_one(hub, sources):
    hub.repositories["team/gated"] = Repository(token="hf_x", gated=True)
    found = sources.problem("hf://datasets/team/gated")
    assert found.reason == "team/gated is only available to those who have accepted its terms"
    assert f"{hub.address}/datasets/team/gated" in found.hint


def test_a_hub_that_is_busy_or_away(hub, sources, monkeypatch):
    hub.busy = 2
    _, there = sources.one("hf://datasets/team/flowers")
    monkeypatch.setattr("modak_ansible.sources.hugging_face._ATTEMPTS", 1)
    hub.busy = 9
    assert "is asked too often" in sources.problem("hf://datasets/team/flowers@v1").reason
    monkeypatch.setattr(HuggingFace, "server", lambda _, same=hub.address: same)  # which does not answer any more
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.warns(SourceWarning, match="http://127.0.0.1:9 cannot be asked for team/flowers: .* planned with"):
        assert sources.one("hf://datasets/team/flowers")[1] == there
    problem = sources.problem("hf://datasets/team/trees")
    assert "http://127.0.0.1:9 cannot be asked for team/trees: " in problem.reason
    assert "are not known" in problem.hint


@pytest.mark.component
def test_a_plan_without_such_data_does_not_import_the_client():
    code = "import sys, modak_ansible.planning.service, modak_ansible.sources.reader as r; r.kind_of; "
    code += "from modak_ansible.sources.base import _all; _all(); print([m for m in sys.modules if 'hugg' in m.split('.')[0] or 'boto' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_client_the_message_has_the_line_for_pip(hub, sources, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    found = sources.problem("hf://datasets/team/flowers")
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
        found = select_names(names, pattern, "there")
    except SourceProblem:
        return
    assert set(found.values()) <= set(names)


# --- how it is brought


@pytest.mark.parametrize("reaches", [True, False])
def test_it_is_brought(hub, sources, tmp_path, reaches):
    _, source = sources.one("hf://datasets/team/flowers/data")
    carrier = sources.Carrier(tmp_path, reaches=reaches)
    found = sources.brought(source, carrier)
    assert found == {name[5:]: content for name, content in FILES.items() if name.startswith("data/")}
    assert bool(carrier.fetched) == reaches
    assert ("the target reaches no network; fetching it from here" in carrier.lines) == (not reaches)


@pytest.mark.parametrize("reaches", [True, False])
def test_a_connection_that_is_cut_goes_on_where_it_was(hub, sources, tmp_path, monkeypatch, reaches):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    _, source = sources.one("hf://datasets/team/flowers/data/train-0.parquet")
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)
    hub.cut[:] = [50_000] * 4
    hub.busy = 1
    assert sources.brought(source, sources.Carrier(tmp_path, reaches=reaches)) == {"train-0.parquet": LARGE}
    assert "bytes=200000-" in [headers.get("Range", headers.get("range")) for _, _, headers in hub.asked("/storage/")]


@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("name", ["README.md", "data/train-0.parquet"])
def test_damage_on_the_way_is_found(hub, sources, tmp_path, monkeypatch, reaches, name):
    _, source = sources.one("hf://datasets/team/flowers")
    hub.damaged.add(name)
    with pytest.raises(ModakError, match=f"{name} arrived with "):
        sources.brought(source, sources.Carrier(tmp_path, reaches=reaches))
    hub.damaged.clear()
    assert sources.brought(source, sources.Carrier(tmp_path, reaches=reaches))[name.split("/", 0)[0]]


def test_a_commit_stays_what_it_was(hub, sources, tmp_path):
    """What main holds when it is brought matters no more: the plan has the commit."""
    _, source = sources.one("hf://datasets/team/flowers/data/train-0.parquet")
    hub.repositories["team/flowers"].commit({"data/train-0.parquet": b"other"})
    assert sources.brought(source, sources.Carrier(tmp_path, reaches=True)) == {"train-0.parquet": LARGE}


def test_of_a_commit_that_follows_only_what_changed_is_fetched(hub, sources, tmp_path):
    workspace = Workspace(str(tmp_path / "work"))
    contents = []
    for number in range(2):
        files = {**FILES, "README.md": f"State {number}"}
        hub.repositories["team/flowers"].commit(files)
        _, source = sources.one("hf://datasets/team/flowers")
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
