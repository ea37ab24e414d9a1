"""Kubernetes, judged by recorded objects; what kubectl is asked, and what is made of its answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import (
    ActionRefused,
    CommandResult,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
)
from modak_ansible.schedulers.kubernetes.jobs import Kubernetes, job_of, name_of
from modak_ansible.schedulers.kubernetes.objects import index_of, record_of
from modak_ansible.schedulers.registry import SCHEDULERS

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "kubernetes.yaml")
KUBERNETES = Kubernetes()
FOLDER = "/shared/modak/deployments/train-0123456789ab"
ID = "2317302866.train-0123456789ab-5f0e9c1d.team-a"
MANIFEST = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"namespace": "team-a", "labels": {}},
    "spec": {"template": {"metadata": {"labels": {}}, "spec": {"volumes": [], "containers": [{"name": "training"}]}}},
}
SCRIPT = json.dumps(MANIFEST)


def laid_over(below, above):
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: laid_over(below.get(key), value) for key, value in above.items()}}


def objects(name):
    case, base = RECORDED[name], RECORDED["base"]
    job = laid_over(base["job"], case.get("job", {}))
    pods = [case["pod"]] if "pod" in case else case.get("pods", [])
    return job, [laid_over(base["pod"], pod) for pod in pods], case.get("events", [])


def recorded(name):
    return record_of(*objects(name))


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("created", "QUEUED", ""),
        ("no-pod-yet", "QUEUED", "exceeded quota: team-a"),
        ("unschedulable", "QUEUED", "Unschedulable: 0/5 nodes are available: 5 Insufficient memory."),
        ("image-pull-backoff", "QUEUED", "ImagePullBackOff: Failed to pull image .* manifest unknown"),
        ("err-image-pull", "QUEUED", "ErrImagePull: failed to authorize: 401 Unauthorized"),
        ("config-error", "QUEUED", 'CreateContainerConfigError: secret "registry" not found'),
        ("mount-fails", "QUEUED", "FailedMount: .*/shared is not a directory"),
        ("starting", "QUEUED", "^$"),
        ("running", "RUNNING", "^$"),
        ("node-lost", "RUNNING", ""),
        ("suspended", "HELD", "^$"),
        ("kueue", "QUEUED", "Kueue has not admitted it to batch yet"),
        ("deleting", "ENDING", "it is being deleted"),
        ("completed", "COMPLETED", "^$"),
        ("failed", "FAILED", "^$"),
        ("other-volume", "FAILED", "the volume that is mounted in Pods is not that of the workspace"),
        ("out-of-memory", "OUT_OF_MEMORY", "OOMKilled"),
        ("evicted-memory", "OUT_OF_MEMORY", "Evicted: The node was low on resource: memory"),
        ("evicted-storage", "FAILED", "ephemeral local storage usage exceeds"),
        ("evicted-pids", "PREEMPTED", "low on resource: pids"),
        ("preempted", "PREEMPTED", "PreemptionByScheduler: .*higher priority"),
        ("preempted-and-gone", "PREEMPTED", "Preempted by team-b/urgent-1"),
        ("deadline", "TIMEOUT", "DeadlineExceeded"),
        ("deadline-before-start", "BOOT_FAIL", "ImagePullBackOff: Back-off pulling image"),
        ("job-deadline", "TIMEOUT", "Job was active longer"),
        ("node-shutdown", "NODE_FAIL", "imminent node shutdown"),
        ("pod-gc", "NODE_FAIL", "node no longer exists"),
        ("out-of-cpu", "BOOT_FAIL", "Node didn't have enough resource: cpu"),
        ("no-bash", "BOOT_FAIL", "executable file not found"),
        ("deleted-by-hand", "CANCELLED", "^$"),
        ("indexed-one-waits", "QUEUED", "^Pod 2: Unschedulable: 0/5 nodes are available: 5 Insufficient nvidia"),
        ("indexed-one-is-not-made", "QUEUED", "exceeded quota"),
        ("indexed-running", "RUNNING", "^$"),
        ("indexed-out-of-memory", "OUT_OF_MEMORY", "^Pod 1: OOMKilled$"),
        ("indexed-preempted-and-gone", "PREEMPTED", "Preempted by team-b/urgent-1"),
        ("indexed-failed", "FAILED", "^Pod 1: ValueError$"),
        ("gone-without-a-word", "FAILED", "BackoffLimitExceeded: Job has reached the specified backoff limit"),
    ],
)
def test_a_job_is_known_by_its_conditions_its_pods_and_its_events(name, state, words):
    record = recorded(name)
    assert str(record.state) == state
    assert re.search(words, record.reason), record.reason
    assert (record.job_id, record.name, record.folder) == (ID, "train-0123456789ab", FOLDER)


def test_every_recorded_case_is_judged():
    (marker,) = (each for each in test_a_job_is_known_by_its_conditions_its_pods_and_its_events.pytestmark)
    assert {row[0] for row in marker.args[1]} == set(RECORDED) - {"base"}


def test_what_else_is_said_of_a_job():
    assert recorded("running").nodes == "worker-3"
    assert recorded("node-lost").down == "worker-3"
    assert (recorded("failed").exit_code, recorded("failed").elapsed) == (3, 30.0)
    assert (recorded("completed").exit_code, recorded("completed").elapsed) == (0, 120.0)
    assert (recorded("out-of-memory").signal, recorded("out-of-memory").exit_code) == (9, None)
    assert recorded("deadline").limit == "walltime"
    assert recorded("kueue").queue == "batch"
    assert recorded("suspended").held_by == "user"


def test_of_several_pods_nodes_and_the_way_in_are_in_their_order():
    record = recorded("indexed-running")
    assert record.nodes == "worker-1,worker-2,worker-3"
    kubectl = Kubectl(get=listed("indexed-running"))
    entered = KUBERNETES.enter(kubectl, record, 2, ["nproc"])
    assert [each[3].rpartition("-")[0][-1] for each in entered] == ["0", "1"]


def test_pods_and_events_of_others_are_left_alone():
    job, pods, _ = objects("failed")
    pods = [laid_over(pods[0], {"metadata": {"ownerReferences": [{"uid": "another"}]}})]
    event = {"type": "Normal", "reason": "Preempted", "involvedObject": {"kind": "Pod", "name": "other-x", "uid": "x"}}
    assert record_of(job, pods, [event]).reason.startswith("BackoffLimitExceeded")


# --- kubectl


class Kubectl:
    """A run that answers by what the command's words begin with, in turn, and keeps what it was asked."""

    def __init__(self, **answers):
        self.answers = {name: list(each) if isinstance(each, list) else [each] for name, each in answers.items()}
        self.asked: list[list[str]] = []

    def __call__(self, argv):
        self.asked.append(argv)
        if argv[0] == "sed":
            return CommandResult(0, SCRIPT)
        if argv[0] == "pwd":
            return CommandResult(0, FOLDER + "\n")
        verb = "create" if argv[0] == "bash" else argv[1]
        answers = self.answers.get(verb, [CommandResult(0)])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return found if isinstance(found, CommandResult) else CommandResult(0, json.dumps(found))

    def sent(self, verb="create"):
        return [json.loads(argv[-1]) for argv in self.asked if argv[0] == "bash" and verb in argv[2]]


