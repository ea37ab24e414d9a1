"""docs/requests.md: its examples are valid."""

from __future__ import annotations

import json

import pytest

from modak_ansible.blueprint.forms.mistakes import Mistakes
from modak_ansible.blueprint.reader import Inputs
from modak_ansible.planning.service import check_blueprint


@pytest.fixture(scope="module")
def page(root):
    return root / "docs" / "requests.md"


def test_the_example_is_valid_without_a_warning(root):
    mistakes, warnings = Mistakes(), Mistakes()
    plans = check_blueprint(root / "docs" / "example" / "request.json", Inputs(), mistakes, warnings)
    assert (list(mistakes), list(warnings)) == ([], [])
    assert plans[0].image.entry.startswith("pytorch-2")
    assert plans[0].application.work.workload == "mnist_cnn"


def test_the_example_of_a_target_is_read(page, tmp_path, root):
    text = page.read_text()
    block = text[text.index("    # targets.yaml") :]
    lines = [line[4:] for line in block[: block.index("\n\n## ")].splitlines()]
    (tmp_path / "targets.yaml").write_text("\n".join(lines))
    (tmp_path / "types").symlink_to(root / "tosca" / "types")
    (tmp_path / "train.py").write_text("")
    request = json.loads((root / "docs" / "example" / "request.json").read_text())
    request["job"]["target"] = {"name": "cluster"}
    request["job"]["application"]["executable"] = "train.py"
    (tmp_path / "request.json").write_text(json.dumps(request))
    mistakes = Mistakes()
    (plan,) = check_blueprint(tmp_path / "request.json", Inputs(), mistakes)
    assert plan.target.address == "login.cluster.example"
