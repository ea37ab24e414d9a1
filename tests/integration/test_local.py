"""Training on this machine: no cluster, no root, no container."""

from __future__ import annotations

import json

from cluster import modak


def test_the_local_blueprint(pytorch_python, tmp_path):
    """Its environment was made by the fixture; here it is used again, and by a project that asks for more."""
    inputs = ["--input", "mnist=[digits]", "--input", "epochs=1"]
    done = modak("deploy", "mnist-pytorch-local", *inputs, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["job"]["state"] == "COMPLETED"
    assert answer["metrics"]["accuracy"] > 0.8
    assert answer["stages"]["dataset"]["message"].startswith("drawn digits, not MNIST")
    again = json.loads(modak("deploy", "mnist-pytorch-local", *inputs, "--json").stdout)
    assert again["changed"] == 0
    assert modak("undeploy", "mnist-pytorch-local").returncode == 0
