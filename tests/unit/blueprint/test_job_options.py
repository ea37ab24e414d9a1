"""Job options as properties of a TOSCA training, and the form that requests share with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.model.job_options import JobComponent, JobOptions
from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.reading.blueprint.forms.forms import named_forms_of, plain_types
from modak_ansible.reading.blueprint.job_options import ComponentForm, JobOptionsForm
from modak_ansible.reading.blueprint.reader import Inputs


def with_options(blueprint, text):
    return blueprint.replace('        walltime: "00:30:00"\n', f"        job_options: {{ {text} }}\n")


def test_they_reach_the_job(blueprint):
    with_options(
        blueprint,
        'wall_time_limit: "1-12:00:00", queue: long, memory_limit: 4 GB, copy_environment_variable: "A, B=2", '
        "request_event_notification: ba, email_address: alice@example.org",
    )
    options = request_of(blueprint.service, Inputs()).job_options
    assert options.copy_environment_variable == ("A", "B=2")
    assert options.request_event_notification == ("abort", "begin")
    script = plan_blueprint(blueprint.service, Inputs()).plan.job.script
    for directive in ("--time=1-12:00:00", "--partition=long", "--mem=3815M", "--mail-type=FAIL,BEGIN"):
        assert f"#SBATCH {directive}\n" in script


def test_a_job_goes_to_whichever_partition_is_free_first(blueprint):
    blueprint.replace(
        "resources: { cores_per_process: 4 }", 'resources: { cores_per_process: 4, partition: "long,batch" }'
    )
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    assert plan.job.partition == "long,batch"
    assert "#SBATCH --partition=long,batch\n" in plan.job.script
    blueprint.replace('walltime: "00:30:00"', 'walltime: "13:00:00"')
    with pytest.raises(InvalidBlueprint, match="is longer than the 12:00:00 of the partition batch"):
        plan_blueprint(blueprint.service, Inputs())


def test_an_account_of_a_kind_of_nodes_and_what_the_whole_job_needs(blueprint):
    with_options(blueprint, 'account: abc@v100, licenses: "scratch, matlab:2"')
    script = plan_blueprint(blueprint.service, Inputs()).plan.job.script
    assert "#SBATCH --account=abc@v100\n" in script
    assert "#SBATCH --licenses=scratch,matlab:2\n" in script


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'partition: "gpu, preempt"',
            "job_options.partition is refused: gpu, preempt cannot be where a job is sent: such as gpu,",
        ),
        ("queue: workq@", "job_options.queue is refused: workq@ cannot be where a job is sent"),
        ('account: "a b"', "job_options.account is refused: a b cannot be an account"),
        ('licenses: "a;b"', "job_options.licenses is refused: a;b is not a licence"),
        ("nodes: 2", "unknown-property: job_options has no property nodes (did you mean node_count?)"),
        ("node_count: 0", "node_count must be at least 1, not 0"),
        ('job_name: "a\\nb"', "job_options.job_name is refused"),
        ("email_address: nobody", "job_options.email_address is refused: nobody is not an address of mail"),
        ("memory_limit: 4", "memory_limit must be text, and 4 without quotes"),
    ],
)
def test_they_are_checked_where_they_stand(blueprint, text, said):
    with_options(blueprint, text)
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(blueprint.service, Inputs())
    assert said in str(caught.value)
    assert all(mistake.location.line == 43 for mistake in caught.value.mistakes)


def test_the_type_the_form_and_the_model_have_the_same_options(root: Path):
    types = yaml.safe_load((root / "tosca" / "types" / "trainings.yaml").read_text())["data_types"]
    properties = types["modak.datatypes.JobOptions"]["properties"]
    assert set(properties) == set(JobOptionsForm.model_fields) == set(JobOptions.model_fields)
    for name, field in JobOptionsForm.model_fields.items():
        kinds = set(plain_types(field.annotation))
        expected = "boolean" if bool in kinds else "integer" if int in kinds else "string"
        assert properties[name]["type"] == ("map" if named_forms_of(field.annotation) else expected), name
    assert set(types["modak.datatypes.JobComponent"]["properties"]) == set(ComponentForm.model_fields)
    assert {"name", *ComponentForm.model_fields} == set(JobComponent.model_fields)


def test_components_are_read_in_their_order_with_their_nodes_together(blueprint):
    with_options(blueprint, "components: { last: { memory_limit: 4 GB }, first: { node_count: 1, qos: long } }")
    options = request_of(blueprint.service, Inputs()).job_options
    assert [(each.name, each.stated) for each in options.components] == [
        ("last", {"node_count": 1, "memory_limit": 4 * 10**9}), ("first", {"node_count": 1, "qos": "long"}),
    ]  # fmt: skip
    assert options.node_count == 2


def test_a_component_that_is_not_to_be_had_is_told_where_it_stands(blueprint):
    blueprint.replace(
        '        walltime: "00:30:00"\n',
        "        job_options:\n          components:\n            a: { memory_limit: 1 GB }\n            b: { partition: nosuch }\n",
    )
    with pytest.raises(InvalidBlueprint, match=r"service\.yaml:46:\d+: cannot-plan: .* has no partition nosuch"):
        plan_blueprint(blueprint.service, Inputs())
    blueprint.replace("b: { partition: nosuch }", "b: { memory_limit: 900 GB }")
    with pytest.raises(InvalidBlueprint, match=r"service\.yaml:46:\d+: cannot-plan: b: 900 GB a node are asked for"):
        plan_blueprint(blueprint.service, Inputs())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("components: { a: {} }", "a heterogeneous job has 2 to 128 components, and not 1"),
        ("components: { a: {}, b: { node_count: 0 } }", "node_count must be at least 1, not 0"),
        (
            "components: { a: {}, b: { partitoin: x } }",
            "components.b has no property partitoin (did you mean partition?)",
        ),
        ("components: { a: {}, b: { memory_limit: 4 parsecs } }", "4 parsecs"),
        ('components: { a: {}, "b;c": {} }', "components"),
        ("components: [ {}, {} ]", "components must be a mapping of names to values"),
    ],
)
def test_components_are_checked_where_they_stand(blueprint, text, said):
    with_options(blueprint, text)
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(blueprint.service, Inputs())
    assert said in str(caught.value)
    assert all(mistake.location.line == 43 for mistake in caught.value.mistakes)


def test_shell_lines_of_the_users_are_part_of_the_job(blueprint):
    blueprint.replace(
        "        walltime:",
        "        pre_execution: [ export A=1 ]\n        post_execution: [ echo done ]\n        walltime:",
    )
    request = request_of(blueprint.service, Inputs())
    assert (request.application.pre_execution, request.application.post_execution) == (("export A=1",), ("echo done",))
    assert "export A=1" in plan_blueprint(blueprint.service, Inputs()).plan.job.script
    blueprint.replace("echo done", '"a\\nb"')
    with pytest.raises(InvalidBlueprint, match="holds a line break"):
        plan_blueprint(blueprint.service, Inputs())
