"""What a plan decides, and what it says of it."""

from __future__ import annotations

import gzip
import json
import struct

import pytest
from measured import Measured

from modak_ansible.commands.plan.facts import facts_of
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.model.plan import digest_of
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import plan_blueprint, planned_from_file, request_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.sources.counting.samples import samples_in


def plan(blueprint, **inputs):
    return plan_blueprint(blueprint.service, Inputs(None, tuple(inputs.items()))).plan


def choices(made):
    return {choice.name: choice for choice in made.choices}


def test_a_plan_has_a_digest_over_everything(blueprint):
    made = plan(blueprint)
    assert made.digest == digest_of(made.model_dump(mode="json", exclude={"digest"}))
    assert made.deployment == f"example-{made.digest[:12]}"
    assert set(made.model_dump()) >= {"digest", "application", "target", "image", "dataset", "job", "choices"}


def test_whatever_is_asked_for_changes_the_digest(blueprint):
    first = plan(blueprint).digest
    assert plan(blueprint).digest == first
    assert plan(blueprint, epochs="3").digest != first
    (blueprint.path / "train" / "train.py").write_text("print('another training')\n")
    assert plan(blueprint).digest != first


def test_where_the_blueprint_lies_does_not_change_the_digest(blueprint, tmp_path):
    first = plan(blueprint).digest
    moved = blueprint.path.rename(tmp_path / "moved")
    assert plan_blueprint(moved / "service.yaml", Inputs()).plan.digest == first


def test_a_saved_plan_is_read_back_and_checked(blueprint, tmp_path):
    planned = plan_blueprint(blueprint.service, Inputs())
    folder = planned.save(tmp_path / "deployments")
    assert planned_from_file(folder / "plan.json").plan == planned.plan
    text = (folder / "plan.json").read_text()
    (folder / "plan.json").write_text(text.replace('"walltime": 1800', '"walltime": 1801'))
    with pytest.raises(Exception, match="was changed after it was planned"):
        planned_from_file(folder / "plan.json")
    (folder / "plan.json").write_text(text[:100])
    with pytest.raises(Exception, match="is not a plan"):
        planned_from_file(folder / "plan.json")


def test_a_plan_of_an_earlier_version_is_still_carried_out(blueprint, tmp_path):
    """What was deployed is to be undeployed, too, when plans have got a field more."""
    planned = plan_blueprint(blueprint.service, Inputs())
    path = planned.save(tmp_path / "deployments") / "plan.json"
    written = json.loads(path.read_text())
    del written["job"]["checkpoint"], written["digest"]
    path.write_text(json.dumps({**written, "digest": digest_of(written)}))
    assert planned_from_file(path).plan.job == planned.plan.job


def test_a_described_partition_is_asked_for(blueprint):
    """Its limits were looked at, so it is where the job has to go."""
    assert "#SBATCH --partition=batch" in plan(blueprint).job.script
    blueprint.replace("{ name: long,", "{ default: true, name: long,")
    assert "#SBATCH --partition=long" in plan(blueprint).job.script


def test_what_is_decided(blueprint):
    made = choices(make_plan(request_of(blueprint.service, Inputs()), model=Measured(allocator_tcmalloc=1.3)))
    assert made["image"].value == "pytorch-2.13-cpu"
    assert made["threads"].value == "4"
    assert made["allocator"].value == "tcmalloc"
    assert made["wait_policy"].value == "adaptive"
    assert made["staging"].value == "node-local"
    assert all(choice.reason for choice in made.values())


