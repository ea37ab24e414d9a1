"""Each mistake has one message, its place, its rule and a hint."""

from __future__ import annotations

import time

import pytest
from example_blueprint import SERVICE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import check_blueprint, plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.secret_rules import text_problem
from modak_ansible.reading.blueprint.reader import Inputs, read_blueprint
from modak_ansible.reading.blueprint.types import functions
from modak_ansible.store.project import find_blueprint
from modak_ansible.store.targets import target_file


def check(blueprint, **inputs):
    mistakes = Mistakes()
    given_inputs = Inputs(None, tuple((name, str(value)) for name, value in inputs.items()))
    check_blueprint(blueprint.service, given_inputs, mistakes)
    return [str(mistake).replace(f"{blueprint.service}", "service.yaml") for mistake in mistakes]


def test_the_example_is_right(blueprint):
    assert check(blueprint) == []


MISTAKES = [
    # the file
    ("tosca_definitions_version: tosca_simple_yaml_1_3", "tosca_definitions_version: tosca_2_0",
     "service.yaml:1:28: tosca-version: TOSCA version tosca_2_0 is not supported (use tosca_simple_yaml_1_3)"),
    ("tosca_definitions_version: tosca_simple_yaml_1_3", "a: b", "service.yaml:1:1: tosca-version: not a TOSCA file"),
    ("metadata:", "metadata: [", "yaml-syntax: not YAML"),
    ("types/modak.yaml", "types/modac.yaml",
     "service.yaml:7:5: import-missing: the imported file types/modac.yaml is not there (did you mean types/modak.yaml?)"),
    ("types/modak.yaml", "../../etc/passwd", "import must lie below the blueprint's folder"),
    ("topology_template:", "topology_templates:", "unknown-key: a service template has no topology_templates (did you mean topology_template?)"),
    # types, properties, enums
    ("imports:\n  - types/modak.yaml\n", "", "there is no node type modak.nodes.Slurm (imports: [ types/modak.yaml ])"),
    ("modak.nodes.Slurm", "modak.nodes.Slrum", "service.yaml:15:13: unknown-type: there is no node type modak.nodes.Slrum (did you mean modak.nodes.Slurm?)"),
    ("modak.nodes.Slurm", "slurm", "did you mean modak.nodes.Slurm?"),
    ("modak.nodes.Slurm", "modak.nodes.Target", "abstract-type"),
    ("framework: pytorch", "framwork: pytorch", "unknown-property: training has no property framwork (did you mean framework?)"),
    ("framework: pytorch", "framwork: pytorch", "missing-property: training needs the property framework"),
    ("numerics: same", "entry: pytorch-2.31-cpu", "service.yaml:44:32: cannot-plan: the catalogue has no entry pytorch-2.31-cpu (did you mean pytorch-2.13-cpu?)"),
    ("framework: pytorch", "framework: pytroch", "service.yaml:37:20: not-allowed-value: framework cannot be pytroch (did you mean pytorch?"),
    ("framework: pytorch", 'framework: mxnet\n        version: "2"', "service.yaml:38:18: cannot-plan: no build of mxnet fits (mxnet-1.6-pip"),
    ("numerics: same", "numerics: exact", "not-allowed-value: numerics cannot be exact"),
    ("numerics: same", "numeric: same", "unknown-property: optimisation has no property numeric (did you mean numerics?)"),
    ("username: alice", "username: 7", 'wrong-type: username must be text, and 7 without quotes is read as 7 (write "7")'),
    ("cores_per_process: 4", "cores_per_process: four", "wrong-type: cores_per_process must be a whole number"),
    ("cores_per_process: 4", "cores_per_process: 0", "out-of-range: cores_per_process must be at least 1, not 0"),
    ("cores_per_process: 4", "cores_per_process: 100000000000000000000", "cores_per_process must be at most 10000000"),
    ("numerics: same }", "numerics: same }\n        checkpoint: { evry: 60 }", "unknown-property: checkpoint has no property evry (did you mean every?)"),
    ("numerics: same }", "numerics: same }\n        checkpoint: { requeue: -1 }", "out-of-range: requeue must lie between 0 and 1000"),
    ("numerics: same }", "numerics: same }\n        checkpoint: { signal_before_wall: 1800 }",
     "service.yaml:45:43: cannot-plan: 1800 s before the end of the wall time is before the job begins: the wall time is 1800 s"),
    ("{ cores_per_process: 4 }", "{ cores: 4 }", "resources has no property cores (did you mean cores_per_process?)"),
    ("numerics: same }", "numerics: same }\n        job_options: { mail-user: a@b.de }",
     "job_options has no property mail-user (did you mean email_address?)"),
    ("memory: 16 GB", "memory: 16G", "wrong-type: memory is wrong: '16G' is not a size"),
    ("source: [ digits ]", "source: digits", "wrong-type: source must be a list ([ digits ])"),
    ("arguments:", "arguments: x\n        argments:", "wrong-type: arguments must be a mapping"),
    ("processor: { properties", "procesor: { properties", "unknown-capability: cluster has no capability procesor (did you mean processor?)"),
    ("scratch: { properties: { path: /scratch } }", "scratch: {}", "the capability scratch has no properties"),
    ("scratch: {", "network: { properties: { latency: 300 } }\n        scratch: {", "missing-key: the network has no bandwidth"),
    ("get_input: epochs", "get_input: epoch", "unknown-input: there is no input epoch (did you mean epochs?)"),
    ("{ type: integer, default: 2 }", "{ type: integer }", "missing-input: the input epochs has no value"),
    ("{ type: integer, default: 2 }", "{ type: integer, default: two }", "wrong-type: epochs must be a whole number"),
    ("get_attribute: [ training, job_id ]", "get_attribute: [ training, jobid ]", "training has no attribute jobid (did you mean job_id?)"),
    ("{ get_input: epochs }", "{ get_property: [ SELF, walltme ] }", "training gives no property walltme (did you mean walltime?)"),
    ("{ get_input: epochs }", "{ get_property: [ SELF, arguments, epochs ] }", "the value refers to itself"),
    ("{ get_input: epochs }", "{ get_attribute: [ cluster, private_address ] }", "get_attribute has a value only after the deployment"),
    # names of nodes
    ("    training:\n", '    "train:lr=1":\n', "node-name: train:lr=1 cannot be a node's name"),
    ("    training:\n", '    "tr\\e]0;owned\\a":\n', "node-name: 'tr\\x1b]0;owned\\x07' cannot be a node's name"),
    ("    training:\n", '    "":\n', "node-name: "),
    ("    training:\n", '    "-x":\n', "node-name: -x cannot"),
    # requirements
    ("        - dataset: digits\n", "        - dataset: digit\n", "requirement-target: there is no node digit (did you mean digits?)"),
    ("        - dataset: digits\n", "        - dataset: cluster\n", "cluster is a modak.nodes.Slurm, and dataset must be a modak.nodes.Dataset (valid: digits)"),
    ("        - dataset: digits\n", "        - data: digits\n", "unknown-requirement: training has no requirement data (did you mean dataset?)"),
    ("        - dataset: digits\n", "", "not-used: no training requires digits"),
    ("        - host: cluster\n        - dataset", "        - dataset", "missing-requirement: training needs the requirement host"),
    ("attributes: { public_address: frontend.example }", "attributes: {}", "missing-address: cluster has no public_address"),
    # resources
    ("cores_per_process: 4", "nodes: 5", "service.yaml:42:29: cannot-plan: 5 nodes are asked for, and the partition batch has 4 (ask for at most 4)"),
    ("cores_per_process: 4", "cores_per_process: 9", "9 cores a node are asked for, and the partition batch has 8"),
    ("cores_per_process: 4", "memory: 17 GB", "17 GB a node are asked for, and the partition batch has 16 GB"),
    ("cores_per_process: 4", "accelerators: 1", "service.yaml:42:36: cannot-plan: 1 accelerator a node is asked for, and the partition batch describes none "
     "(where its nodes have them, describe them: partitions: [ { name: batch, accelerators: 1 } ])"),
    ("{ cores_per_process: 4 }", "{ accelerators: 2 }\n        job_options: { queue: long }", "2 accelerators a node are asked for, and the partition long describes none"),
    ("cores_per_process: 4", "partition: bach", "cluster has no partition bach (did you mean batch?)"),
    ('walltime: "00:30:00"', 'walltime: "13:00:00"', "cannot-plan: 13:00:00 is longer than the 12:00:00 of the partition batch"),
    ("numerics: same", "threads: 5, strict: true", "5 threads are more than the 4 cores of a process"),
    ("numerics: same", "build: hub, strict: true", "its build is pip, and hub is asked for"),
    ("framework: pytorch", 'framework: pytorch\n        version: "1.5"', "version 2.13.0 is not 1.5"),
    ("framework: pytorch", 'framework: pytorch\n        version: "~~2"', "version: ~~2 is not a version or a range"),
    ("skylake_avx512", "power9le", "it needs x86_64, and the processor is power9le"),
    # wall times
    ('walltime: "00:30:00"', "walltime: 1:30:00", 'without quotes is read as 5400 (write "1:30:00")'),
    ('walltime: "00:30:00"', "walltime: 3600", '3600 without quotes is read as 3600 (write it quoted, as "HH:MM:SS"'),
    ('walltime: "00:30:00"', 'walltime: "30"', "walltime: '30' is not a wall time; write it quoted"),
    ('walltime: "00:30:00"', 'walltime: "1 day, 12:00:00"', "is not a wall time"),
    ('walltime: "00:30:00"', 'walltime: "24h"', "is not a wall time"),
    ('walltime: "12:00:00"', 'walltime: "12:00"', "walltime: '12:00' is not a wall time"),
    # files
    ("script: train/train.py", "script: train/tran.py", "file-not-found: there is no script train/tran.py"),
    ("script: train/train.py", "script: train/tran.py", "did you mean train/train.py?"),
    ("script: train/train.py", "script: ../train.py", "script-path"),
    # a name of which nothing is seen, as a template makes it of a variable that nobody has set
    ("script: train/train.py", 'script: ""', "file-not-found: there is no script '' in"),
    ("framework: pytorch", 'framework: " "', "framework cannot be ' ' (valid: any"),
    ("- host: cluster", '- host: ""', "there is no node '' (valid: cluster, digits, training)"),
    ("get_input: epochs", 'get_input: ""', "there is no input '' (valid: epochs)"),
    ("types/modak.yaml", '""', "the imported file '' is not there"),
    ("type: modak.nodes.Training", 'type: ""', "there is no node type ''"),
    ("skylake_avx512", '""', "'' is not a processor that archspec knows"),
    ("tosca_simple_yaml_1_3", '""', "TOSCA version '' is not supported"),
    ("source: [ digits ]", "source: [ no/such/folder ]", "file-not-found: there is no file or folder no/such/folder"),
    ("source: [ digits ]", "source: [ ~nobody0/data ]", "file-not-found: there is no file or folder ~nobody0/data"),
    ("source: [ digits ]", "source: [ digitz ]", "did you mean digits?"),
    ("source: [ digits ]", "source: [ train ]", "the folder train holds no IDX files"),
    ("source: [ digits ]", "source: [ https://example.org/data/ ]", "checksum: https://example.org/data/ is the address of a folder, and has no checksums"),
    ("name: mnist\n        source: [ digits ]", "name: cifar\n        source: [ published ]", "no addresses are known for the dataset cifar"),
    ("username: alice", "identity_file: keys/none", "file-not-found: there is no identity file keys/none"),
    ("username: alice", "identity_file: ~nobody0/key", "file-not-found: there is no identity file ~nobody0/key"),
    # what reaches a shell, a scheduler or ssh
    ("name: long", 'name: "long\\n#SBATCH --uid=0"', "unsafe-value"),
    ("name: long", "name: \"lo'ng\"", "unsafe-value: lo'ng cannot be a name"),
    ("name: long", 'name: "$(reboot)"', "unsafe-value: $(reboot) cannot be a name"),
    ("name: long", 'name: "long; reboot"', "unsafe-value: long; reboot cannot be a name"),
    ("cores_per_process: 4", 'partition: "a b"', "unsafe-value: a b cannot be a name"),
    ("template_name: example", 'template_name: "ex;ample"', "unsafe-value: ex;ample cannot be a name"),
    ("public_address: frontend.example", 'public_address: "-oProxyCommand=reboot"', "is not a host's name or address"),
    ("username: alice", 'username: "-l root"', "is not a user's name"),
    ("path: /scratch", 'path: "/scratch/$(reboot)"', "cannot be a path on the target"),
    ("path: /scratch", "path: scratch", "must be absolute, or begin with ~ or $NAME"),
    ("batch-size: 128", 'batch-size: "1\\n2"', "holds a line break"),
    ("batch-size: 128", "--batch-size: 128", "write it without dashes"),
    ("batch-size: 128", "batch-size: on", 'on is read as True (write "on" for the word, or true or false)'),
    ("batch-size: 128", 'data: "{dataset}"\n        environment: { "A-B": 1 }', "A-B cannot be the name of an environment variable"),
    ("framework: pytorch", 'framework: pytorch\n        requirements_txt: [ "--index-url=http://x" ]', "is not a Python requirement"),
    ("framework: pytorch", "framework: pytorch\n        requirements_txt: [ requirements.txt ]", "requirement: requirements.txt is a file, not a package: give its lines"),
    ("framework: pytorch", 'framework: pytorch\n        requirements_txt: [ "six==1.17.0 --hash=sha256:12 --pre" ]', "a hash is --hash=sha256: and 64 hexadecimal digits"),
    ("framework: pytorch", f'framework: pytorch\n        requirements_txt: [ "six>=1.17 --hash=sha256:{"a" * 64}" ]', "six>=1.17: what has a hash needs its version"),
    ("framework: pytorch", 'framework: pytorch\n        outputs: [ "../secret" ]', "must be a path below the script's folder"),
    ("scratch: { properties", 'site: { properties: { gpu_request: "--gres=gpu:2" } }\n        scratch: { properties', "does not say where the {count} goes"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES, ids=[str(i) for i in range(len(MISTAKES))])
def test_mistake(blueprint, old, new, expected):
    found = check(blueprint.replace(old, new))
    assert any(expected in line for line in found), "\n".join(found)


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ("[ { in_rnge: [ 1, 3 ] } ]", "constraint: there is no constraint in_rnge (did you mean in_range?)"),
        ("[ { in_range: 3 } ]", "constraint: in_range of epochs must be two numbers"),
        ("[ { in_range: [ 1 ] } ]", "constraint: in_range of epochs must be two numbers"),
        ("[ { in_range: [ ~, b ] } ]", "constraint: in_range of epochs must be two numbers"),
        ("[ { valid_values: 3 } ]", "constraint: valid_values of epochs must be a list"),
        ('[ { pattern: "[" } ]', "constraint: pattern of epochs must be a regular expression"),
        ("{ in_range: [ 1, 3 ] }", "constraint: the constraints of epochs must be a list"),
        ("[ in_range ]", "constraint: a constraint of epochs must be a mapping"),
        ("[ { equal: 4 } ]", "out-of-range: epochs must be 4, not 12"),
        ("[ { in_range: [ UNBOUNDED, 3 ] } ]", "out-of-range: epochs must lie between UNBOUNDED and 3, not 12"),
        ("[ { in_range: [ 1, UNBOUNDED ] } ]", ""),
        ("[ { in_range: [ 1 GB, 3 GB ] } ]", ""),
        ("[ { greater_than: 1 }, { length: 7 } ]", ""),
    ],
)  # fmt: skip
def test_constraints_are_kept_to_or_told(blueprint, constraints, expected):
    blueprint.replace("integer, default: 2 }", f"integer, default: 12, constraints: {constraints} }}")
    found = check(blueprint)
    assert bool(found) == bool(expected)
    assert expected in "\n".join(found)


