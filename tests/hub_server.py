"""A server on loopback that answers as the Hugging Face Hub does, as far as its client asks for datasets."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from loopback import answering

PAGE = 3  # entries of a tree in one answer


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """A dataset: files by commit, commits by branch or tag."""

    trees: dict = field(default_factory=dict)
    revisions: dict = field(default_factory=dict)
    card: dict = field(default_factory=dict)
    token: str = ""
    gated: bool = False

    def commit(self, files, branch="main"):
        """Puts files in place of what the branch had; gives the commit."""
        files = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.trees[commit] = files
        self.revisions[branch] = commit
        return commit


def is_large(name):
    return name.endswith((".parquet", ".bin"))


@dataclass
class Hub:
    """What the server has, what it was asked, and what it is to do wrong.

    Attributes:
        cut: how many bytes of the next large files are sent before the connection is cut, one number each.
        busy: how many requests are answered by 429.
        damaged: names of files of which another byte is sent.
    """

    repositories: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    cut: list = field(default_factory=list)
    busy: int = 0
    damaged: set = field(default_factory=set)
    address: str = ""

    def asked(self, words):
        return [request for request in self.requests if words in request[1]]


def handler_of(hub):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def do_HEAD(self):
            self.handle_it()

        def do_GET(self):
            self.handle_it()

        def handle_it(self):
            split = urlsplit(self.path)
            path, query = unquote(split.path), parse_qs(split.query)
            hub.requests.append((self.command, self.path, dict(self.headers)))
            if hub.busy:
                hub.busy -= 1
                return self.refuse(429, headers={"Retry-After": "0"})
            if path.startswith("/storage/"):
                return self.large(path.rpartition("/")[2])
            if path == "/api/datasets":
                word = query["search"][0]
                return self.json([self.about(name) for name in hub.repositories if word in name])
            found = re.fullmatch(r"(/api)?/datasets/(.+?)(?:/(revision|tree|resolve|refs)(?:/(.+))?)?", path)
            repository = hub.repositories.get(found[2]) if found else None
            if repository is None or (repository.token and not self.is_known(repository)):
                if repository and repository.gated:
                    return self.refuse(401, "GatedRepo")
                if repository is None and "Authorization" in self.headers:
                    return self.refuse(404, "RepoNotFound")
                given = self.headers.get("Authorization")
                said = {"X-Error-Message": "Invalid credentials in Authorization header"} if given else {}
                return self.refuse(401, headers=said)
            kind, rest = found[3], found[4] or ""
            if kind == "refs":
                refs = [{"name": name, "ref": name, "targetCommit": at} for name, at in repository.revisions.items()]
                return self.json({"branches": refs, "tags": [], "converts": []})
            raw = re.fullmatch(r".*/(?:revision|tree|resolve)/([^/]+)(?:/.*)?", split.path)
            revision = unquote(raw[1]) if raw else "main"
            commit = repository.revisions.get(revision, revision)
            if commit not in repository.trees:
                return self.refuse(404, "RevisionNotFound")
            tree = repository.trees[commit]
            if kind in (None, "revision"):
                return self.json({**self.about(found[2]), "sha": commit, "cardData": repository.card})
            if kind == "tree":
                return self.tree(tree, int(query.get("cursor", ["0"])[0]), split.path)
            name = rest[len(revision) + 1 :]
            if name not in tree:
                return self.refuse(404, "EntryNotFound")
            return self.file(name, tree[name], commit)

        def is_known(self, repository):
            return self.headers.get("Authorization") == f"Bearer {repository.token}"

        def about(self, name):
            return {"id": name, "siblings": [], "tags": [], "private": bool(hub.repositories[name].token)}

        def tree(self, tree, start, path):
            names = sorted(tree)
            entries = []
            for name in names[start : start + PAGE]:
                content = tree[name]
                entry = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
                if is_large(name):
                    entry["lfs"] = {
                        "oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130,
                    }  # fmt: skip
                entries.append(entry)
            following = f'<{hub.address}{path}?recursive=True&cursor={start + PAGE}>; rel="next"'
            self.json(entries, {"Link": following} if start + PAGE < len(names) else {})

        def file(self, name, content, commit):
            headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            if is_large(name):
                digest = hashlib.sha256(content).hexdigest()
                headers |= {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(content)), "ETag": '"pointer"'}
                hub.storage = {**getattr(hub, "storage", {}), digest: (name, content)}
                other = hub.address.replace("127.0.0.1", "localhost")
                return self.answer(302, b"", {**headers, "Location": f"{other}/storage/{digest}"})
            return self.content(name, content, {**headers, "ETag": f'"{git_sha1(content)}"'})

        def large(self, digest):
            name, content = hub.storage[digest]
            self.content(name, content, {"ETag": f'"{digest[:32]}"'})

        def content(self, name, content, headers):
            if name in hub.damaged:
                content = b"!" + content[1:]
            found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            begin = int(found[1]) if found else 0
            if begin and begin >= len(content):
                return self.refuse(416)
            if begin:
                headers = {**headers, "Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
            cut = hub.cut.pop(0) if hub.cut and is_large(name) and self.command == "GET" else None
            return self.answer(206 if begin else 200, content[begin:], headers, cut)

        def json(self, value, headers=None):
            self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

        def refuse(self, code, word="", headers=None):
            self.answer(code, b"{}", {**({"X-Error-Code": word} if word else {}), **(headers or {})})

        def answer(self, code, body, headers, cut=None):
            self.send_response(code)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body if cut is None else body[:cut])
            if cut is not None:
                self.wfile.flush()
                self.close_connection = True

    return Handler


@contextmanager
def hub_at_loopback():
    hub = Hub()
    with answering(handler_of(hub)) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        yield hub
