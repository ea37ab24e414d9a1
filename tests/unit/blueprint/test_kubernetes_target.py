"""The node type of a Kubernetes cluster: what it takes, what it refuses, and what is planned for it."""

from __future__ import annotations

import pytest
from example_blueprint import BlueprintFolder
from surveyed import surveyed

from modak_ansible.catalogue import load_catalogue
from modak_ansible.commands.catalogue.build import request_for
from modak_ansible.discovery.aim import aim_at
from modak_ansible.discovery.judging import findings_of
from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.target_words import type_of

CLUSTER = """\
    cluster:
      type: modak.nodes.Kubernetes
      properties:
        workspace: /shared/modak
        namespace: team-a
        mount_path: /shared
        persistent_volume_claim: shared
        image_pull_secrets: [ registry ]
      capabilities:
        processor: { properties: { cores: 8, memory: 16 GB, architecture: skylake_avx512 } }
        site: { properties: { image_sources: [ "docker://registry.example/team/images" ] } }
"""

HOST = (
    CLUSTER[: CLUSTER.index("        namespace")]
    .replace("Kubernetes", "ContainerHost")
    .replace("      properties", "      attributes: { public_address: box }\n      properties")
    + CLUSTER[CLUSTER.index("      capabilities") :]
)


@pytest.fixture
def blueprint(tmp_path):
    made = BlueprintFolder(tmp_path / "kubernetes")
    text = made.service.read_text()
    begin, end = text.index("    cluster:\n"), text.index("    digits:\n")
    made.service.write_text(text[:begin] + CLUSTER + "\n" + text[end:])
    return made


def plan_of(blueprint):
    return plan_blueprint(blueprint.service, Inputs()).plan


def test_it_is_asked_from_this_machine_or_from_one_that_is_entered(blueprint):
    target = plan_of(blueprint).target
    assert (target.local, target.is_this_machine, target.scheduler.value) == (True, False, "kubernetes")
    assert target.pods.persistent_volume_claim == "shared"
    assert target.processor.model == "", "this machine's processor is none of the cluster's"
    assert type_of(target) == "modak.nodes.Kubernetes"
    blueprint.replace(
        "      properties:\n        workspace: /shared",
        "      attributes: { public_address: login.example }\n      properties:\n        workspace: /shared",
    )
    target = plan_of(blueprint).target
    assert (target.local, target.address) == (False, "login.example")


def test_its_nodes_pull_what_was_pushed_under_the_digest_of_what_it_is_made_from(blueprint):
    image = plan_of(blueprint).image
    place, _, digest = image.path.rpartition(":")
    assert (place, image.layers, image.container_runtime) == ("registry.example/team/images", (), "kubernetes")
    text = blueprint.service.read_text()
    blueprint.service.write_text(text.replace(CLUSTER, HOST))
    assert plan_of(blueprint).image.digest == digest, "a container host pushes it under that tag"
    blueprint.replace("workspace: /shared/modak", "workspace: /shared/modak\n        container_runtime: docker")
    by_docker = plan_of(blueprint)
    assert (by_docker.image.digest, type_of(by_docker.target)) == (digest, "modak.nodes.ContainerHost"), (
        "so does Docker"
    )


def test_a_training_on_two_nodes_is_a_job_of_two_pods_which_start_its_ranks(blueprint):
    blueprint.replace(
        "resources: { cores_per_process: 4 }\n",
        "resources: { nodes: 2, processes_per_node: 2 }\n        distributed_training: true\n",
    )
    job = plan_of(blueprint).job
    assert (job.nodes, job.processes_per_node) == (2, 2)
    assert '#KUBERNETES   "completionMode": "Indexed"' in job.script
    assert "WORLD_SIZE=4 LOCAL_WORLD_SIZE=2" in job.script


def test_processes_that_are_not_one_training_are_in_one_pod(blueprint):
    blueprint.replace(
        "resources: { cores_per_process: 4 }\n", "resources: { nodes: 2 }\n        distributed: { strategy: none }\n"
    )
    with pytest.raises(InvalidBlueprint, match="processes need a launcher"):
        plan_of(blueprint)