def listed(*cases):
    items = [
        thing for name in cases for part in objects(name)[:2] for thing in (part if isinstance(part, list) else [part])
    ]
    return {"kind": "List", "items": items}


THERE = CommandResult(
    1, err='Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "x" already exists'
)


def job_named(name, **more):
    return laid_over(RECORDED["base"]["job"], {"metadata": {"name": name}, **more})


def test_a_job_is_created_under_the_name_of_its_folder_as_the_user():
    kubectl = Kubectl(create=job_named(name_of(FOLDER)))
    assert KUBERNETES.submit(kubectl, "job.sh", "mine") == f"2317302866.{name_of(FOLDER)}.team-a"
    (job,) = kubectl.sent()
    assert job["metadata"]["annotations"] == {"modak/folder": FOLDER, "modak/name": "mine"}
    assert set(job["spec"]["template"]["spec"]["securityContext"]) >= {"runAsUser", "runAsGroup"}
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-1] == FOLDER


@pytest.mark.parametrize("number", [0, 1000])
def test_a_pod_may_do_no_more_than_restricted_namespaces_permit(monkeypatch, number):
    """Of root they permit no Pod at all, and without its capabilities it could not write where others own the folder."""
    monkeypatch.setattr("os.getuid", lambda: number)
    pod = job_of(MANIFEST, FOLDER, "mine")["spec"]["template"]["spec"]
    of_pod, of_container = pod["securityContext"], pod["containers"][0].get("securityContext")
    assert (of_pod.get("runAsNonRoot"), of_pod.get("seccompProfile")) == (
        (True, {"type": "RuntimeDefault"}) if number else (None, None)
    )
    limits = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert of_container == (limits if number else None)