def test_the_environment_holds_what_was_decided(blueprint):
    made = make_plan(request_of(blueprint.service, Inputs()), model=Measured(allocator_tcmalloc=1.3))
    assert made.job.environment == {
        "OMP_NUM_THREADS": "4", "MODAK_CHOICES": "wait_policy=adaptive", "LD_PRELOAD": "libtcmalloc_minimal.so.4",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "name", "value"),
    [
        ("numerics: same", "allocator: system", "allocator", "system"),
        ("numerics: same", "wait_policy: active", "wait_policy", "active"),
        ("numerics: same", "threads: 2", "threads", "2"),
        ("numerics: same", "staging: shared", "staging", "shared"),
        ("cores_per_process: 4", "exclusive: true", "wait_policy", "stock"),
        ("cores_per_process: 4", "cores_per_process: 1", "wait_policy", "stock"),
        ("cores_per_process: 4", "cores_per_process: 8", "wait_policy", "stock"),
        ("cores_per_process: 4 }", "nodes: 2 }\n        distributed_training: true", "staging", "shared"),
        ("cores_per_process: 4 }", "processes_per_node: 4 }\n        distributed_training: true", "threads", "2"),
        ("scratch: { properties: { path: /scratch } }", "scratch: { properties: { path: /lustre, sharing: shared } }",
         "staging", "shared"),
        ("framework: pytorch", "framework: tensorflow", "allocator", "system"),
        ("framework: pytorch", "framework: tensorflow", "image", "tensorflow-2.21-cpu"),
        ("framework: pytorch", 'framework: pytorch\n        version: "2"', "image", "pytorch-2.13-cpu"),
        ("framework: pytorch", 'framework: pytorch\n        version: ">=2.10,<3"', "image", "pytorch-2.13-cpu"),
        ("username: alice", "container_runtime: none", "allocator", "system"),
    ],
)  # fmt: skip
def test_requests_are_followed(blueprint, old, new, name, value):
    assert choices(plan(blueprint.replace(old, new)))[name].value == value


def test_checkpoints_are_asked_of_the_scheduler_and_of_the_training(blueprint):
    assert plan(blueprint).job.checkpoint is None
    assert "MODAK_STOP" not in plan(blueprint).job.script
    made = plan(
        blueprint.replace("numerics: same }", "numerics: same }\n        checkpoint: { every: 60, requeue: 5 }")
    )
    assert made.job.checkpoint.model_dump() == {"every": 60, "signal_before_wall": 120, "requeue": 5}
    for line in ("#SBATCH --requeue", "#SBATCH --signal=B:USR1@120", "MODAK_CHECKPOINT_EVERY=60"):
        assert line in made.job.script
    assert dict(facts_of(made))["checkpoints"] == "every 1 min and 2 min before the wall; queued again up to 5 times"


def test_a_request_that_cannot_be_met_is_refused(blueprint):
    blueprint.replace("numerics: same", "staging: node-local, strict: true").replace(
        "scratch: { properties: { path: /scratch } }", ""
    )
    with pytest.raises(InvalidBlueprint, match="cluster has no node-local scratch"):
        plan(blueprint)


def test_a_given_image_is_used(blueprint):
    blueprint.replace(
        "    training:\n",
        "    mine:\n      type: modak.nodes.Image\n      properties: { source: 'docker://acme/torch:1', python: python3.12 }\n"
        "      requirements:\n        - host: cluster\n\n    training:\n",
    ).replace("        - dataset: digits\n", "        - dataset: digits\n        - image: mine\n")
    made = plan(blueprint)
    assert [layer.kind for layer in made.image.layers] == ["pull"]
    assert made.image.python == "python3.12"
    assert made.image.definition == "Bootstrap: docker\nFrom: acme/torch:1\n"
    assert choices(made)["allocator"].value == "system"


def test_more_requirements_are_a_layer_on_top(blueprint):
    plain = plan(blueprint)
    more = plan(blueprint.replace("framework: pytorch", "framework: pytorch\n        requirements_txt: [ 'rich>=13' ]"))
    assert [layer.digest for layer in more.image.layers[:2]] == [layer.digest for layer in plain.image.layers]
    assert "rich>=13" in more.image.layers[2].definition