def test_an_image_with_packages_on_top_is_pushed_under_the_digest_by_which_the_nodes_pull_it(blueprint):
    blueprint.replace(
        "        script: train/train.py\n", "        script: train/train.py\n        requirements_txt: [ einops ]\n"
    )
    image = plan_of(blueprint).image
    on_a_host = blueprint.service.read_text().replace(CLUSTER, HOST)
    blueprint.service.write_text(on_a_host)
    request = request_of(blueprint.service, Inputs())
    (entry,) = (each for each in load_catalogue().entries if each.name == image.entry)
    pushed = make_plan(request_for(entry, request, packages=True)).image
    assert image.path == f"registry.example/team/images:{pushed.digest}"
    assert pushed.layers[-1].name == "requirements"
    assert pushed.digest != make_plan(request_for(entry, request)).image.digest
    bare = request.model_copy(update={"application": request.application.model_copy(update={"requirements": ()})})
    with pytest.raises(UsageError, match="asks for no packages of its own"):
        request_for(entry, bare, packages=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        persistent_volume_claim: shared\n", "", "no volume of cluster is named"),
        ("        mount_path: /shared\n", "        mount_path: /shared\n        host_path: /lustre\n", "both persistent_volume_claim and host_path"),
        ("        mount_path: /shared\n", "", "mount_path"),
        ("workspace: /shared/modak", "workspace: modak", "modak is not below /shared, which is all that the Pods see"),
        ("workspace: /shared/modak", "workspace: /home/alice/modak", "is not below /shared"),
        ("namespace: team-a", "namespace: Team_A", "Team_A is not a name in Kubernetes"),
        ("mount_path: /shared", "mount_path: shared", "shared is not the absolute path of a folder"),
        ("[ registry ]", '[ "a b" ]', "a b is not a name in Kubernetes"),
        ("site: { properties: {", "site: { properties: { modules: [ gcc ],", "modules have no meaning in Kubernetes"),
        ("site: { properties: {", "site: { properties: { binds: [ /opt ],", "a Pod sees the volume of the workspace alone"),
        (', architecture: skylake_avx512 } }\n        site: { properties: { image_sources: [ "docker://registry.example/team/images" ] } }',
         " } }", "nothing says where cluster pulls"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(blueprint, old, new, said):
    blueprint.replace(old, new)
    with pytest.raises(InvalidBlueprint) as refused:
        plan_of(blueprint)
    mistakes = [str(mistake) for mistake in refused.value.mistakes]
    assert any(said in mistake for mistake in mistakes), mistakes


@pytest.mark.parametrize(
    ("objection", "state", "seen"),
    [
        ("", "ok", "Kubernetes, by kubectl; it would take the job"),
        ('kubectl: persistentvolumeclaims "shared" not found', "missing", 'persistentvolumeclaims "shared" not found'),
    ],
)
def test_what_the_cluster_has_against_the_job_is_told_by_check(blueprint, objection, state, seen):
    survey = surveyed(cluster=None, scheduler="kubernetes", containers__runtime=None, objection=objection)
    found = {each.about: each for each in findings_of(aim_at(str(blueprint.path), Inputs()), survey)}
    assert (found["scheduler"].state.value, seen in found["scheduler"].seen) == (state, True)
    assert found["containers"].seen == "the cluster's own: its nodes pull the image"
    assert "build folder" not in found, "nothing is built there"


def test_an_option_that_kubernetes_has_nothing_like_is_left_out_with_a_note(blueprint):
    blueprint.replace(
        'walltime: "00:30:00"\n', 'walltime: "00:30:00"\n        job_options: { qos: high, queue: batch }\n'
    )
    plan = plan_of(blueprint)
    assert [note.path for note in plan.notes] == ["job_options.qos"]
    assert '"kueue.x-k8s.io/queue-name": "batch"' in plan.job.script


def test_a_job_that_waits_for_another_is_refused(blueprint):
    blueprint.replace(
        'walltime: "00:30:00"\n', 'walltime: "00:30:00"\n        job_options: { job_dependency: "afterok:12" }\n'
    )
    with pytest.raises(InvalidBlueprint, match="Kubernetes has no job_dependency"):
        plan_of(blueprint)


def test_where_the_workspace_is_missing_the_place_is_the_blueprint_s(blueprint):
    blueprint.replace("        workspace: /shared/modak\n", "")
    with pytest.raises(InvalidBlueprint) as caught:
        plan_of(blueprint)
    (mistake,) = caught.value.mistakes
    assert mistake.location.path == str(blueprint.service)
    assert mistake.hint == "workspace: /shared/modak"