def test_lengths_are_constraints(blueprint):
    blueprint.replace(
        "default: 2 }", "default: 2 }\n    a: { type: string, default: abc, constraints: [ { min_length: 4 } ] }"
    )
    assert "a must have at least 4 elements or characters, not 3" in "\n".join(check(blueprint))


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("capabilities: [ site ]", "wrong-type: the capabilities of cluster must be a mapping"),
        ("capabilities: { site: { account: foo } }", "missing-property: the capability site has no properties"),
        ("capabilities: { site: foo }", "missing-property: the capability site has no properties"),
        (
            "capabilities: { site: { properties: [ account ] } }",
            "the properties of the capability site must be a mapping",
        ),
        ("attributes: [ public_address ]", "wrong-type: the attributes of cluster must be a mapping"),
    ],
)
@pytest.mark.parametrize("target", ["", "local"])
def test_what_is_no_mapping_is_told_whatever_target_file_is_laid_over_it(blueprint, section, expected, target):
    text = blueprint.service.read_text()
    start, end = text.index("    cluster:\n"), text.index("    digits:\n")
    text = f"{text[:start]}    cluster:\n      type: modak.nodes.Slurm\n      {section}\n{text[end:]}"
    blueprint.service.write_text(text.replace("metadata:\n", f"metadata:\n  target: {target}\n") if target else text)
    found = "\n".join(check(blueprint))
    assert expected in found
    assert "tosca-parser" not in found


