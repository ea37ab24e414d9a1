"""Datasets: whole or absent, verified, resumed."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import os
import tarfile
import time
import urllib.error
from types import SimpleNamespace

import pytest
from loopback import answering

from modak_ansible.errors import ModakError, NotReached
from modak_ansible.target.core.files import sha256_of, write_json
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets import dataset as dataset_module
from modak_ansible.target.datasets import fetch as fetch_module
from modak_ansible.target.datasets.archive import unpack
from modak_ansible.target.datasets.dataset import DatasetStore, manifest_of
from modak_ansible.target.datasets.fetch import fetch

CONTENT = bytes(range(256)) * 4000


def entry(name="a.gz", content=CONTENT):
    return {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def source_of(**changes):
    return {"kind": "url", "label": "data", "location": "", "files": [entry()], **changes}


def store_of(tmp_path, name="data", **more):
    dataset = {"name": name, "format": "", "path": f"datasets/{name}-123456789012", **more}
    return DatasetStore(Workspace(str(tmp_path / "w")), dataset)


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path)


@pytest.fixture
def server():
    """A server on loopback that can serve ranges, and notes what it was asked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        asked = []
        state = ['"first"', CONTENT]

        def do_GET(self):
            self.asked.append((self.path, self.headers.get("Range")))
            if self.path.startswith("/none"):
                self.send_error(404)
                return
            if self.path.startswith("/round"):
                self.send_response(302)
                self.send_header("Location", "file:///etc/passwd" if "file" in self.path else self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            etag, content = self.state
            begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            if self.headers.get("If-Range", etag) != etag:
                begin = 0
            if begin and begin >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(content) - begin))
            self.send_header("ETag", etag)
            self.end_headers()
            self.wfile.write(content[begin:])

        def log_message(self, *arguments):
            pass

    with answering(Handler) as running:
        running.address = f"http://127.0.0.1:{running.server_port}"
        running.asked, running.state = Handler.asked, Handler.state
        yield running


def wait(store):
    deadline = time.monotonic() + 10
    while store.activity.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return store.activity.status()


def put(store, name="a.gz", content=CONTENT):
    store.prepare(len(content))
    path = store.partial / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_the_certificates_of_the_site_go_before_those_of_the_machine(store, tmp_path, monkeypatch):
    (tmp_path / "ca.crt").touch()
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/old.crt")
    monkeypatch.setattr(store.activity, "start", lambda work: True)
    store.start_download(source_of(), {"certificate_bundle": f"{tmp_path}/ca.crt"})
    assert os.environ["SSL_CERT_FILE"] == f"{tmp_path}/ca.crt"


def test_a_file_may_have_as_long_a_name_as_there_are(tmp_path, server):
    path = tmp_path / ("x" * 255)
    fetch(f"{server.address}/long", path)
    assert path.read_bytes() == CONTENT


def test_nothing_is_there_before_it_is_whole(store):
    assert store.description() is None
    put(store)
    put(store, "left-over", b"x")
    assert store.description() is None
    known = store.commit(source_of())
    assert store.description() == known
    assert (known["files"], known["size"]) == (1, len(CONTENT))
    assert sorted(path.name for path in store.path.iterdir()) == ["a.gz"]
    assert manifest_of(store.path).is_file()
    assert not store.partial.exists()


def test_what_is_staged_is_nobodys_to_write(store):
    put(store)
    store.commit(source_of())
    assert (store.path / "a.gz").stat().st_mode & 0o777 == 0o400


def test_data_in_mnists_form_is_described_where_our_workloads_read_it(tmp_path):
    store = store_of(tmp_path, format="idx")
    put(store)
    store.commit(source_of(label="drawn"))
    assert '"label": "drawn"' in (store.path / "dataset.json").read_text()
    assert store.description()["files"] == 1


def test_a_wrong_checksum_is_refused_and_the_file_removed(store):
    put(store, content=b"bad")
    with pytest.raises(ModakError, match=r"a.gz arrived with the SHA-256 .*, not "):
        store.commit(source_of())
    assert store.description() is None
    assert not (store.partial / "a.gz").exists()
    with pytest.raises(ModakError, match="has not arrived"):
        store.commit(source_of())


