"""A blueprint whose target is a machine of a cloud."""

from __future__ import annotations

import pytest
from example_blueprint import BlueprintFolder

from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs

CLOUD = """\
    cluster:
      type: modak.nodes.CloudHost
      properties:
        provider: aws
        region: eu-central-1
        flavor: c7i.2xlarge
        image: 136693071363/debian-12-amd64-*
        username: admin
        identity_file: id
        ssh_from: [ 198.51.100.0/24 ]
        price_per_hour: 0.34
        currency: EUR
        budget: 5.0
      capabilities:
        processor: { properties: { cores: 8, memory: 16 GB, architecture: skylake_avx512 } }
"""


@pytest.fixture
def clouded(tmp_path):
    made = BlueprintFolder(tmp_path / "clouded")
    text = made.service.read_text()
    begin, end = text.index("    cluster:\n"), text.index("    digits:\n")
    made.service.write_text(text[:begin] + CLOUD + "\n" + text[end:])
    (made.path / "id").write_text("a private key\n")
    (made.path / "id.pub").write_text("ssh-ed25519 AAAAlogin alice\n")
    return made


@pytest.fixture
def planned():
    return lambda blueprint: plan_blueprint(blueprint.service, Inputs())