@pytest.mark.parametrize(
    "notation", ["- modak: types/modak.yaml", "- modak: { file: types/modak.yaml }", "- { file: types/modak.yaml }"]
)
def test_an_import_may_have_a_name(blueprint, notation):
    assert check(blueprint.replace("  - types/modak.yaml\n", f"  {notation}\n")) == []


def test_a_target_file_is_not_blamed_for_types_that_are_not_there(blueprint):
    blueprint.replace("metadata:\n", "metadata:\n  target: local\n").replace("types/modak.yaml", "types/modac.yaml")
    assert not any("unknown-input" in each for each in check(blueprint))


def test_every_mistake_is_reported_at_once(blueprint):
    blueprint.replace("framework: pytorch", "framwork: pytorch").replace("modak.nodes.Slurm", "modak.nodes.Slrum")
    blueprint.replace('walltime: "00:30:00"', 'walltime: "30"').replace("numerics: same", "numerics: exact")
    rules = {line.split(": ")[1] for line in check(blueprint)}
    assert {"unknown-property", "missing-property", "unknown-type", "walltime", "not-allowed-value"} <= rules


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("type: modak.nodes.Slurm", "type: modak.nodes.Slrum"),  # and not that the requirements lead to the wrong type
        ("public_address: frontend.example", "public_address: [ a ]"),  # and not that there is none
        ("architecture: skylake_avx512", "architecture: skylake_avx521"),
    ],
)
def test_one_mistake_is_reported_once(blueprint, old, new):
    found = check(blueprint.replace(old, new))
    assert len(found) == 1, "\n".join(found)


