"""modak deploy --webhook: what chats are told, tried against a server of this machine; no word of its address is said."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler

import pytest
from loopback import answering

from modak_ansible.commands.deploy import webhook as webhooks
from modak_ansible.commands.deploy.notification import Ending
from modak_ansible.commands.deploy.webhook import TEMPLATES, message_of, post
from modak_ansible.errors import JobFailed, ModakError, UsageError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.transport.secrets import Webhook

PLANTED = "planted-7d1f"


@pytest.fixture
def chat():
    """A server that keeps what it is told, and answers as it is told to."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.seen.append((self.path, self.headers["Content-Type"], json.loads(body)))
            server.waits.wait(server.seconds)
            self.send_response(server.code)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Nothing is printed."""

    with answering(Handler) as server:
        server.seen, server.code, server.seconds, server.waits = [], 200, 0, threading.Event()
        yield server
        server.waits.set()


def hook(chat, kind):
    return Webhook("team", kind, f"http://127.0.0.1:{chat.server_port}/{PLANTED}/topic")


@pytest.fixture
def stores(tmp_path):
    def made(name, lr, losses, state):
        folder = tmp_path / name
        (folder / "results").mkdir(parents=True)
        lines = [json.dumps({"step": step, "val_loss": loss}) + "\n" for step, loss in enumerate(losses, 1)]
        (folder / "results/metrics.jsonl").write_text("".join(lines))
        (folder / "results/manifest.json").write_text('{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}')
        plan = {
            "digest": "d", "name": "mine", "training": f"t:lr={lr}", "target": {"name": "cluster"},
            "application": {"arguments": [["lr", lr]]},
        }  # fmt: skip
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "state.json").write_text(json.dumps({"job": {"state": state, "job_id": "7"}}))
        return DeploymentStore(folder)

    return [made("a", "0.1", [3, 2.5, 2], "COMPLETED"), made("b", "0.5", [9, 8], "FAILED")]


def test_what_is_told_has_the_best_so_far_and_its_curve(stores):
    assert message_of(stores, JobFailed("1 of 2 trainings\x1b did not complete"), 90) == (
        "mine: failed (1 completed, 1 failed)",
        "cluster, 1 min 30 s\nbest val_loss 2: lr=0.1\nval_loss █▅▁\n1 of 2 trainings\\x1b did not complete",
    )
    assert message_of(stores[:1], None, 5) == ("mine: completed", "cluster, 5.0 s\nbest val_loss 2\nval_loss █▅▁")
    assert message_of([], ModakError("no such blueprint"), 1) == ("modak: failed", "1.0 s\nno such blueprint")


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("slack", f"/{PLANTED}/topic", {"text": "*a &lt;b&gt;*\n{c} @all"}),
        ("mattermost", f"/{PLANTED}/topic", {"username": "modak", "text": "**a <b>**\n```\n{c} @\u200ball\n```"}),
        ("ntfy", f"/{PLANTED}", {"topic": "topic", "title": "a <b>", "message": "{c} @all", "tags": ["x"]}),
    ],
)
def test_each_kind_has_its_form(chat, kind, path, body):
    assert post(hook(chat, kind), "a <b>", "{c} @all", is_good=False) == ""
    assert chat.seen == [(path, "application/json", body)]


def test_each_template_is_tried():
    assert {path.stem for path in TEMPLATES.glob("*")} == {"slack", "mattermost", "ntfy"}


def test_a_server_that_does_not_do_costs_a_word_without_its_address(chat, monkeypatch):
    monkeypatch.setattr(webhooks, "_PATIENCE", 0.2)
    said = []
    for chat.code in (403, 302):
        said.append(post(hook(chat, "slack"), "a", "b", is_good=True))
    chat.seconds = 5
    said.append(post(hook(chat, "slack"), "a", "b", is_good=True))
    assert said[:2] == ["it answers 403", "it answers 302"]
    assert said[2] in ("it did not answer in time", "TimeoutError")
    assert all(path != "/elsewhere" for path, _, _ in chat.seen)
    gone = Webhook("team", "slack", f"http://127.0.0.1:1/{PLANTED}")
    odd = Webhook("team", "slack", f"http://127.0.0.1:{PLANTED}/ x")
    for each in (gone, odd):
        word = post(each, "a", "b", is_good=True)
        assert word
        assert PLANTED not in word + repr(each)
    assert post(Webhook("team", "slack", "https:///services"), "a", "b", is_good=True) == "no host given"


@pytest.fixture
def secrets(monkeypatch, tmp_path):
    def kept(text):
        file = tmp_path / "config/modak/secrets.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MODAK_SECRETS", raising=False)
    return kept


def test_an_end_is_told_however_it_comes(chat, secrets, stores):
    secrets(f'webhooks: {{ team: {{ kind: slack, url: "http://127.0.0.1:{chat.server_port}/{PLANTED}" }} }}')
    ending = Ending(webhook="team", stores=lambda: stores)
    with pytest.raises(JobFailed), ending:
        raise JobFailed("it failed")
    with pytest.raises(KeyboardInterrupt), Ending(webhook="team"):
        raise KeyboardInterrupt
    (seen,) = chat.seen
    assert seen[2]["text"].startswith("*mine: failed (1 completed, 1 failed)*\n")
    assert seen[2]["text"].endswith("it failed")
    chat.code = 500
    with Ending(webhook="team") as ending:
        """It ends well."""
    assert ending.problem == "webhook team: it answers 500"


def test_a_wrong_name_is_said_before_anything_is_done(secrets):
    secrets(f'webhooks: {{ team: {{ kind: slak, url: "https://x/{PLANTED}" }} }}')
    with pytest.raises(UsageError, match="there is no webhook tema\n  did you mean team"):
        Ending(webhook="tema")
    with pytest.raises(UsageError, match="the webhook team is of no kind slak\n  did you mean slack"):
        Ending(webhook="team")
    secrets(f"webhooks: {{ team: {{ url: {PLANTED} }} }}")
    with pytest.raises(ModakError, match="the webhook team needs kind and url") as error:
        Ending(webhook="team")
    assert PLANTED not in str(error.value)
