"""A stage whose target is a folder of this machine and whose modules answer what a test has them answer."""

from __future__ import annotations

import pytest
from planned_once import planned_once

from modak_ansible.stages.base import Stage
from modak_ansible.transport.ssh import Connection


@pytest.fixture
def make_stage(blueprint, tmp_path):
    def make(call, **more):
        planned = planned_once(blueprint.service)
        folder = planned.save(tmp_path / "deployments")
        said = []
        made = Stage(
            plan=planned.plan.model_dump(mode="json"), folder=folder, blueprint_folder=blueprint.path,
            connection=Connection(""), call=call, say=said.append, **more,
        )  # fmt: skip
        return made, said

    return make