def test_an_address_that_an_input_leaves_out_is_missing(blueprint):
    blueprint.replace("public_address: frontend.example", "public_address: { get_input: where }")
    (found,) = check(blueprint.replace("  inputs:\n", "  inputs:\n    where: { type: string, required: false }\n"))
    assert "missing-address: cluster has no public_address" in found


def test_imports_in_a_circle(blueprint):
    head = "tosca_definitions_version: tosca_simple_yaml_1_3\nimports: [ %s ]\n"
    (blueprint.path / "a.yaml").write_text(head % "b.yaml")
    (blueprint.path / "b.yaml").write_text(head % "a.yaml")
    blueprint.replace("  - types/modak.yaml\n", "  - types/modak.yaml\n  - a.yaml\n  - types/modak.yaml\n")
    found = check(blueprint)
    assert len(found) == 1
    assert "b.yaml:2:12: import-loop: a.yaml imports this file in turn" in found[0]


def test_a_script_beside_the_blueprint_takes_nothing_of_the_blueprint_along(blueprint):
    (blueprint.path / "train" / "train.py").rename(blueprint.path / "train.py")
    (blueprint.path / "roles" / "job").mkdir(parents=True)
    (blueprint.path / "roles" / "job" / "main.yml").write_text("x")
    (blueprint.path / "helpers.py").write_text("x")
    planned = plan_blueprint(blueprint.replace("script: train/train.py", "script: train.py").service, Inputs())
    assert [file.path for file in planned.plan.application.files] == ["train.py"]
    assert [file.path for file in planned.plan.beside] == ["helpers.py"]


