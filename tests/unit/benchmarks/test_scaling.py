"""The benchmark of data-parallel steps, as far as it needs no PyTorch; its network is made where root runs the tests."""

import argparse
import json
import os
import shutil
import subprocess

import pytest
from infrastructure import BENCHMARKS, module, run


@pytest.fixture
def scaling(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "scaling"))
    return module("scaling/scaling.py")


@pytest.fixture
def options():
    return argparse.Namespace(samples=5, compute=120.0, batch=64)


class Kept(list):
    def add(self, name, samples, **about):
        self.append((name, samples, about))


def test_what_a_probe_of_two_ranks_says():
    probing = module("shared/probing.py")
    kept, each = Kept(), 8e-9  # seconds a byte: of two ranks each sends half of the bytes twice
    probing.add_probe(kept, [[6e-4], [probing.MIDDLE * each + 1e-3], [probing.LARGE * each + 1e-3]], link="1gbit")
    found = {name: samples[0] for name, samples, about in kept if "bytes" not in about}
    assert found == {"latency": pytest.approx(3e-4), "bandwidth": pytest.approx(0.125)}
    assert all(about["backend"] == "gloo" and about["link"] == "1gbit" for _, _, about in kept)


def test_a_probe_without_a_slope_has_no_bandwidth():
    kept = Kept()
    module("shared/probing.py").add_probe(kept, [[6e-4], [2e-3], [1e-3]])
    assert "bandwidth" not in [name for name, _, _ in kept]


@pytest.mark.component
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "RANK is not set"),
        ({"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, "there are 3"),
    ],
)
def test_a_probe_of_gloo_refuses_what_is_not_two_ranks(tmp_path, variables, words):
    done = run("network/gloo.py", tmp_path / "metrics.json", **variables)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


def test_strong_scaling_shares_out_the_compute_and_each_measure_says_how_it_came_to_be(scaling, options):
    told = scaling.slept(options, 4, scaling.SETTINGS)
    assert {(about["scaling"], about["compute"], task["sleep"]) for task, about in told} == {
        ("weak", "slept 120 ms", 0.12),
        ("strong", "slept 30 ms", 0.03),
    }
    assert [task["setting"] for task, _ in scaling.slept(options, 1, ("none",))] == ["none"]
    assert {task["batch"] for task, _ in scaling.real(options, 2)} == {64, 32}
    assert len(scaling.real(options, 1)) == 1


@pytest.mark.component
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="namespaces need root and iproute2")
def test_nodes_reach_each_other_and_are_gone_afterwards(scaling):
    with scaling.namespaces.network(2) as net:
        words = [*net.enter(1), "ip", "-json", "route", "get", scaling.namespaces.address(0)]
        route = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        assert route[0]["dev"] == scaling.namespaces.INTERFACE
        name = net.name
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert name not in left


def test_who_is_not_root_is_told(scaling, monkeypatch, capsys):
    monkeypatch.setattr(scaling.namespaces.os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended, scaling.namespaces.network(2):
        pass
    assert ended.value.code == 2
    assert "by root alone" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["1gbit;x", "", "1,,2"])
def test_what_is_no_rate_is_refused(scaling, text):
    with pytest.raises(argparse.ArgumentTypeError):
        scaling.rates(text)
