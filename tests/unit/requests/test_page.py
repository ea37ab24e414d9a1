"""docs/requests.md: its examples are valid."""

from __future__ import annotations

import json

import pytest
from documented import Page

from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture(scope="module")
def page(root):
    return Page(root / "docs" / "requests.md")


def test_the_example_is_valid_without_a_warning(root):
    mistakes, warnings = Mistakes(), Mistakes()
    plans = check_blueprint(root / "docs" / "example" / "request.json", Inputs(), mistakes, warnings)
    assert (list(mistakes), list(warnings)) == ([], [])
    assert plans[0].image.entry.startswith("pytorch-2")
    assert plans[0].application.work.workload == "mnist_cnn"


def test_the_example_of_a_target_is_read(page, tmp_path, root):
    (text,) = (block.text for block in page.blocks if block.text.startswith("# targets.yaml"))
    (tmp_path / "targets.yaml").write_text(text)
    (tmp_path / "types").symlink_to(root / "tosca" / "types")
    (tmp_path / "train.py").write_text("")
    request = json.loads((root / "docs" / "example" / "request.json").read_text())
    request["job"]["target"] = {"name": "cluster"}
    request["job"]["application"]["executable"] = "train.py"
    (tmp_path / "request.json").write_text(json.dumps(request))
    mistakes = Mistakes()
    (plan,) = check_blueprint(tmp_path / "request.json", Inputs(), mistakes)
    assert plan.target.address == "login.cluster.example"