def test_all_that_is_wrong_of_a_target_is_reported(blueprint):
    blueprint.replace("frontend.example", "a b").replace("username: alice", 'username: "x;rm"')
    found = check(blueprint)
    assert "a b is not a host's name or address" in found[0]
    assert "x;rm is not a user's name" in found[1]


@pytest.mark.parametrize(("port", "more"), [("", "username: bob"), (":2222", "username: bob, port: 2222")])
def test_a_user_at_a_host_is_said_in_two_words(blueprint, port, more):
    blueprint.replace("frontend.example", f"bob@frontend.example{port}")
    (found,) = check(blueprint)
    assert f"bob@frontend.example{port} is more than a host: write frontend.example here, and {more}" in found


def test_a_blueprint_with_a_mistake_is_not_planned(blueprint):
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(blueprint.replace("numerics: same", "numerics: exact").service, Inputs())
    assert caught.value.exit_code == 3
    assert "service.yaml:44:35: not-allowed-value" in str(caught.value)


def test_accelerators_that_are_described_as_the_hint_says_are_planned(blueprint):
    blueprint.replace("cores_per_process: 4", "accelerators: 2").replace("numerics: same", "entry: pytorch-2.13-cuda")
    assert "accelerators: 2 } ]" in check(blueprint)[0]
    blueprint.replace("name: long", "name: long, accelerators: 2")
    assert "(partition: long has them)" in check(blueprint)[0]
    assert check(blueprint.replace("name: batch", "name: batch, accelerators: 2")) == []


