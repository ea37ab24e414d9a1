"""A stage whose target is a folder of this machine and whose modules answer what a test has them answer."""

from __future__ import annotations

import pytest

from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.base import Stage
from modak_ansible.transport.ssh import Connection


@pytest.fixture
def make_stage(blueprint, tmp_path):
    def make(call, **more):
        planned = plan_blueprint(blueprint.service, Inputs())
        folder = planned.save(tmp_path / "deployments")
        said = []
        made = Stage(
            plan=planned.plan.model_dump(mode="json"), folder=folder, blueprint_folder=blueprint.path,
            connection=Connection(""), call=call, say=said.append, **more,
        )  # fmt: skip
        return made, said

    return make