def test_a_file_that_was_damaged_later_is_missed(store):
    put(store)
    store.commit(source_of())
    (store.path / "a.gz").chmod(0o600)
    (store.path / "a.gz").write_bytes(CONTENT[:-1])
    assert store.description() is None


def test_no_room(store):
    with pytest.raises(ModakError, match="the dataset data needs 1000000000000 MB"):
        store.prepare(10**18)


def test_nothing_takes_the_place_of_what_is_there(store):
    """Whoever lost the answer of a commit asks again, and nothing has been brought since."""
    put(store)
    store.commit(source_of())
    assert store.start_commit(source_of(files=[])) is False
    with pytest.raises(ModakError, match="nothing of data has arrived"):
        store.commit(source_of(files=[]))
    assert store.description()["files"] == 1


@pytest.mark.component
def test_a_download_is_verified_and_resumed(store, server):
    put(store, content=CONTENT[:1000])
    assert store.start_download(source_of(location=server.address), {})
    assert wait(store)["state"] == "done"
    assert (store.path / "a.gz").read_bytes() == CONTENT
    assert server.asked == [("/a.gz", "bytes=1000-")]


@pytest.mark.component
def test_several_addresses_are_fetched_at_once(store, server):
    names = [f"{number}.bin" for number in range(6)]
    files = [{"name": name, "size": None, "sha256": None, "address": f"{server.address}/x/{name}"} for name in names]
    assert store.start_download(source_of(files=files), {})
    assert wait(store)["state"] == "done"
    assert sorted(path.name for path in store.path.iterdir()) == names
    assert store.description()["size"] == 6 * len(CONTENT)


@pytest.mark.component
def test_names_that_no_address_holds_as_they_are_are_asked_for_in_its_form(store, server):
    """As a browser shows an address, and as the checksums of a folder name its files."""
    shown = {
        "name": "größe.csv",
        "size": None,
        "sha256": None,
        "address": f"{server.address}/daten/größe.csv?a=1&b=%20",
    }
    files = [shown, {"name": "train set #1.npz", "size": None, "sha256": None}]
    assert store.start_download(source_of(location=f"{server.address}/x/", files=files), {})
    assert wait(store)["state"] == "done"
    assert {path for path, _ in server.asked} == {"/daten/gr%C3%B6%C3%9Fe.csv?a=1&b=%20", "/x/train%20set%20%231.npz"}