def test_a_machine_without_partitions_is_told_where_accelerators_are_described(blueprint):
    blueprint.replace("cores_per_process: 4", "accelerators: 1").replace("modak.nodes.Slurm", "modak.nodes.Host")
    blueprint.replace("numerics: same", "entry: pytorch-2.13-cuda")
    text = blueprint.service.read_text()
    lines = [line for line in text.splitlines() if not line.strip().startswith(("- { name", "partitions:"))]
    blueprint.service.write_text("\n".join(lines) + "\n")
    [found] = check(blueprint)
    assert "cluster describes none" in found
    assert "capabilities: { accelerator: { properties: { count: 1 } } }" in found
    assert (
        check(blueprint.replace("processor: {", "accelerator: { properties: { count: 1 } }\n        processor: {"))
        == []
    )


def test_every_impossible_resource_is_reported(blueprint):
    blueprint.replace("cores_per_process: 4", "nodes: 9, cores_per_process: 99, memory: 99 GB")
    assert len(check(blueprint.replace('walltime: "00:30:00"', 'walltime: "99:00:00"'))) == 5


def test_inputs_are_checked_where_they_are_given(blueprint, tmp_path):
    inputs = tmp_path / "inputs.yaml"
    inputs.write_text("epoch: 3\nepochs: many\n")
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(inputs), mistakes)
    found = [str(mistake) for mistake in mistakes]
    assert any(line.startswith(f"{inputs}:1:1: unknown-input: the blueprint has no input epoch") for line in found)
    assert any(line.startswith(f"{inputs}:2:9: wrong-type: epochs must be a whole number") for line in found)
    assert "--input epochs: wrong-type" in check(blueprint, epochs="many")[0]


def test_a_missing_inputs_file_and_a_missing_blueprint(blueprint, tmp_path):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(tmp_path / "none.yaml"), mistakes)
    check_blueprint(tmp_path / "none", Inputs(), mistakes)
    found = "\n".join(map(str, mistakes))
    assert "none.yaml: file-unreadable: cannot be read: No such file or directory" in found
    assert "file-not-found: there is no such blueprint" in found


def test_a_target_file_is_told_as_such(tmp_path):
    site, mistakes = tmp_path / "site.yaml", Mistakes()
    site.write_text("scheduler: slurm\nfrontend: a.example\n")
    check_blueprint(site, Inputs(), mistakes)
    told = f"{site}:1:1: tosca-version: this is a target file, not a blueprint (give a blueprint or a script, and this"
    (line,) = map(str, mistakes)
    assert line.startswith(told)


def test_a_folder_with_other_names_says_them(blueprint):
    blueprint.service.rename(blueprint.path / "mine.yml")
    mistakes = Mistakes()
    check_blueprint(blueprint.path, Inputs(), mistakes)
    (line,) = map(str, mistakes)
    assert line.endswith(f"there is no such file (give {blueprint.path / 'mine.yml'})")


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (["a.py"], "there is no such file (give what modak init {}/a.py writes)"),
        (["a.py", "b.yaml"], "there is no such file (give {0}/b.yaml or what modak init {0}/a.py writes)"),
        ([], "there is no such blueprint (give the folder of a blueprint or its service.yaml)"),
    ],
)
def test_a_folder_with_scripts_says_how_one_becomes_a_blueprint(tmp_path, names, hint):
    for name in names:
        (tmp_path / name).touch()
    for path in (tmp_path, find_blueprint(str(tmp_path))):
        mistakes = Mistakes()
        check_blueprint(path, Inputs(), mistakes)
        (line,) = map(str, mistakes)
        assert line.endswith(hint.format(tmp_path))


