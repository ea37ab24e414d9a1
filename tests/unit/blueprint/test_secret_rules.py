"""What looks like a secret is refused where it would be stored, and what only sounds like one is not."""

from __future__ import annotations

import pytest

from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.secret_rules import named_problem, text_problem
from modak_ansible.reading.blueprint.reader import Inputs

SECRETS = [
    ("WANDB_API_KEY", "0123456789abcdef"),
    ("registry_password", "planted"),
    ("password", "123456"),
    ("hf-token", "planted"),
    ("aws_secret_access_key", "planted"),
    ("apikey", "planted"),
    ("DB_PASSWD", "planted"),
    ("credentials", "planted"),
]
HARMLESS = [
    ("TOKENIZERS_PARALLELISM", "false"),
    ("max_tokens", "512"),
    ("eos_token", "<eos>"),
    ("pad-token", "[PAD]"),
    ("token", "50256"),
    ("use_auth_token", "true"),
    ("password-file", "/home/a/word"),
    ("HF_TOKEN", "$HF_TOKEN"),
    ("monkey", "banana"),
    ("secretary", "alice"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/work/alice/key.json"),
    ("password", ""),
]
TEXTS = [
    "https://alice:planted@index.example/simple",
    "https://planted@github.com/a/b.git",
    "docker://alice:planted@registry.example/a",
    "https://data.example/x?X-Amz-Signature=planted",
    "https://data.example/x?access_token=planted",
    "python train.py --api-key planted",
    "--token=planted",
    "export WANDB_API_KEY=planted",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEF",
    "sk-abcdefghijklmnopqrstuvwxyzABCDEF",
    "sk-proj-abc_d-EFGhijklmnopqrstuvwxyzABCDEF0-123",
]
HARMLESS_TEXTS = [
    "docker://registry.example:5000/team/image:1@sha256:" + "a" * 64,
    "docker://team/image:1@sha256:" + "a" * 64,
    "git@github.com:a/b.git",
    "ssh://git@host.example/a",
    "https://index.example/simple?page=2",
    "export HF_TOKEN=$(cat ~/.hf)",
    'export HF_TOKEN="$(cat ~/.hf)"',
    "the token that ends a sentence, and the secret of success",
    "train.py --tokenizer bert --max-tokens 100",
    "http://127.0.0.1:8080/a@b",
    "sk-resnet50-imagenet-baseline-v2",
]


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_a_name_tells(name, value):
    assert "looks like a secret" in named_problem(name, value)
    assert value not in named_problem(name, value)


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_a_harmless_name(name, value):
    assert named_problem(name, value) == ""


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_tells(text):
    assert text_problem(text)
    assert "planted" not in text_problem(text)


@pytest.mark.parametrize("text", HARMLESS_TEXTS)
def test_a_harmless_text(text):
    assert text_problem(text) == ""


def mistakes_of(blueprint, *values):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(values=values), mistakes)
    return list(mistakes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch-size: 128", "api-key: planted-word"),
        ("script:", "environment: { WANDB_API_KEY: planted-word }\n        script:"),
        ("script:", 'pre_execution: [ "export TOKEN=planted-word" ]\n        script:'),
        ("username: alice", "username: alice\n        password: planted-word"),
        ("scratch:", 'site: { properties: { pip_index_url: "https://a:planted-word@x/simple" } }\n        scratch:'),
        ("epochs: { type: integer, default: 2 }", "epochs: { type: integer, default: 2 }\n    token: { type: string, default: planted-word }"),
    ],
)  # fmt: skip
def test_a_secret_in_a_blueprint(blueprint, old, new):
    found = mistakes_of(blueprint.replace(old, new))
    secret = [each for each in found if each.rule == "secret"]
    assert secret
    assert all(each.location.line for each in secret)
    assert "MODAK_SECRETS" in secret[0].hint
    assert not any("planted-word" in str(each) for each in found)


def test_a_secret_that_comes_by_an_input_of_another_name(blueprint):
    blueprint.replace(
        "epochs: { type: integer, default: 2 }", "epochs: { type: integer, default: 2 }\n    what: { type: string }"
    )
    blueprint.replace("script:", "environment: { HF_TOKEN: { get_input: what } }\n        script:")
    (found,) = mistakes_of(blueprint, ("what", "planted-word"))
    assert (found.rule, str(found.location)) == ("secret", "--input what")


def test_a_secret_input_is_refused_by_its_name(blueprint):
    found = mistakes_of(blueprint, ("registry_password", "planted-word"))
    assert "secret" in [each.rule for each in found if str(each.location) == "--input registry_password"]
    assert not any("planted-word" in str(each) for each in found)
