"""Thousands of hostile texts, through every renderer and then real bash, ssh, sbatch and qsub.

MODAK_HOSTILE multiplies the number of examples: MODAK_HOSTILE=10 takes ten times as many, and as long.
"""

from __future__ import annotations

import base64
import copy
import io
import json
import re
import tarfile

import pytest
from example_blueprint import SERVICE
from hostile import HOSTILE, Recorded, as_yaml, examples
from hostile_checks import CHECKS, job
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.model.job_options import JobDependency, JobOptions
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.schedulers.directives import CannotExpress
from modak_ansible.schedulers.script import ScriptParts, render_script
from modak_ansible.stages.jobs.code import code_archive

_SETTINGS = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate),
    "database": None,
}
_EXAMPLES = {"job scripts": 50, "programs": 50, "paths": 100, "requirements": 60, "images": 100, "connections": 150}

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("name", CHECKS)
def test_renderers(name, tmp_path_factory):
    check = CHECKS[name](tmp_path_factory.mktemp("hostile"))

    @settings(max_examples=examples(_EXAMPLES[name]), **_SETTINGS)
    @given(data=st.data())
    def run(data):
        check(data)

    run()


# --- whole blueprints: a text is refused with its place, or the plan that it is in runs nothing of it

# Where a text is put: what stands in the blueprint, and what takes its place, with TEXT for the text as YAML has it.
_FIELDS = {
    "name of the blueprint": ("template_name: example", "template_name: TEXT"),
    "name of a target": ("    cluster:\n", "    TEXT:\n"),
    "user": ("username: alice", "username: TEXT"),
    "address": ("public_address: frontend.example", "public_address: TEXT"),
    "partition": ("name: long", "name: TEXT"),
    "workspace": ("username: alice", "workspace: TEXT"),
    "identity file": ("username: alice", "identity_file: TEXT"),
    "architecture": ("architecture: skylake_avx512", "architecture: TEXT"),
    "scratch": ("path: /scratch", "path: TEXT"),
    "dataset": ("name: mnist", "name: TEXT"),
    "source": ("source: [ digits ]", "source: [ TEXT, digits ]"),
    "framework": ("framework: pytorch", "framework: TEXT"),
    "version": ("framework: pytorch", "framework: pytorch\n        version: TEXT"),
    "script": ("script: train/train.py", "script: TEXT"),
    "argument": ("batch-size: 128", "batch-size: TEXT"),
    "name of an argument": ("batch-size: 128", "TEXT: 128"),
    "variable": ("walltime: \"00:30:00\"", "walltime: \"00:30:00\"\n        environment: { VALUE: TEXT }"),
    "name of a variable": ("walltime: \"00:30:00\"", "walltime: \"00:30:00\"\n        environment: { TEXT: a }"),
    "requirement": ("walltime: \"00:30:00\"", "walltime: \"00:30:00\"\n        requirements_txt: [ TEXT ]"),
    "output": ("walltime: \"00:30:00\"", "walltime: \"00:30:00\"\n        outputs: [ TEXT ]"),
    "files": ("walltime: \"00:30:00\"", "walltime: \"00:30:00\"\n        files: [ TEXT ]"),
    "wall time": ("walltime: \"00:30:00\"", "walltime: TEXT"),
    "option": ("walltime: \"00:30:00\"", "walltime: \"00:30:00\"\n        job_options: { account: TEXT }"),
    "entry": ("numerics: same", "entry: TEXT"),
    **{
        f"site's {name}": ("scratch: {", f"site: {{ properties: {{ {name}: {'[ TEXT ]' if many else 'TEXT'} }} }}\n        scratch: {{")
        for name, many in {
            "account": False, "partition": False, "modules": True, "binds": True, "launcher": False, "apt_mirror": False,
            "certificate_bundle": False, "pip_index_url": False, "pip_find_links": True, "signing_key": False,
            "image_sources": True, "image_signer": False,
        }.items()
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from example_blueprint import BlueprintFolder

    return BlueprintFolder(tmp_path_factory.mktemp("blueprint") / "example")


def test_blueprints(folder, tmp_path_factory):
    for old, _ in _FIELDS.values():
        assert old in SERVICE, old
    recorded = Recorded(tmp_path_factory.mktemp("hostile"), "apptainer", "module", "srun")
    outcomes = {name: [0, 0] for name in _FIELDS}

    @settings(max_examples=examples(400), **_SETTINGS)
    @given(field=st.sampled_from(sorted(_FIELDS)), text=HOSTILE)
    def run(field, text):
        old, new = _FIELDS[field]
        folder.service.write_text(SERVICE.replace(old, new.replace("TEXT", as_yaml(text)), 1), encoding="utf-8")
        try:
            planned = plan_blueprint(folder.service, Inputs())
        except InvalidBlueprint as error:
            outcomes[field][1] += 1
            for mistake in error.mistakes:
                assert mistake.location.path
                assert mistake.message
            return
        outcomes[field][0] += 1
        plan = planned.plan.model_dump(mode="json")
        assert planned.folder.parent == planned.state / "deployments"
        for path in (plan["image"]["path"], *(layer["path"] for layer in plan["image"]["layers"])):
            assert re.fullmatch(r"images/[0-9a-f]{64}\.(sif|venv)", path)
        assert "/" not in plan["dataset"]["path"].removeprefix("datasets/")
        with tarfile.open(fileobj=io.BytesIO(code_archive(plan, folder.path))) as archive:
            assert all(re.fullmatch(r"(code|runtime)/[\w./-]+", getmember.name) for getmember in archive.getmembers())
        _run_script(recorded, plan)

    run()
    assert not [name for name, (_, refused) in outcomes.items() if not refused and name not in ("argument", "variable")]


def _run_script(recorded, plan):
    """Runs the plan's script on this machine as Slurm would, with programs that write down what they are given."""
    deployment = recorded.bin.parent / "deployments" / "one"
    recorded.run("rm", "-rf", deployment)
    (deployment / "code").mkdir(parents=True)
    images = recorded.bin.parent / "images"
    images.mkdir(exist_ok=True)
    image = recorded.bin.parent / plan["image"]["path"]
    image.write_text("image")
    image.with_suffix(".seal").write_text("6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d x\n")
    (deployment / "job.sh").write_text(plan["job"]["script"])
    environment = f'export SLURM_SUBMIT_DIR="$PWD" SLURM_JOB_ID=1 SLURM_JOB_NODELIST=node01; {_NO_SCRATCH} . ./job.sh'
    recorded.run("bash", "-c", environment, cwd=deployment)
    recorded.check_nothing_was_executed()


# the copy on scratch is another test's; here nothing may be made outside of the folder
_NO_SCRATCH = 'mkdir() { case "${@: -1}" in state) command mkdir "$@" ;; *) false ;; esac; };'


# --- whole requests

_REQUEST_FIELDS = (
    "job_options/job_name", "job_options/account", "job_options/queue", "job_options/standard_output_file",
    "job_options/copy_environment_variable", "job_options/email_address", "job_options/request_specific_nodes",
    "target/name", "application/app_tag", "application/executable", "application/arguments",
    "application/container_runtime", "optimisation/app_type-ai_training/config/ai_framework",
    "optimisation/app_type-ai_training/data/location", "optimisation/app_type-ai_training/data/basedata",
    "optimisation/app_type-ai_training/ai_framework-pytorch/version",
)  # fmt: skip


def test_requests(tmp_path_factory):
    from example_request import TRAINING, RequestFolder

    made = RequestFolder(tmp_path_factory.mktemp("request") / "request", TRAINING)
    recorded = Recorded(tmp_path_factory.mktemp("hostile"), "apptainer", "module", "srun")

    @settings(max_examples=examples(300), **_SETTINGS)
    @given(field=st.sampled_from(_REQUEST_FIELDS), text=HOSTILE)
    def run(field, text):
        made.content = copy.deepcopy(TRAINING)
        made.set(field, text)
        try:
            plan = made.plan.model_dump(mode="json")
        except InvalidBlueprint as error:
            assert all(mistake.location.path and mistake.message for mistake in error.mistakes)
            return
        directives = [line for line in plan["job"]["script"].split("\n") if line.lstrip().startswith("#SBATCH")]
        assert all(
            re.fullmatch(r"#SBATCH --[a-z-]+(=[\w.:=,+@/%&|-]*)?", directive, re.ASCII) for directive in directives
        )
        _run_script(recorded, plan)

    run()


# --- directives, as the testbed's own sbatch and qsub read them

_OPTIONS = {
    "account": lambda text: ({}, {"account": text}),
    "partition": lambda text: ({}, {"partition": text}),
    "job_name": lambda text: ({}, {"name": text}),
    "request_specific_nodes": lambda text: ({"request_specific_nodes": (text,)}, {}),
    "architecture_constraint": lambda text: ({"architecture_constraint": text}, {}),
    "job_array": lambda text: ({"job_array": text}, {}),
    "standard_output_file": lambda text: ({"standard_output_file": text}, {}),
    "standard_error_file": lambda text: ({"standard_error_file": text}, {}),
    "copy_environment_variable": lambda text: ({"copy_environment_variable": (text,)}, {}),
    "job_dependency": lambda text: ({"job_dependency": (JobDependency(kind="afterok", jobs=(text,)),)}, {}),
    "email_address": lambda text: ({"email_address": (text,)}, {}),
}  # fmt: skip
_PARTS = ScriptParts(image="images/none.sif", python="python3", script="train.py", container_runtime="any")
# What a directive lets through is seldom among texts that are only hostile.
_END = "= = ="
_NEARLY = st.one_of(HOSTILE, st.from_regex(r"[A-Za-z0-9_/@%=.+-]{1,12}([ \n,:=;][A-Za-z#-]{0,8})?", fullmatch=True))


def rendered(scheduler, count):
    """Scripts whose texts were let through, by what they hold: ``(option, text)``."""
    found, tried = {}, 0

    @settings(max_examples=count, **_SETTINGS)
    @given(option=st.sampled_from(sorted(_OPTIONS)), text=_NEARLY)
    def run(option, text):
        nonlocal tried
        tried += 1
        options, changes = _OPTIONS[option](text)
        try:
            made = job(scheduler, options=JobOptions(**options), **changes)
            found[option, text] = render_script(made, _PARTS)
        except CannotExpress as error:
            assert error.about.startswith("job_options.")

    run()
    return found, tried


def on_testbed(testbed, scripts, command):
    """What a command says to each of some scripts, which lie as job.sh in its folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for number, text in enumerate(scripts):
            info = tarfile.TarInfo(f"{number}/job.sh")
            data = text.encode()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    packed = base64.b64encode(buffer.getvalue()).decode()
    folder = testbed.ssh("mktemp -d")
    for start in range(0, len(packed), 90000):
        testbed.ssh(f"echo {packed[start : start + 90000]} >> {folder}/packed")
    said = testbed.ssh(
        f"cd {folder} && base64 -d packed | tar -xz && export CANARY={folder}/canary && for each in $(ls -d [0-9]* | sort -n); "
        f"do cd $each; {command}; echo '{_END}'; cd ..; done; ls {folder} | grep canary; rm -rf {folder}"
    )
    *answers, rest = said.split(_END)
    assert "canary" not in rest
    return [re.sub(r"/tmp/tmp\.\w+/\d+/", "", answer) for answer in answers]


def options_of(said):
    """What sbatch -vv says that it read, by the option's name."""
    found = re.findall(r"^sbatch: (?:defined options|-{3,}|([a-z-]+) +: (.*))$", said, re.MULTILINE)
    return {name: value for name, value in found if name}


@pytest.mark.testbed
def test_sbatch_reads_each_text_in_its_own_option(testbed):
    found, tried = rendered("slurm", examples(2500))
    usual = render_script(job("slurm"), _PARTS)
    answers = on_testbed(
        testbed, [usual, *found.values()], "sbatch -vv --test-only job.sh 2>&1 < /dev/null | grep -a '^sbatch: '"
    )
    expected = options_of(answers[0])
    assert expected["job-name"] == "example"
    names = {
        "account": {"account"}, "partition": {"partition"}, "job_name": {"job-name"},
        "request_specific_nodes": {"nodelist"}, "architecture_constraint": {"constraint"}, "job_array": {"array"},
        "standard_output_file": {"output"}, "standard_error_file": {"error"},
        "copy_environment_variable": {"export"}, "job_dependency": {"dependency"},
        "email_address": {"mail-user", "mail-type"},
    }  # fmt: skip
    for (option, text), said in zip(found, answers[1:], strict=True):
        read = options_of(said)
        if not read:  # refused as a whole, in the words of sbatch
            assert re.search(r"sbatch: (fatal|error): ", said), (option, text, said)
            continue
        differing = {name for name in {*read, *expected} if read.get(name) != expected.get(name)}
        assert differing <= names[option], (option, text, differing)
    assert len(found) > 100, f"{len(found)} of {tried} let through"


@pytest.mark.testbed
def test_qsub_reads_each_text_in_its_own_option(testbed):
    found, tried = rendered("torque", examples(600))
    chosen = dict(list(found.items())[: examples(60)])
    usual = render_script(job("torque"), _PARTS)
    command = (
        "id=$(qsub -h job.sh 2>&1 < /dev/null | tail -1 | cut -d. -f1); case $id in *[!0-9]* | '') echo \"refused: $id\" ;; "
        "*) scontrol show job $id; scancel $id ;; esac"
    )
    answers = on_testbed(testbed, [usual, *chosen.values()], command)
    known = ("UserId", "JobName", "NumNodes", "TimeLimit", "Command", "WorkDir", "Priority", "Comment", "NumTasks")
    for (option, text), said in zip(chosen, answers[1:], strict=True):
        assert "refused: " in said or "JobId=" in said, (option, text, said)
        for name in known:
            first, here = (re.search(rf"\b{name}=(\S+)", each) for each in (answers[0], said))
            if here and first and name not in ("JobName", "WorkDir", "Command", "Priority"):
                assert here[1] == first[1], (option, text, name)
        user = re.search(r"UserId=(\w+)", said)
        assert user is None or user[1] == "modak"
    assert len(chosen) >= examples(30), f"{len(found)} of {tried} let through"


def test_the_checks_find_what_they_look_for(tmp_path):
    """A renderer that forgets to quote is found by the texts of these tests."""
    recorded = Recorded(tmp_path, "program")

    def is_executed(text):
        recorded.canary.unlink(missing_ok=True)
        recorded.run("bash", "-c", f"program {text}")
        return recorded.canary.exists()

    try:
        find(HOSTILE, is_executed, settings=settings(max_examples=300, **_SETTINGS))
    except NoSuchExample:
        pytest.fail("no text was executed")
    assert json.loads(as_yaml("a")) == "a"