def test_what_only_tosca_parser_sees_has_a_place_too(blueprint):
    blueprint.replace(
        "type: modak.nodes.Dataset",
        "type: modak.nodes.Dataset\n      interfaces: { Standard: { operations: { creat: x } } }",
    )
    found = check(blueprint)
    assert any("tosca-parser: " in line and line.startswith("service.yaml:") for line in found), found


def test_a_blueprints_own_types_take_part(blueprint):
    blueprint.replace(
        "topology_template:",
        "node_types:\n  acme.nodes.Cluster:\n    derived_from: modak.nodes.Slurm\n    properties:\n"
        "      rack: { type: string, default: a1 }\n\ntopology_template:",
    ).replace("type: modak.nodes.Slurm", "type: acme.nodes.Cluster")
    assert check(blueprint) == []
    assert (
        "cluster has no property racks (did you mean rack?)"
        in check(blueprint.replace("username: alice", "racks: b2"))[0]
    )


def test_functions_are_resolved(blueprint):
    blueprint.replace("username: alice", "username: { concat: [ al, ice ] }")
    blueprint.replace(
        "batch-size: 128",
        'copy: { get_property: [ cluster, username ] }\n          third: { token: [ "a-b", "-", 1 ] }',
    )
    mistakes = Mistakes()
    found = read_blueprint(blueprint.service, Inputs(None, (("epochs", "5"),)), mistakes)
    mistakes.raise_if_any()
    assert found.targets["cluster"].username == "alice"
    assert found.requests[0].application.arguments == (("epochs", "5"), ("copy", "alice"), ("third", "b"))


def test_a_property_by_default_and_one_of_a_capability_have_values_too(blueprint):
    paths = {
        "default": "cluster, container_runtime",
        "given": "cluster, scratch, path",
        "theirs": "cluster, scratch, sharing",
    }
    copies = (f"{name}: {{ get_property: [ {path} ] }}" for name, path in paths.items())
    blueprint.replace("batch-size: 128", "\n          ".join(copies))
    mistakes = Mistakes()
    found = read_blueprint(blueprint.service, Inputs(), mistakes)
    mistakes.raise_if_any()
    values = {"default": "any", "given": "/scratch", "theirs": "shared"}
    assert dict(found.requests[0].application.arguments[1:]) == values


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40), key=st.sampled_from(["username", "walltime", "script", "framework", "name"]))
def test_any_text_anywhere_is_taken_or_refused_with_a_place(blueprint, text, key):
    import json

    lines = [
        f"{line.partition(':')[0]}: {json.dumps(text)}" if line.strip().startswith(f"{key}:") else line
        for line in SERVICE.splitlines()
    ]
    blueprint.service.write_text("\n".join(lines) + "\n")
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    assert all(mistake.location.path and mistake.rule for mistake in mistakes)


def test_functions_of_functions_cannot_explode(blueprint, monkeypatch):
    """Six lines that stand for 640 MB: as many values as are permitted take two seconds, a tenth of them shows it."""
    monkeypatch.setattr(functions, "_MAX_VALUES", functions._MAX_VALUES // 10)
    lines = ["a0: 0123456789"]
    for number in range(6):
        again = ", ".join([f"{{ get_property: [ SELF, arguments, a{number} ] }}"] * 20)
        lines.append(f"a{number + 1}: {{ concat: [ {again} ] }}")
    blueprint.replace("arguments:\n", "arguments:\n" + "".join(f"          {line}\n" for line in lines))
    began = time.monotonic()
    [mistake] = [each for each in check(blueprint) if "result from the blueprint's functions" in each]
    assert "function: more than" in mistake
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("text", ["a" * 200_000, "a=" * 100_000, "://" + "a" * 200_000, "a_" * 100_000])
def test_a_long_text_is_read_in_no_time(text):
    began = time.monotonic()
    assert not text_problem(text)
    assert time.monotonic() - began < 5


def warnings_of(blueprint):
    found = Mistakes()
    check_blueprint(blueprint.service, Inputs(), Mistakes(), found)
    return [str(each).replace(f"{blueprint.service}", "service.yaml") for each in found]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("parallel: 3", "not-used: parallel is set for training, which is a single training"),
        ('files: [ "nothing*.py" ]', "not-used: no file beside the script is named nothing*.py"),
        (
            'job_options: { gres: "gpu:a100:2" }',
            "contradiction: gres asks for GPUs that the plan does not take into account",
        ),
    ],
)
def test_what_says_nothing_is_told(more, words, blueprint):
    assert warnings_of(blueprint) == []
    blueprint.replace("numerics: same }", f"numerics: same }}\n        {more}")
    (warning,) = warnings_of(blueprint)
    assert words in warning
    assert warning.startswith("service.yaml:45:")