def test_a_second_create_is_refused_by_the_server_and_the_first_job_is_taken():
    kubectl = Kubectl(create=THERE, get=job_named(name_of(FOLDER)))
    assert KUBERNETES.submit(kubectl, "job.sh", "mine") == f"2317302866.{name_of(FOLDER)}.team-a"
    assert len(kubectl.sent()) == 1


def test_another_attempt_has_another_name():
    over = job_named(name_of(FOLDER), status={"conditions": [{"type": "Failed", "status": "True"}]})
    kubectl = Kubectl(create=[THERE, job_named(name_of(FOLDER, 2))], get=over)
    assert KUBERNETES.submit(kubectl, "job.sh", "mine") == f"2317302866.{name_of(FOLDER, 2)}.team-a"
    assert [job["metadata"]["name"] for job in kubectl.sent()] == [name_of(FOLDER), name_of(FOLDER, 2)]


def several(**more):
    spec = {**MANIFEST["spec"], "completionMode": "Indexed", "completions": 2, "parallelism": 2}
    return json.dumps({**MANIFEST, "spec": spec}), job_named(name_of(FOLDER), spec=more)


def test_several_pods_are_first_shown_to_the_server_and_then_made(monkeypatch):
    text, made = several(completionMode="Indexed")
    monkeypatch.setattr(f"{__name__}.SCRIPT", text)
    kubectl = Kubectl(create=made)
    assert KUBERNETES.submit(kubectl, "job.sh", "mine")
    first, second = (argv[2] for argv in kubectl.asked if argv[0] == "bash")
    assert "--dry-run=server" in first
    assert "--dry-run" not in second
    told = {each["name"] for each in kubectl.sent()[-1]["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert told >= {"MODAK_POD", "MODAK_POD_ADDRESS"}


OLDER = CommandResult(
    1,
    err='error: error validating "STDIN": error validating data: ValidationError(Job.spec): unknown field "completionMode" '
    "in io.k8s.api.batch.v1.JobSpec; if you choose to ignore these errors, turn validation off with --validate=false",
)


@pytest.mark.parametrize("answer", [several()[1], OLDER])
def test_a_server_that_leaves_out_the_mode_is_given_no_job_of_several_pods(monkeypatch, answer):
    text, _ = several()
    monkeypatch.setattr(f"{__name__}.SCRIPT", text)
    kubectl = Kubectl(create=answer)
    with pytest.raises(SubmissionRefused, match="does not know Indexed Jobs"):
        KUBERNETES.submit(kubectl, "job.sh", "mine")
    assert len(kubectl.sent()) == 1, "which it was only shown"
    directives = "".join(f"#KUBERNETES {line}\n" for line in text.splitlines())
    assert "does not know Indexed Jobs" in KUBERNETES.objection(Kubectl(create=answer), directives)


def test_somebody_elses_job_of_the_name_is_not_taken():
    other = job_named(name_of(FOLDER), metadata={"name": name_of(FOLDER), "annotations": {"modak/folder": "/other"}})
    with pytest.raises(SubmissionRefused, match="there is already another Job"):
        KUBERNETES.submit(Kubectl(create=THERE, get=other), "job.sh", "mine")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            'Error from server (Forbidden): error when creating "STDIN": jobs.batch is forbidden: User "alice" cannot create',
            SubmissionRefused,
        ),
        ('The Job "x" is invalid: spec.template.spec.containers[0].image: Required value', SubmissionRefused),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
            SchedulerSilent,
        ),
        ("Unable to connect to the server: dial tcp: lookup k8s.example: no such host", SchedulerSilent),
        (
            "Error from server (Timeout): the server was unable to return a response in the time allotted",
            SubmissionUncertain,
        ),
        ("error: unexpected EOF", SubmissionUncertain),
    ],
)
def test_refusals_are_told_apart(words, error):
    with pytest.raises(error) as raised:
        KUBERNETES.submit(Kubectl(create=CommandResult(1, err=words)), "job.sh", "mine")
    assert 'when creating "STDIN"' not in str(raised.value)
    assert type(raised.value) is error