@pytest.mark.parametrize(
    ("new", "place", "processes"),
    [
        ("resources: { nodes: 2 }", r"42:29", 2),
        ("resources: { processes_per_node: 4 }", r"42:42", 4),
        ("resources: { nodes: 2, processes_per_node: 2 }", r"42:29", 4),
        ("job_options: { node_count: 3 }", r"42:36", 3),
        ("job_options: { core_count: 8 }", r"42:36", 8),
    ],
)
def test_a_script_that_is_not_parallel_is_one_process(blueprint, new, place, processes):
    blueprint.replace("resources: { cores_per_process: 4 }", new)
    words = f"{processes} processes of train.py would each train the whole model and write the same metrics.json"
    with pytest.raises(
        InvalidBlueprint, match=rf"service\.yaml:{place}: cannot-plan: {words}.*distributed_training: true"
    ):
        plan(blueprint)
    blueprint.replace("framework: pytorch", "framework: pytorch\n        distributed_training: true")
    job = plan(blueprint).job
    assert job.nodes * job.processes_per_node == processes


def test_two_processes_are_started_by_the_launcher(blueprint):
    script = plan(
        blueprint.replace(
            "cores_per_process: 4 }", "cores_per_process: 4, nodes: 2 }\n        distributed_training: true"
        )
    ).job.script
    assert 'srun --kill-on-bad-exit=1 --cpus-per-task=4 bash "$deployment/state/rank.sh" "${command[@]}" &' in script


def test_prepare_makes_one_training_of_two_processes(blueprint):
    (blueprint.service.parent / "train" / "train.py").write_text("import modak_runtime\nmodak_runtime.prepare")
    alone = plan(blueprint).digest
    blueprint.replace("framework: pytorch", "framework: pytorch\n        distributed: { timeout: 60, interface: ib0 }")
    assert "strategy" not in choices(plan(blueprint))
    assert plan(blueprint).digest != alone
    made = plan(blueprint.replace("{ cores_per_process: 4 }", "{ nodes: 2 }"))
    told = choices(made)["strategy"]
    assert (told.value, told.stock, told.numerics) == ("ddp", "none", "reassociation")
    assert "modak_runtime.prepare makes the script data parallel" in told.reason
    script = made.job.script
    assert "export MODAK_STRATEGY=ddp MODAK_RENDEZVOUS_TIMEOUT=60" in script
    assert "ip -o -4 addr show dev ib0" in script
    assert 'MODAK_METRICS="$deployment/metrics.json"' not in script
    assert "CUDA_VISIBLE_DEVICES" not in script
    blueprint.replace("{ nodes: 2 }", "{ nodes: 2, accelerators: 2 }")
    blueprint.replace("optimisation: { numerics: same }", "optimisation: { entry: pytorch-2.13-cuda }")
    blueprint.replace(
        "        scratch: {", "        accelerator: { properties: { vendor: nvidia, count: 2 } }\n        scratch: {"
    )
    script = plan(blueprint).job.script
    assert '"${CUDA_VISIBLE_DEVICES:-0,1}"' in script
    assert "GLIBC_TUNABLES" not in script  # the node's memory is not the one that is short


def test_parameters_in_parts_are_neither_compiled_nor_reordered(blueprint):
    (blueprint.service.parent / "train" / "train.py").write_text("import modak_runtime\nmodak_runtime.prepare")
    blueprint.replace("framework: pytorch", "framework: pytorch\n        distributed: { strategy: fsdp }")
    blueprint.replace("numerics: same", "numerics: any")
    made = plan(blueprint.replace("{ cores_per_process: 4 }", "{ nodes: 2 }"))
    assert (choices(made)["strategy"].value, choices(made)["strategy"].numerics) == ("fsdp", "reassociation")
    assert "export MODAK_STRATEGY=fsdp" in made.job.script
    assert "MODAK_MEMORY_LIMIT" not in made.job.script
    for name, other in (("compiler", "inductor"), ("memory_format", "channels_last")):
        choice = choices(made)[name]
        (refused,) = [each for each in choice.rejected if each.value == other]
        assert "a rank of fsdp has only parts of the model's parameters" in refused.reason


