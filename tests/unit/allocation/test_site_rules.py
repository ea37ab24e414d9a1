"""A site's rules: which apply, why, and what they make of a job."""

from __future__ import annotations

import subprocess

import pytest

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs

SCRATCH = "scratch: { properties: { path: /scratch } }"


def plan(blueprint):
    return plan_blueprint(blueprint.service, Inputs()).plan


def with_rules(blueprint, *rules):
    lines = "".join(f"              - {rule}\n" for rule in rules)
    return blueprint.replace(SCRATCH, f"site:\n          properties:\n            rules:\n{lines}        {SCRATCH}")


def choice(made):
    return next((choice for choice in made.choices if choice.name == "site_rules"), None)


def test_without_rules_nothing_is_said(blueprint):
    assert choice(plan(blueprint)) is None


def test_a_plan_lists_every_rule_with_its_reason(blueprint):
    with_rules(
        blueprint,
        "{ name: torch, when: { framework: [ jax, pytorch ], nodes: '<=2' }, then: { modules: [ torch/1 ] } }",
        "{ name: wide, when: { nodes: '>1' }, then: { modules: [ ucx/1.17 ] } }",
        "{ name: gpus, when: { accelerator: [ nvidia, amd ] }, then: { container_flags: [ --cleanenv ] } }",
        "{ name: all, then: { account: p-7, environment: { SITE: ours } } }",
    )
    made = plan(blueprint)
    told = choice(made)
    assert told.value == "torch, all"
    assert told.reason == "torch: framework is pytorch, nodes is 1; all: it is for every job"
    assert {rejected.value: rejected.reason for rejected in told.rejected} == {
        "none": "they are set by the site",
        "wide": "nodes is 1, not >1",
        "gpus": "accelerator is none, not nvidia or amd",
    }
    assert told.reaches == "job"
    assert made.job.account == "p-7"
    assert "module load torch/1" in made.job.script
    assert "ucx" not in made.job.script
    assert "    SITE=ours\n" in made.job.script


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        ("framework: [ tensorflow ]", False), ("app_type: [ ai_training ]", True), ("app_type: [ hpc, mpi ]", False),
        ("scheduler: [ slurm ]", True), ("scheduler: [ torque, none ]", False), ("partition: [ batch ]", True),
        ("partition: [ long ]", False), ("accelerator: [ none ]", True), ("nodes: '1'", True), ("nodes: '>=2'", False),
        ("processes: '<2'", True), ("container: true", True), ("container: false", False), ("mpi: false", True),
        ("mpi: true", False),
    ],
)  # fmt: skip
def test_conditions(blueprint, when, applies):
    with_rules(blueprint, f"{{ name: one, when: {{ {when} }}, then: {{ modules: [ some/1 ] }} }}")
    made = plan(blueprint)
    assert ("module load some/1" in made.job.script) is applies
    assert choice(made).value == ("one" if applies else "none")


@pytest.mark.parametrize(("asked", "applies"), [("batch", False), ("long", True), ("batch,long", True)])
def test_a_rule_of_a_partition_is_for_every_job_that_may_run_there(blueprint, asked, applies):
    with_rules(blueprint, "{ name: one, when: { partition: [ long ] }, then: { modules: [ some/1 ] } }")
    blueprint.replace(
        "resources: { cores_per_process: 4 }", f'resources: {{ cores_per_process: 4, partition: "{asked}" }}'
    )
    made = plan(blueprint)
    assert ("module load some/1" in made.job.script) is applies
    said = choice(made)
    assert f"partition is {asked}" in (said.reason + "".join(each.reason for each in said.rejected))


def test_a_rule_gives_a_partition_to_jobs_that_name_none_and_others_see_it(blueprint):
    with_rules(
        blueprint,
        "{ name: early, when: { partition: [ long ] }, then: { modules: [ long/1 ] } }",
        "{ name: place, when: { framework: [ pytorch ] }, then: { partition: long } }",
    )
    made = plan(blueprint)
    assert made.job.partition == "long"
    assert "module load long/1" in made.job.script
    blueprint.replace("{ cores_per_process: 4 }", "{ cores_per_process: 4, partition: batch }")
    made = plan(blueprint)
    assert made.job.partition == "batch"
    assert "module load long/1" not in made.job.script