def test_a_create_that_does_not_answer_is_uncertain_and_one_without_kubectl_is_not():
    with pytest.raises(SubmissionUncertain):
        KUBERNETES.submit(Kubectl(create=CommandResult(124, err="no answer", timed_out=True)), "job.sh", "mine")
    with pytest.raises(SchedulerSilent):
        KUBERNETES.submit(
            Kubectl(create=CommandResult(127, err="bash: command not found", missing=True)), "job.sh", "x"
        )


def test_nobody_starts_a_job_after_another():
    with pytest.raises(SubmissionRefused, match="after another"):
        KUBERNETES.submit(Kubectl(), "job.sh", "mine", Waits(ok=("1",)))


def test_jobs_are_found_by_their_folder_and_name():
    kubectl = Kubectl(get=listed("running"))
    assert KUBERNETES.find(kubectl, "train-0123456789ab", FOLDER) == [ID]
    assert KUBERNETES.find(kubectl, "another", FOLDER) == []
    assert "--namespace=team-a" in kubectl.asked[1]


def test_many_jobs_are_asked_for_at_once():
    kubectl = Kubectl(get=[listed("running"), {"items": []}])
    found = KUBERNETES.statuses(kubectl, [ID, "0.other.team-a", "not-ours"])
    assert {each: str(job.state) for each, job in found.items()} == {ID: "RUNNING"}
    assert len(kubectl.asked) == 2


def test_a_job_that_was_made_anew_under_the_name_is_another_one():
    kubectl = Kubectl(get=[listed("running"), {"items": []}])
    assert KUBERNETES.status(kubectl, "4294967295.train-0123456789ab-5f0e9c1d.team-a") is None


def test_silence_is_told():
    silent = Kubectl(get=CommandResult(1, err="Unable to connect to the server: EOF"))
    for ask in (lambda: KUBERNETES.status(silent, ID), lambda: KUBERNETES.find(silent, "x", FOLDER)):
        with pytest.raises(SchedulerSilent, match="kubectl: Unable to connect"):
            ask()
    with pytest.raises(SchedulerSilent, match="broken JSON"):
        KUBERNETES.status(Kubectl(get=CommandResult(0, "not JSON")), ID)


def test_only_what_lives_is_cancelled():
    kubectl = Kubectl(get=[listed("completed"), {"items": []}])
    KUBERNETES.cancel(kubectl, ID)
    assert not any("delete" in argv for argv in kubectl.asked)
    kubectl = Kubectl(get=[listed("running"), {"items": []}])
    KUBERNETES.cancel(kubectl, ID)
    assert kubectl.asked[-1][:4] == ["kubectl", "delete", "job", "train-0123456789ab-5f0e9c1d"]


def test_a_job_that_waits_is_held_and_one_that_runs_or_waits_for_kueue_is_not():
    patched = [{"spec": {"suspend": True}}, {"spec": {"suspend": False}}]
    kubectl = Kubectl(get=[listed("unschedulable"), {"items": []}], patch=patched)
    KUBERNETES.hold(kubectl, ID)
    assert kubectl.asked[-1][-1] == '--patch={"spec": {"suspend": true}}'
    for case, words in (("running", "suspending it would end its Pod"), ("kueue", "Kueue decides")):
        with pytest.raises(ActionRefused, match=words):
            KUBERNETES.hold(Kubectl(get=[listed(case), {"items": []}]), ID)
    KUBERNETES.release(kubectl, ID)
    assert kubectl.asked[-1][-1] == '--patch={"spec": {"suspend": false}}'
    with pytest.raises(ActionRefused):
        KUBERNETES.requeue(kubectl, ID)


