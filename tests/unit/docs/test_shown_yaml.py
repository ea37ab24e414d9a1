"""Every YAML that a page shows is read by what reads it for users, and nothing is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from documented import pages
from example_blueprint import SERVICE as EXAMPLE
from example_blueprint import BlueprintFolder

from modak_ansible.measuring.suites.reader import read_suite
from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs, read_targets
from modak_ansible.transport.secrets import read_secrets

# On a processor that has all that a page may ask for.
SERVICE = EXAMPLE.replace("skylake_avx512", "sapphirerapids")
PREPARED = ("import modak_runtime", "model, optimizer = modak_runtime.prepare(model, optimizer)")
BLOCKS = [(page.name, block) for page in pages() for block in page.blocks if block.language in ("yaml", "yml")]
# Of a training's properties, those that sentences show with a value.
INLINE = re.compile(r"(optimisation|checkpoint|resources|sweep): \{.*\}")
SENTENCES = sorted({(page.name, words) for page in pages() for words in page.inline if INLINE.fullmatch(words)})


def problems(text: str, folder: BlueprintFolder) -> list[str]:
    """What is wrong with a block: a target file, secrets, a service template, or a part of one.

    Scripts that it names are made, with the options that it gives them and the line that lets every choice reach them.
    """
    tree = yaml.safe_load(text)
    mistakes = Mistakes()
    if "registries" in tree:
        return _of_secrets(text, folder.path)
    if "groups" in tree:
        return _of_suite(text, folder.path)
    if "tosca_definitions_version" in tree:
        folder.service.write_text(text)
        if "modak.nodes.Training" not in text:
            assert read_targets(folder.service, Inputs(), mistakes)
            return list(map(str, mistakes))
    elif all(isinstance(each, dict) and str(each.get("type", "")).startswith("modak.") for each in tree.values()):
        _nodes(tree, text, folder)
    elif "policies" in tree or "site" in tree:
        service = yaml.safe_load(SERVICE)
        inner = service["topology_template"]
        (inner if "policies" in tree else inner["node_templates"]["cluster"]["capabilities"]).update(tree)
        folder.service.write_text(yaml.safe_dump(service, sort_keys=False))
    else:
        target = folder.path / "site.yaml"
        target.write_text(text)
        assert read_targets(target, Inputs(), mistakes) or len(mistakes)
        return list(map(str, mistakes))
    return _of_blueprint(folder)


def _of_secrets(text: str, folder: Path) -> list[str]:
    file = folder / "secrets.yaml"
    file.write_text(text)
    file.chmod(0o600)
    (folder / ".git").mkdir()  # a home that is a project, whatever lies above the folder of tests
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        assert read_secrets({"MODAK_SECRETS": str(file)})
    return []


def _of_suite(text: str, folder: Path) -> list[str]:
    file = folder / "suite.yaml"
    file.write_text(text)
    assert read_suite(file).groups
    return []


def _of_blueprint(folder: BlueprintFolder) -> list[str]:
    mistakes, warnings = Mistakes(), Mistakes()
    assert check_blueprint(folder.service, Inputs(), mistakes, warnings) or len(mistakes)
    return [*map(str, mistakes), *map(str, warnings)]


def _nodes(tree: dict, text: str, folder: BlueprintFolder) -> None:
    service = yaml.safe_load(SERVICE)
    nodes = service["topology_template"]["node_templates"]
    if any(each["type"] == "modak.nodes.Training" for each in tree.values()):
        del nodes["training"], service["topology_template"]["outputs"]
        if "dataset: digits" not in text:
            del nodes["digits"]
    nodes.update(tree)
    for node in tree.values():
        if name := node.get("properties", {}).get("script"):
            script = folder.path / name
            script.parent.mkdir(parents=True, exist_ok=True)
            options = [f"parser.add_argument('--{each}')" for each in node["properties"].get("arguments", {})]
            script.write_text("\n".join(["import argparse", "parser = argparse.ArgumentParser()", *options, *PREPARED]))
    folder.service.write_text(yaml.safe_dump(service, sort_keys=False))


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[f"{name}:{block.line}" for name, block in BLOCKS])
def test_blocks_are_valid(name, block, blueprint):
    if block.text.startswith("# GitLab"):  # which reads it
        yaml.safe_load(block.text)
        return
    assert problems(block.text, blueprint) == []


@pytest.mark.parametrize(("name", "words"), SENTENCES, ids=[words for _, words in SENTENCES])
def test_sentences_are_valid(name, words, blueprint):
    (key, value) = next(iter(yaml.safe_load(words).items()))
    service = yaml.safe_load(SERVICE)
    service["topology_template"]["node_templates"]["training"]["properties"][key] = value
    blueprint.service.write_text(yaml.safe_dump(service, sort_keys=False))
    assert _of_blueprint(blueprint) == []


def test_there_is_something_to_look_at():
    assert len(BLOCKS) > 8
    assert SENTENCES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training: { type: modak.nodes.Training, properties: { scirpt: a.py, framework: pytorch } }", "scirpt"),
        ("frontend: login.example\nscheduler: slurm\nuserame: alice", "userame"),
        ("site: { properties: { rules: [ { name: a, wen: {} } ] } }", "wen"),
    ],
)
def test_wrong_ones_are_told(text, expected, blueprint):
    assert any(expected in each for each in problems(text, blueprint))