def test_a_rule_names_the_launcher(blueprint):
    blueprint.replace("{ cores_per_process: 4 }", "{ nodes: 2 }\n        distributed_training: true")
    with_rules(blueprint, "{ name: start, when: { nodes: '>1' }, then: { launcher: /opt/site/launch -n 2 } }")
    assert '\n/opt/site/launch -n 2 bash "$deployment/state/rank.sh" "${command[@]}" &' in plan(blueprint).job.script


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["{ name: a, when: { framwork: [ pytorch ] }, then: { account: p } }"], "did you mean framework"),
        (["{ name: a, then: { module: [ x ] } }"], "did you mean modules"),
        (["{ name: a, when: { nodes: many }, then: { account: p } }"], "does not compare with a number"),
        (["{ name: a, when: { app_type: [ mpii ] }, then: { account: p } }"], "did you mean mpi"),
        (["{ name: a, then: { binds: [ 'a b' ] } }"], "is not a bind"),
        (["{ name: a, then: { container_flags: [ '--nv; reboot' ] } }"], "not one option"),
        (["{ name: a, then: { environment: { 'A B': c } } }"], "name of an environment variable"),
        (["{ name: a, then: { account: p } }", "{ name: a, then: { account: q } }"], "given twice"),
        (
            ["{ name: a, then: { account: p } }", "{ name: b, then: { account: q } }"],
            "contradict each other on the account",
        ),
        (
            ["{ name: a, then: { environment: { A: '1' } } }", "{ name: b, then: { environment: { A: '2' } } }"],
            "contradict",
        ),
        (["{ name: a, when: { partition: [ batch ] }, then: { partition: long } }"], "cannot choose the partition"),
        (["{ name: a, then: {} }"], "does nothing"),
        (["{ name: a, then: { launcher: 'mpirun -np {rank}' } }"], "{rank} is not a known number of a job: ranks"),
        (["{ name: a, then: { launcher: 'mpirun; reboot' } }"], "not a command with plain options"),
    ],
)
def test_bad_rules_are_refused_with_their_place(blueprint, rules, words):
    with pytest.raises(InvalidBlueprint, match=words) as caught:
        plan(with_rules(blueprint, *rules))
    assert "service.yaml:" in str(caught.value)


@pytest.mark.component
def test_what_a_rule_runs_before_and_after(blueprint, tmp_path):
    blueprint.replace("username: alice", "container_runtime: none").replace("modak.nodes.Slurm", "modak.nodes.Host")
    blueprint.replace(
        "        partitions:\n"
        '          - { name: batch, nodes: 4, cores: 8, memory: 16 GB, walltime: "12:00:00" }\n'
        '          - { name: long, nodes: 2, cores: 8, memory: 16 GB, walltime: "7-00:00:00" }\n', "",
    )  # fmt: skip
    with_rules(
        blueprint,
        "{ name: a, then: { pre: [ 'echo \"it is $UNSET set\"', 'export SEEN=yes' ], post: [ 'echo left with $MODAK_EXIT_CODE' ] } }",
    )
    run, output = run_script(plan(blueprint), tmp_path / "one", 'echo "seen $SEEN"; exit 3')
    assert run == 3
    assert output == "it is  set\nseen yes\nleft with 3\n"


@pytest.mark.component
def test_a_line_before_that_fails_ends_the_job(blueprint, tmp_path):
    blueprint.replace("username: alice", "container_runtime: none")
    with_rules(blueprint, "{ name: a, then: { pre: [ 'echo first; (exit 7)', 'echo second' ] } }")
    run, output = run_script(plan(blueprint), tmp_path / "one", "echo trained")
    assert (run, output) == (7, "first\n")


def run_script(made, workspace, code):
    """Runs a plan's script with a stand-in for Python; gives its exit code and output."""
    deployment = workspace / "deployments" / "one"
    (deployment / "code").mkdir(parents=True)
    (workspace / made.dataset.path).mkdir(parents=True)
    python = workspace / made.image.path / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/bash\n{code}\n")
    python.chmod(0o755)
    (deployment / "job.sh").write_text(made.job.script)
    places = {"SLURM_SUBMIT_DIR": str(deployment), "SLURM_JOB_ID": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "job.sh"], cwd=deployment, env=places, check=False)
    assert (deployment / "state" / "finished").read_text() == f"{done.returncode}\n"
    return done.returncode, (deployment / "output.log").read_text()