def test_a_server_that_drops_the_suspension_holds_nothing():
    """One older than 1.21 does, and kubectl ends well: "patched (no change)"."""
    kubectl = Kubectl(get=[listed("unschedulable"), {"items": []}], patch={"kind": "Job", "spec": {"backoffLimit": 0}})
    with pytest.raises(ActionRefused, match="left the Job as it was"):
        KUBERNETES.hold(kubectl, ID)
    KUBERNETES.release(kubectl, ID)


def test_programs_enter_a_pod_that_runs():
    pods = {"items": objects("running")[1]}
    (command,) = KUBERNETES.enter(Kubectl(get=pods), recorded("running"), 1, ["nvidia-smi"], terminal=True)
    assert command[:4] == ["kubectl", "exec", "--stdin", "--tty"]
    assert command[-2:] == ["--", "nvidia-smi"]
    with pytest.raises(ActionRefused, match="no running Pod"):
        KUBERNETES.enter(Kubectl(get={"items": []}), recorded("running"), 1, ["true"])


def test_a_pod_is_entered_by_its_number_when_those_before_it_have_ended():
    rest, record = [pod for pod in objects("indexed-running")[1] if index_of(pod)], recorded("indexed-running")
    (command,) = KUBERNETES.enter(Kubectl(get={"items": rest}), record, 1, ["true"], first=1)
    assert command[3].rpartition("-")[0][-1] == "1"
    with pytest.raises(ActionRefused, match="no running Pod"):
        KUBERNETES.enter(Kubectl(get={"items": rest}), record, 1, ["true"])


def test_what_the_server_has_against_a_job_is_told_before_it_is_submitted():
    head = "\n".join(f"#KUBERNETES {line}" for line in json.dumps(MANIFEST, indent=1).splitlines())
    assert KUBERNETES.objection(Kubectl(create=job_named("x")), head) == ""
    assert KUBERNETES.objection(Kubectl(), "#SBATCH --nodes=1") == ""
    refused = Kubectl(create=CommandResult(1, err='Error from server (NotFound): namespaces "team-a" not found'))
    assert KUBERNETES.objection(refused, head) == 'kubectl: Error from server (NotFound): namespaces "team-a" not found'
    volumes = [{"name": "workspace", "persistentVolumeClaim": {"claimName": "gone"}}]
    manifest = laid_over(MANIFEST, {"spec": {"template": {"spec": {"volumes": volumes}}}})
    lacking = CommandResult(1, err='Error from server (NotFound): persistentvolumeclaims "gone" not found')
    assert '"gone" not found' in KUBERNETES.objection(
        Kubectl(create=job_named("x"), get=lacking), f"#KUBERNETES {json.dumps(manifest)}"
    )


# --- names

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@given(st.text(max_size=300).map(lambda text: "/shared/" + text.replace("\x00", "")), st.integers(1, 99))
def test_every_folder_gives_a_name_that_the_server_takes(folder, attempt):
    name = name_of(folder, attempt)
    assert len(name) <= 63 - len("-x2m9q")
    assert _LABEL.fullmatch(name)
    assert name == name_of(folder, attempt)


@given(st.text("abAB-_./ü", min_size=1), st.text("abAB-_./ü", min_size=1))
def test_two_folders_have_two_names(one, other):
    assert (name_of(one) == name_of(other)) == (one == other)


def test_the_plans_manifest_is_not_changed():
    before = json.dumps(MANIFEST)
    job_of(MANIFEST, FOLDER, "x")
    assert json.dumps(MANIFEST) == before


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_whatever_kubectl_prints_is_read_or_told(answer):
    kubectl = Kubectl(get=CommandResult(0, json.dumps(answer)))
    try:
        assert KUBERNETES.statuses(kubectl, [ID]) == {}
    except SchedulerSilent as error:
        assert "kubectl printed" in str(error)


def test_it_is_among_the_schedulers():
    assert SCHEDULERS["kubernetes"].title == "Kubernetes"