@pytest.mark.parametrize("said", ["{ properties: { name: d } }", "modak.nodes.Dataset", ""])
@pytest.mark.parametrize("kind", ["dataset", "image"])
def test_what_is_required_and_is_no_node(kind, said, blueprint):
    text = blueprint.service.read_text()
    text = text.replace("    training:\n", f"    odd: {said}\n    training:\n", 1)
    blueprint.service.write_text(text.replace("- dataset: digits", f"- {kind}: odd", 1))
    assert any(": the node odd " in each for each in check(blueprint))


def test_a_member_of_a_group_that_is_not_there_has_its_place(blueprint):
    group = "  groups:\n    all: { type: tosca.groups.Root, members: [ training, nosuch ] }\n  node_templates:"
    blueprint.replace("  node_templates:", group)
    (message,) = check(blueprint)
    assert message.startswith("service.yaml:")
    assert not message.startswith("service.yaml:1:1:"), message


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('outputs: "%"', "outputs must be a mapping"), ("outputs: { end: when }", "end in outputs must be a mapping"),
        ("groups: [ training ]", "groups must be a mapping"), ("groups: { all: training }", "all in groups must be a mapping"),
    ],
)  # fmt: skip
def test_sections_of_another_shape(section, words, blueprint):
    blueprint.replace("  node_templates:", f"  {section}\n  node_templates:")
    assert any(f"wrong-type: {words}" in each and not each.startswith("service.yaml:1:1") for each in check(blueprint))


@pytest.mark.parametrize("partitions", ["batch", "[ { name: batch, cores: many } ]"])
def test_what_is_wrong_with_a_target_that_is_replaced_is_in_nobody_s_way(partitions, blueprint):
    written = blueprint.service.read_text()
    begin, end = written.index("        partitions:"), written.index("      capabilities:")
    blueprint.service.write_text(f"{written[:begin]}        partitions: {partitions}\n{written[end:]}")
    assert check(blueprint)
    mistakes = Mistakes()
    assert check_blueprint(blueprint.service, Inputs(targets=target_file("local")), mistakes)
    assert not [*mistakes]


def test_an_input_that_is_a_string_is_taken_as_it_is_written(blueprint):
    blueprint.replace("    epochs: {", "    limit: { type: string, default: '00:20:00' }\n    epochs: {")
    blueprint.replace('walltime: "00:30:00"', "walltime: { get_input: limit }")
    assert check(blueprint, limit="00:50:00") == []
    (plan,) = check_blueprint(blueprint.service, Inputs(None, (("limit", "00:50:00"),)), Mistakes())
    assert plan.job.walltime == 3000


def test_a_script_that_uses_an_accelerator_which_nobody_asks_for_is_told_how(blueprint):
    """Only where the target has some, and until somebody says how many, be it none."""
    script = blueprint.path / "train" / "train.py"
    script.write_text(script.read_text() + 'if False:\n    place = "cuda"\n')
    line = len(script.read_text().splitlines())

    def told():
        mistakes, warnings = Mistakes(), Mistakes()
        check_blueprint(blueprint.service, Inputs(), mistakes, warnings)
        assert not list(mistakes)
        return [str(each) for each in warnings if "accelerator" in each.message]

    assert told() == []
    blueprint.replace("name: batch,", "name: batch, accelerators: 4,")
    (only,) = told()
    assert f"not-used: train.py:{line} has 'cuda', and the job asks for no accelerator of cluster's" in only
    assert "(resources: { accelerators: 1 }, or 0 where none is wanted)" in only
    blueprint.replace("numerics: same", "entry: pytorch-2.13-cpu")  # which could use none
    assert told() == []
    blueprint.replace("entry: pytorch-2.13-cpu", "numerics: same").replace("cores_per_process: 4", "accelerators: 0")
    assert told() == []