@pytest.mark.parametrize(("strategy", "is_told"), [("fsdp", True), ("ddp", False)])
def test_ranks_with_parts_are_told_what_was_asked_for_each(blueprint, strategy, is_told):
    (blueprint.service.parent / "train" / "train.py").write_text("import modak_runtime\nmodak_runtime.prepare")
    blueprint.replace("framework: pytorch", f"framework: pytorch\n        distributed: {{ strategy: {strategy} }}")
    blueprint.replace("{ cores_per_process: 4 }", "{ nodes: 2, processes_per_node: 2, memory: 6 GiB }")
    script = plan(blueprint).job.script
    assert (f"MODAK_MEMORY_LIMIT={3 * 2**30}" in script) is is_told
    assert "GLIBC_TUNABLES=glibc.malloc.tcache_count=0" in script


def test_a_script_that_is_parallel_has_all_accelerators_of_its_node(blueprint):
    (blueprint.service.parent / "train" / "train.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD")
    script = plan(blueprint.replace("{ cores_per_process: 4 }", "{ nodes: 2 }")).job.script
    assert "srun --mpi=pmix --kill-on-bad-exit=1" in script
    assert "CUDA_VISIBLE_DEVICES" not in script


def test_unrelated_processes_are_started_as_they_are(blueprint):
    blueprint.replace("cores_per_process: 4 }", "nodes: 2 }\n        distributed: { strategy: none }")
    made = plan(blueprint)
    assert 'srun --cpus-per-task=8 "${command[@]}" &' in made.job.script
    assert "MASTER_ADDR" not in made.job.script
    assert choices(made)["strategy"].value == "none"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{ strategy: guess }", "guess"),
        ("{ strategy: fsdp }", "fsdp needs a PyTorch script that calls modak_runtime.prepare"),
        ("{ interface: 'ib0; reboot' }", "is not a network interface's name"),
        ("{ timeout: 0 }", "timeout"),
        ("{ strategy: ddp }", "train.py does not call it"),
    ],
)
def test_what_is_said_of_processes_is_checked(blueprint, said, problem):
    blueprint.replace("cores_per_process: 4 }", f"nodes: 2 }}\n        distributed: {said}")
    with pytest.raises(InvalidBlueprint, match=problem) as caught:
        plan(blueprint)
    assert "service.yaml:43:" in str(caught.value)


def test_srun_starts_processes_in_the_way_that_the_images_mpi_wants(blueprint):
    blueprint.replace("cores_per_process: 4 }", "cores_per_process: 4, nodes: 2 }\n        distributed_training: true")
    request = request_of(blueprint.service, Inputs())
    application = request.application.model_copy(update={"framework": "mpi"})
    optimisation = request.optimisation.model_copy(update={"entry": "openmpi-mpi4py"})
    made = make_plan(request.model_copy(update={"application": application, "optimisation": optimisation}))
    assert "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=4 bash" in made.job.script


def test_torque_needs_to_be_told_its_launcher(blueprint):
    blueprint.replace("modak.nodes.Slurm", "modak.nodes.Torque").replace(
        "cores_per_process: 4 }", "nodes: 2 }\n        distributed_training: true"
    )
    with pytest.raises(InvalidBlueprint, match="2 processes need a launcher"):
        plan(blueprint)
    blueprint.replace("scratch: {", "site: { properties: { launcher: mpirun } }\n        scratch: {")
    assert 'mpirun bash "$deployment/state/rank.sh" "${command[@]}" &' in plan(blueprint).job.script


