"""What the benchmark of deployments runs on a target calls what is there: it kept names of before."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path

import modak_ansible
from modak_ansible.target.images.image import ImageStore

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_the_bare_build_is_of_the_code_as_it_is(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("deploy_time", BENCHMARKS / "deploy_time.py")
    deploy_time = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(deploy_time)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "argv", ["-c", str(Path(modak_ansible.__file__).parent)])
    names = {}
    try:
        exec(deploy_time.BARE_BUILD.partition("plan = ")[0], names)
        assert list(inspect.signature(names["Bare"]._run).parameters) == list(
            inspect.signature(ImageStore._run).parameters
        )
        assert names["find_runtime"].__module__ == "modak.target.core.container"
    finally:
        for name in set(sys.modules) - before:
            del sys.modules[name]
