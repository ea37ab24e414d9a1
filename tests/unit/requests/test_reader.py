"""Files with requests: which they are, how they are written, and in which old ways."""

from __future__ import annotations

import json

import pytest

from modak_ansible.reading.requests.recognise import is_request

T = "optimisation/app_type-ai_training"
P = "optimisation/app_type-hpc"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", "job:\n  target: {}\n", True),
        ("a.yaml", "# mine\n'job': {}\n", True),
        ("a.yaml", "optimisation: {}\n", True),
        ("a.yaml", '{\n "job": {}}', True),
        ("a.json", "{}", True),
        ("a.json", "\ufeff{}", True),
        ("a.json", '{"tosca_definitions_version": "tosca_simple_yaml_1_3"}', False),
        ("a.yaml", "tosca_definitions_version: x\njob: {}\n", False),
        ("a.yaml", "a: 1\ntopology_template:\n  optimisation: {}\n", False),
        ("a.yaml", "", False),
    ],
)
def test_a_request_is_told_by_its_content(tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert is_request(path) is expected
    assert not is_request(tmp_path / "missing.json")


def test_a_blueprint_is_no_request(blueprint):
    assert not is_request(blueprint.service)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("target", {"name": "cluster", "queue_type": "slurm"}, "job.target.queue_type is an older spelling (write job_scheduler_type)"),
        ("target", {"name": "cluster", "job_scheduler_type": "SLURM"}, "'SLURM' is read as slurm"),
        (f"{T}/data/basedata", "mnist", "'mnist' is read as MNIST"),
        (f"{T}/config/ai_framework", "PyTorch", "'PyTorch' is read as pytorch"),
        (f"{T}/config/type", "reinforncement_learning", "reinforncement_learning is an older spelling (write reinforcement_learning)"),
        ("application/pre_execution", "true", "pre_execution is an older spelling (write pre-execution)"),
        ("job_options/node_count", "1", '"1" is read as 1 (write 1 without quotes)'),
        ("optimisation/enable_autotuning", "False", '"False" is read as false'),
    ],
)  # fmt: skip
def test_older_spellings_are_read_with_a_warning(training, field, value, said):
    training.set(field, value)
    request, mistakes, warnings = training.read()
    assert mistakes == []
    assert said in "\n".join(warnings)
    assert request is not None


def test_opencc_is_openacc(program):
    program.set(f"{P}", {"config": {"parallelisation": "opencc"}, "parallelisation-opencc": {"number_of_acc": 2}})
    program.set("application/container_runtime", "none").set("application/executable", "solver")
    program.set("application/mpi_ranks", None).set("job_options/partition", "gpu")
    hpc = program.request.application.hpc
    assert (hpc.parallelisation, hpc.accelerators) == ("openacc", 2)
    assert program.warnings.count("is an older spelling") == 2


def test_both_spellings_are_one_too_many(training):
    training.set("target", {"name": "cluster", "queue_type": "slurm", "job_scheduler_type": "slurm"})
    assert "job.target.job_scheduler_type is given twice, here as queue_type" in training.mistakes


def test_what_is_empty_is_not_given(training):
    for field in ("memory_limit", "copy_environment_variable", "job_dependency", "request_gpus"):
        training.set(f"job_options/{field}", " ")
    training.set("application/container_runtime", "").set("optimisation/opt_build", {"acc_type": "", "cpu_type": "x86"})
    request, mistakes, warnings = training.read()
    assert (mistakes, warnings) == ([], [])
    assert request.job_options.copy_environment_variable == ()


def test_a_number_is_text_where_text_is_wanted(training):
    path = training.path / "request.yaml"
    path.write_text(json.dumps(training.content).replace('"2.13"', "2.30"))
    training.file = path
    assert "no pytorch 2.30 (it has" in training.mistakes


def test_numbers_in_a_list_of_texts_are_texts(training):
    training.set("application/arguments", ["--epochs", 3, "--data", "{dataset}"])
    assert training.request.application.arguments == (("epochs", "3"), ("data", "{dataset}"))


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_what_is_no_number_is_none(training, number):
    path = training.path / "request.yaml"
    training.set("application/minimal_efficiency", 0.5)
    path.write_text(json.dumps(training.content).replace("0.5", number))
    training.file = path
    assert "job.application.minimal_efficiency must be a number" in training.mistakes


def test_twelve_hours_of_yaml_are_no_number_of_sixties(training):
    path = training.path / "request.yaml"
    path.write_text(json.dumps(training.content).replace('"36:00:00"', "36:00:00"))
    training.file = path
    assert training.request.resources.walltime == 36 * 3600


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"[]", "a request is a mapping"),
        (b"{}", "job is needed"),
        (b'{"job": {}', "a comma or } is missing"),
        ('{"job": "\u00e9"}'.encode("utf-16"), "not UTF-8 text at byte 0"),
        (b'{"job": "\xff"}', "not UTF-8 text at byte 9"),
        (b'{"job": {}}' + b" " * (9 << 20), "larger than 8 MiB"),
        (b'{"job": {}, "job": {}}', "job is given twice"),
        (b'{"job": null}', "job is needed"),
        (b'\xef\xbb\xbf{\t"job": {"jobs": 1}}', "job has no field jobs"),
    ],
)
def test_files_that_are_no_requests(training, content, said):
    training.file.write_bytes(content)
    assert said in training.mistakes


@pytest.mark.parametrize("word", ["no", "on", "Yes"])
def test_a_word_that_yaml_takes_for_a_truth_is_told_with_its_quotes(training, word):
    path = training.path / "request.yaml"
    training.set("job_options/queue", "???")
    path.write_text(json.dumps(training.content).replace('"???"', word))
    training.file = path
    assert f'(write "{word}" for the word)' in training.mistakes
