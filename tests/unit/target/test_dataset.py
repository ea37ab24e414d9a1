"""Datasets: whole or absent, verified, resumed."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
import time

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets import dataset as dataset_module
from modak_ansible.target.datasets.dataset import DatasetStore, fetch

CONTENT = bytes(range(256)) * 4000


def source_of(**changes):
    files = [{"name": "a.gz", "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}]
    return {"kind": "url", "label": "data", "location": "", "files": files, **changes}


@pytest.fixture
def store(tmp_path):
    return DatasetStore(Workspace(str(tmp_path / "w")), {"name": "data", "format": "idx", "path": "datasets/data-1"})


@pytest.fixture
def server():
    """A server on loopback that can serve ranges, and notes what it was asked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        asked = []

        def do_GET(self):
            self.asked.append((self.path, self.headers.get("Range")))
            if self.path.startswith("/none"):
                self.send_error(404)
                return
            begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            if begin >= len(CONTENT):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(CONTENT) - begin))
            self.end_headers()
            self.wfile.write(CONTENT[begin:])

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        running.address = f"http://127.0.0.1:{running.server_port}"
        running.asked = Handler.asked
        yield running
        running.shutdown()


def wait(store):
    deadline = time.monotonic() + 10
    while store.activity.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return store.activity.status()


def test_nothing_is_there_before_it_is_whole(store):
    assert store.description() is None
    folder = store.prepare(len(CONTENT))
    (folder / "a.gz").write_bytes(CONTENT)
    (folder / "left-over").write_bytes(b"x")
    assert store.description() is None
    known = store.commit(source_of())
    assert store.description() == known
    assert sorted(path.name for path in store.path.iterdir()) == ["a.gz", "dataset.json"]
    assert not store.partial.exists()


def test_a_wrong_checksum_is_refused_and_the_file_removed(store):
    folder = store.prepare(3)
    (folder / "a.gz").write_bytes(b"bad")
    with pytest.raises(ModakError, match=r"a.gz arrived with the SHA-256 .*, not "):
        store.commit(source_of())
    assert store.description() is None
    assert not (folder / "a.gz").exists()
    with pytest.raises(ModakError, match="has not arrived"):
        store.commit(source_of())


def test_a_file_that_was_damaged_later_is_missed(store):
    (store.prepare(0) / "a.gz").write_bytes(CONTENT)
    store.commit(source_of())
    (store.path / "a.gz").write_bytes(CONTENT[:-1])
    assert store.description() is None


def test_no_room(store):
    with pytest.raises(ModakError, match="the dataset data needs 1000000000000 MB"):
        store.prepare(10**18)


@pytest.mark.component
def test_a_download_is_verified_and_resumed(store, server):
    folder = store.prepare(0)
    (folder / "a.gz").write_bytes(CONTENT[:1000])
    assert store.start_download(source_of(location=server.address), {})
    assert wait(store)["state"] == "done"
    assert (store.path / "a.gz").read_bytes() == CONTENT
    assert server.asked == [("/a.gz", "bytes=1000-")]


@pytest.mark.component
def test_a_download_that_is_not_there(store, server):
    store.start_download(source_of(location=f"{server.address}/none/"), {})
    status = wait(store)
    assert status["state"] == "failed"
    assert "/none/a.gz: 404" in status["message"]
    assert store.description() is None


def test_a_whole_file_with_the_wrong_content_is_fetched_again(tmp_path, server):
    path = tmp_path / "a.gz"
    path.write_bytes(CONTENT)
    fetch(f"{server.address}/a.gz", path)
    assert path.read_bytes() == CONTENT


def test_nobody_listens(tmp_path, server):
    port = server.server_port
    server.shutdown()
    server.server_close()
    with pytest.raises(ModakError, match="refused"):
        fetch(f"http://127.0.0.1:{port}/a.gz", tmp_path / "a.gz")


def staged(store):
    (store.prepare(len(CONTENT)) / "a.gz").write_bytes(CONTENT)
    return store.commit(source_of())


def test_a_changed_byte_is_seen_though_size_and_date_are_the_same(store):
    known = staged(store)
    assert store.description() == known
    file = store.path / "a.gz"
    before = file.stat()
    with file.open("r+b") as content:
        content.seek(1000)
        content.write(b"\xff" if CONTENT[1000] != 255 else b"\x00")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (store.description(), store.damaged) == (None, "a.gz")
    assert staged(store)
    assert (store.description() is not None, store.damaged) == (True, "")


def test_what_was_only_touched_or_copied_is_read_once(store, monkeypatch):
    staged(store)
    read = []
    monkeypatch.setattr(dataset_module, "sha256_of", lambda path: read.append(path.name) or sha256_of(path))
    file = store.path / "a.gz"
    os.utime(file)
    assert store.description()
    assert store.description()
    assert read == ["a.gz"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"files": [1]}', '{"files": [{"name": "a.gz"}]}', '{"files": 3}', "{}", "\x00"]
)
def test_a_damaged_description_is_none(store, text):
    staged(store)
    (store.path / "dataset.json").write_text(text)
    assert (store.description(), store.damaged) == (None, "dataset.json")
    assert staged(store) == store.description()


def test_what_is_not_there_is_not_damaged(store):
    assert (store.description(), store.damaged) == (None, "")