def test_files_of_one_name_in_several_folders_are_told_as_several(tmp_path, monkeypatch):
    def fetch(address, path, tell, **_):
        path.write_bytes(b"1")
        tell(3_000_000, 9_000_000)

    moments, said = iter(range(0, 100, 2)), []
    monkeypatch.setattr(fetch_module, "fetch", fetch)
    monkeypatch.setattr(fetch_module, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    files = [{"name": f"{folder}/x.bin", "size": None, "sha256": None} for folder in ("test", "train")]
    fetch_module.fetch_all(files, "https://x", tmp_path, said.append)
    assert said[-1] == "fetching 2 files, 6 MB"


@pytest.mark.component
def test_a_download_that_is_not_there(store, server):
    store.start_download(source_of(location=f"{server.address}/none/"), {})
    status = wait(store)
    assert status["state"] == "failed"
    assert "/none/a.gz: 404" in status["message"]
    assert store.description() is None


@pytest.mark.component
@pytest.mark.parametrize(("way", "hint"), [("round", "redirects to itself"), ("round-file", "is not a web address")])
def test_an_address_that_leads_back_to_itself_or_to_no_other(store, server, way, hint):
    store.start_download(source_of(location=f"{server.address}/{way}/"), {})
    status = wait(store)
    assert f"/{way}/a.gz: 302 " in status["message"]
    assert ("\n" in status["message"], hint in status["hint"]) == (False, True), status


@pytest.mark.component
@pytest.mark.parametrize("digest", [None, "ab" * 32])
@pytest.mark.parametrize("begin", [b"\n<!DOCTYPE html>", b'<?xml version="1.0"?>\n', b"<!-- ours -->"])
def test_a_page_that_asks_for_a_login_is_no_data(store, server, digest, begin):
    server.state[1] = begin + b"<html>Sign in</html>"
    files = [{**entry(), "sha256": digest, "size": None}]
    store.start_download(source_of(kind="url", location=server.address, files=files), {})
    status = wait(store)
    assert ("a web page" in status["message"], "asks for a login" in status["hint"]) == (True, True), status
    assert store.description() is None
    assert list(store.partial.iterdir()) == []


@pytest.mark.component
def test_a_page_that_is_asked_for_is_data(tmp_path, server):
    server.state[1] = b"<html>1</html>"
    store = store_of(tmp_path)
    store.start_download(
        source_of(location=server.address, files=[{**entry("a.html"), "sha256": None, "size": None}]), {}
    )
    assert wait(store)["state"] != "failed"
    assert store.description()["files"] == 1


@pytest.mark.component
def test_a_server_that_gives_nothing(store, server):
    server.state[1] = b""
    nothing_known = {**entry(), "sha256": None, "size": None}
    store.start_download(source_of(location=server.address, files=[nothing_known]), {})
    assert "returned 0 bytes" in wait(store)["message"]
    assert store.description() is None


def test_two_names_that_the_file_system_takes_for_one(store, monkeypatch):
    for name in ("a/x.gz", "a/X.gz"):
        put(store, name)
    files = [entry(name) for name in ("a/x.gz", "a/X.gz")]
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", lambda _: ["x.gz"])
        with pytest.raises(ModakError, match="differ only in case, one of them .*X.gz"):
            store.commit(source_of(files=files))
    assert store.commit(source_of(files=files))["files"] == 2


@pytest.mark.component
def test_a_size_that_is_another(store, server):
    file = {**entry(), "size": 17, "sha256": None}
    store.start_download(source_of(location=server.address, files=[file]), {})
    assert "has 1024000 bytes, not 17" in wait(store)["message"]
    assert store.description() is None


def test_a_whole_file_with_the_wrong_content_is_fetched_again(tmp_path, server):
    path = tmp_path / "a.gz"
    path.write_bytes(CONTENT)
    fetch(f"{server.address}/a.gz", path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("changed", [False, True])
def test_a_file_without_a_checksum_is_gone_on_with_while_it_is_the_same(tmp_path, server, changed):
    path = tmp_path / "a"
    path.write_bytes(CONTENT[:1000])
    (tmp_path / ".a.validator").write_text('"first"')
    if changed:
        server.state[:] = ['"second"', b"other" * 1000]
    fetch(f"{server.address}/a", path, is_known=False)
    assert path.read_bytes() == server.state[1]
    assert not (tmp_path / ".a.validator").exists()


@pytest.fixture
def waited(monkeypatch):
    """The seconds that a fetch waits between its attempts, none of which pass."""
    pauses = []
    monkeypatch.setattr(fetch_module, "time", SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic))
    return pauses


def test_nobody_listens(tmp_path, server, waited):
    port = server.server_port
    server.shutdown()
    server.server_close()
    with pytest.raises(NotReached, match="refused"):
        fetch(f"http://127.0.0.1:{port}/a.gz", tmp_path / "a.gz")
    assert waited == [1, 2]


def test_a_server_that_is_not_reached_once_is_asked_again(tmp_path, server, waited, monkeypatch):
    true, ways = fetch_module._fetch_once, [urllib.error.URLError("timed out")]

    def once(*arguments, **more):
        if ways:
            raise ways.pop()
        true(*arguments, **more)

    monkeypatch.setattr(fetch_module, "_fetch_once", once)
    fetch(f"{server.address}/a.gz", tmp_path / "a.gz")
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    assert waited == [1]


def test_a_server_that_answers_is_reached(tmp_path, server):
    with pytest.raises(ModakError, match="404") as raised:
        fetch(f"{server.address}/none", tmp_path / "a.gz")
    assert not isinstance(raised.value, NotReached)


def staged(store):
    put(store)
    return store.commit(source_of())


def test_a_changed_byte_is_seen_though_size_and_date_are_the_same(store):
    known = staged(store)
    assert store.description() == known
    file = store.path / "a.gz"
    before = file.stat()
    file.chmod(0o600)
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
def test_a_damaged_manifest_is_none(store, text):
    staged(store)
    manifest_of(store.path).write_text(text)
    assert (store.description(), store.damaged) == (None, "data-123456789012.manifest.json")
    assert staged(store) == store.description()


def test_what_is_not_there_is_not_damaged(store):
    assert (store.description(), store.damaged) == (None, "")


def test_files_that_another_dataset_has_are_not_brought_again(tmp_path):
    """The next state of a folder costs what changed in it; the first state stays what it was."""
    first, second = store_of(tmp_path, "first"), store_of(tmp_path, "second")
    put(first, "a/x", b"same")
    put(first, "b", b"old")
    first.commit(source_of(files=[entry("a/x", b"same"), entry("b", b"old")]))
    write_json(first.path.with_name("there-123456789012.manifest.json"), {"files": 17})
    wanted = [entry("a/renamed", b"same"), entry("b", b"new")]
    write_json(second.wanted, {"files": wanted})
    assert second.prepare(7) == 1
    assert (second.partial / "a" / "renamed").stat().st_ino == (first.path / "a" / "x").stat().st_ino
    put(second, "b", b"new")
    assert second.commit(source_of(files=[]))["files"] == 2
    read = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_module, "sha256_of", lambda path: read.append(path) or sha256_of(path))
        assert first.description()
        assert second.description()
    assert read == []


