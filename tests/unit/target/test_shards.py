"""Many files as tar shards in webdataset's form, on the target."""

from __future__ import annotations

import hashlib
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import ModakError
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets import shards
from modak_ansible.target.datasets.dataset import DatasetStore
from modak_ansible.target.datasets.names import key_of
from modak_ansible.target.datasets.shards import make_shards


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("cat/001.jpg", "cat/001"), ("001.seg.png", "001"), ("a.b/001.jpg", "a.b/001"), ("README", ""),
        (".hidden", ""), ("cat/.x.jpg", ""), ("x.", ""), ("a.b/README", ""),
    ],
)  # fmt: skip
def test_a_sample_is_the_files_of_one_name(name, key):
    assert key_of(name) == key


def folder_of(path, count):
    for number in range(count):
        place = path / f"class-{number * 4 // count}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:04}.jpg").write_bytes(b"x" * 300)
        (place / f"{number:04}.cls").write_text(str(number * 4 // count))
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*.*"))


def test_every_file_lies_in_one_shard_beside_those_of_its_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_SMALLEST", 6000)
    names = folder_of(tmp_path / "in", 100)
    for out in ("one", "two"):
        (tmp_path / out).mkdir()
        make_shards(tmp_path / "in", names, tmp_path / out)
    index = json.loads((tmp_path / "one" / "index.json").read_text())["shardlist"]
    assert len(index) == 5
    assert sum(each["nsamples"] for each in index) == 100
    found = {}
    for each in index:
        path = tmp_path / "one" / each["url"]
        assert path.stat().st_size == each["filesize"]
        assert path.read_bytes() == (tmp_path / "two" / each["url"]).read_bytes()
        with tarfile.open(path) as tar:
            order = [member.name for member in tar]
            found.update({member.name: tar.extractfile(member).read() for member in tar})
        assert [key_of(name) for name in order[::2]] == [key_of(name) for name in order[1::2]]
        assert len({name.split("/")[0] for name in order}) == 4  # the classes are mixed
    assert found == {name: (tmp_path / "in" / name).read_bytes() for name in names}


@given(st.sets(st.text("ab./", min_size=1, max_size=6).filter(lambda name: "//" not in f"/{name}/"), min_size=1))
def test_any_names_are_told_or_packed(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("in")
    kept = []
    for name in sorted(names):
        if not {".", ".."} & set(name.split("/")) and not any(other.startswith(f"{name}/") for other in names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
            kept.append(name)
    out = tmp_path_factory.mktemp("out")
    if kept and all(map(key_of, kept)):
        make_shards(folder, kept, out)
        (path,) = out.glob("*.tar")
        with tarfile.open(path) as tar:
            assert sorted(tar.getnames()) == sorted(kept)
    elif kept:
        with pytest.raises(ModakError, match="has no extension"):
            make_shards(folder, kept, out)


def store_of(tmp_path):
    dataset = {"name": "photos", "format": "webdataset", "path": "datasets/photos-123456789012", "pack": "shards"}
    return DatasetStore(Workspace(str(tmp_path / "w")), dataset)


def bring(store, names):
    store.prepare(100)
    for name in names:
        (store.partial / name).parent.mkdir(parents=True, exist_ok=True)
        (store.partial / name).write_text(name)
    files = [{"name": name, "size": len(name), "sha256": hashlib.sha256(name.encode()).hexdigest()} for name in names]
    return {"kind": "folder", "label": "photos", "location": "photos", "files": files}


def test_the_dataset_is_its_shards(tmp_path):
    store = store_of(tmp_path)
    known = store.commit(bring(store, ["cat/1.jpg", "dog/1.jpg"]))
    assert sorted(path.name for path in store.path.iterdir()) == ["000000.tar", "index.json"]
    assert store.description() == known
    assert [path.name for path in store.path.parent.iterdir() if path.name.startswith(".")] == []
    (store.path / "000000.tar").chmod(0o600)
    with (store.path / "000000.tar").open("r+b") as file:
        file.write(b"y")
    assert store.description() is None  # a changed shard is seen as any changed file


def test_what_cannot_be_packed_is_brought_again_from_where_it_stopped(tmp_path, monkeypatch):
    store = store_of(tmp_path)
    source = bring(store, ["cat/1.jpg"])
    with monkeypatch.context() as patch:
        patch.setattr("modak_ansible.target.datasets.dataset.make_shards", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.commit(source)
    assert store.description() is None
    assert (store.partial / "cat" / "1.jpg").is_file()
    store.commit(source)
    assert store.description()["files"] == 2