def test_a_single_machine_has_one_node(blueprint):
    blueprint.replace("modak.nodes.Slurm", "modak.nodes.Host").replace("cores_per_process: 4", "nodes: 2")
    blueprint.replace("        partitions:\n", "").replace(
        '          - { name: batch, nodes: 4, cores: 8, memory: 16 GB, walltime: "12:00:00" }\n', ""
    ).replace('          - { name: long, nodes: 2, cores: 8, memory: 16 GB, walltime: "7-00:00:00" }\n', "")
    with pytest.raises(InvalidBlueprint, match="is a single machine, and 2 nodes are asked for"):
        plan(blueprint)


def test_local_data_is_known_by_its_content(blueprint):
    folder = blueprint.path / "data"
    folder.mkdir()
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(b"not the published one")
    blueprint.replace("source: [ digits ]", "source: [ data, digits ]")
    with pytest.raises(InvalidBlueprint, match="is not the published file of mnist"):
        plan(blueprint)
    made = plan(blueprint.replace("name: mnist", "name: mine").replace("data, digits", "data"))
    assert [source.kind for source in made.dataset.sources] == ["folder"]
    assert made.dataset.size == len(b"not the published one")


def idx(count, dimensions=1):
    return struct.pack(f">I{dimensions}I", 0x0800 | dimensions, count, *([28] * (dimensions - 1)))


@pytest.mark.parametrize(
    ("there", "samples"),
    [
        ({"t10k": 10_000}, 10_000),
        ({"train": 123, "t10k": 10_000}, 123),
        ({"one": 5, "other": 6}, None),
        ({"train": 0}, None),
    ],
)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_the_samples_of_a_folder_are_counted(blueprint, there, samples, end):
    """As many as the headers say, whatever the published data of that name have; their values are not read."""
    folder = blueprint.path / "data"
    folder.mkdir()
    for split, count in there.items():
        for name, header in (("labels-idx1", idx(count)), ("images-idx3", idx(count, 3))):
            content = header + b"some of its values"
            (folder / f"{split}-{name}-ubyte{end}").write_bytes(gzip.compress(content, mtime=0) if end else content)
    blueprint.replace("source: [ digits ]", "source: [ data ]").replace("name: mnist", "name: mine")
    made = plan(blueprint)
    assert made.application.work.samples == samples
    assert plan(blueprint).digest == made.digest
    wanted = blueprint.replace('walltime: "00:30:00"', 'walltime: "00:30:00"\n        work: { samples: 100 }')
    assert plan(wanted).application.work.samples == 100


@pytest.mark.parametrize("content", [b"", b"abc", b"\x1f\x8b", b"\0\0\x0d\x01\0\0\0\x05"])
def test_a_file_that_says_nothing_leaves_the_number_open(tmp_path, content):
    for name in ("train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz"):
        (tmp_path / name).write_bytes(content)
        assert samples_in(tmp_path, [name]) is None
    assert samples_in(tmp_path, ["train-labels-idx1-ubyte.missing"]) is None


def test_the_number_of_published_samples_is_that_of_published_files(blueprint):
    """Another file under an address of one's own is not MNIST for its name."""
    published = blueprint.replace("source: [ digits ]", "source: [ published, digits ]")
    assert plan(published).application.work.samples == 60_000
    checksum = f"checksum: {{ train-labels-idx1-ubyte.gz: {'ab' * 32} }}"
    published.replace("source: [ published, digits ]", f"source: [ 'https://example.org/' ]\n        {checksum}")
    assert plan(published).application.work.samples is None


def test_published_data_has_addresses_and_checksums(blueprint):
    made = plan(blueprint.replace("source: [ digits ]", "source: [ published, digits ]"))
    assert [source.kind for source in made.dataset.sources] == ["url", "url", "digits"]
    assert all(file.sha256 and file.size for file in made.dataset.sources[0].files)


def test_a_plan_fits_its_schema(blueprint, root):
    import json

    import jsonschema

    schema = json.loads((root / "modak_ansible" / "model" / "plan.schema.json").read_text())
    jsonschema.validate(json.loads(plan(blueprint).model_dump_json()), schema)