def test_what_is_not_wanted_any_more_is_not_left_in_an_interrupted_transfer(store):
    put(store, "a.gz", CONTENT + b"longer")
    put(store, "other", b"x")
    write_json(store.wanted, {"files": [entry()]})
    store.prepare(1)
    assert list(store.partial.iterdir()) == []


# --- what is packed


def tar_of(members, ending=".gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz" if ending == ".gz" else "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_an_archive_is_unpacked_and_its_files_are_the_manifest(store):
    packed = tar_of({"images/cat/1.png": b"1", "images/dog/1.png": b"22"})
    put(store, "images.tar.gz", packed)
    source = source_of(files=[entry("images.tar.gz", packed)], unpack="archive")
    known = store.commit(source)
    assert (known["files"], known["size"]) == (2, 3)
    assert (store.path / "images" / "dog" / "1.png").read_bytes() == b"22"
    assert not (store.path / "images.tar.gz").exists()
    assert store.description() == known
    assert [path.name for path in store.path.parent.iterdir() if path.name.startswith(".")] == []


def test_what_somebody_takes_away_meanwhile_is_missed(store, monkeypatch):
    """As another front end may, where the file system shares no locks."""
    packed = tar_of({"images/cat/1.png": b"1", "images/dog/1.png": b"22"})
    put(store, "images.tar.gz", packed)

    def crossed(path, folder, *arguments):
        sizes = unpack(path, folder, *arguments)
        (folder / "images" / "cat" / "1.png").unlink()
        return sizes

    monkeypatch.setattr(dataset_module, "unpack", crossed)
    with pytest.raises(ModakError, match=r"1 files with 2 bytes are in .*, where 2 with 3 were unpacked"):
        store.commit(source_of(files=[entry("images.tar.gz", packed)], unpack="archive"))
    assert store.description() is None


def test_front_ends_unpack_apart(tmp_path, monkeypatch):
    folders = []
    for host in ("login1.cluster.example", "login2.cluster.example"):
        monkeypatch.setattr(dataset_module.os, "uname", lambda host=host: SimpleNamespace(nodename=host))
        folders.append(store_of(tmp_path)._unpacked.name)
    assert folders[0] == ".data-123456789012.unpacked.login1_cluster_example.part"
    assert folders[0] != folders[1]


def test_every_packed_file_is_unpacked_where_it_lies(store):
    files = {"raw/a.gz": gzip.compress(b"one"), "raw/b.tar": tar_of({"c/d": b"two"}, ""), "plain": b"three"}
    for name, content in files.items():
        put(store, name, content)
    store.commit(source_of(files=[entry(name, content) for name, content in files.items()], unpack="all"))
    there = {path.relative_to(store.path).as_posix() for path in store.path.rglob("*") if path.is_file()}
    assert there == {"raw/a", "raw/c/d", "plain"}


def test_an_archive_that_leads_out_leaves_nothing(store):
    packed = tar_of({"good": b"1", "../evil": b"2"})
    put(store, "x.tar.gz", packed)
    with pytest.raises(ModakError, match="leads out of its folder"):
        store.commit(source_of(files=[entry("x.tar.gz", packed)], unpack="archive"))
    assert store.description() is None
    left = {path.name for path in store.path.parent.rglob("*") if path.is_file()}
    assert left == {"x.tar.gz"}  # what was sent, and nothing that was unpacked of it
