"""The blueprints and types that ship are right, in tosca-parser as in our own eyes."""

from __future__ import annotations

import pytest
import yaml

from modak_ansible.model.application import Optimisation, Resources
from modak_ansible.model.rule import Conditions, Effects, Rule
from modak_ansible.model.target import Accelerator, Partition, Processor, Site
from modak_ansible.planning.service import check_blueprint, plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs

BLUEPRINTS = (
    "digits-sklearn-slurm",
    "mnist-pytorch-local",
    "mnist-pytorch-slurm",
    "mnist-pytorch-torque",
    "mnist-tensorflow-slurm",
)


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_blueprint(root, name):
    folder = root / "tosca" / "blueprints" / name
    mistakes = Mistakes()
    assert len(check_blueprint(folder / "service.yaml", Inputs(), mistakes)) == 1
    assert [str(mistake) for mistake in mistakes] == []
    assert (folder / "README.md").read_text().strip()


def test_all_blueprints_are_tested(root):
    assert {path.parent.name for path in (root / "tosca" / "blueprints").glob("*/service.yaml")} == set(BLUEPRINTS)


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_the_same_input_gives_the_same_bytes(root, name):
    path = root / "tosca" / "blueprints" / name / "service.yaml"
    assert (
        plan_blueprint(path, Inputs()).plan.model_dump_json() == plan_blueprint(path, Inputs()).plan.model_dump_json()
    )


@pytest.mark.parametrize(
    ("file", "section", "name", "model", "renamed"),
    [
        ("capabilities", "data_types", "modak.datatypes.Partition", Partition, {}),
        ("capabilities", "capability_types", "modak.capabilities.Processor", Processor, {}),
        ("capabilities", "capability_types", "modak.capabilities.Accelerator", Accelerator, {}),
        ("capabilities", "capability_types", "modak.capabilities.Site", Site, {}),
        ("capabilities", "data_types", "modak.datatypes.Rule", Rule, {}),
        ("capabilities", "data_types", "modak.datatypes.Conditions", Conditions, {}),
        ("capabilities", "data_types", "modak.datatypes.Effects", Effects, {}),
        ("trainings", "data_types", "modak.datatypes.Optimisation", Optimisation, {"only_tune"}),  # modak tune sets it
        ("trainings", "data_types", "modak.datatypes.Resources", Resources, {"walltime"}),
    ],
)
def test_types_and_model_have_the_same_words(root, file, section, name, model, renamed):
    types = yaml.safe_load((root / "tosca" / "types" / f"{file}.yaml").read_text())
    assert set(types[section][name]["properties"]) == set(model.model_fields) - set(renamed)
