"""Every job option as the schedulers read it, and nothing else beside it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from golden import assert_golden
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modak_ansible.model.job_options import OPTIONS, JobDependency, JobOptions
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.reading.blueprint.forms.text_rules import constraint_problem
from modak_ansible.schedulers.directives import CannotExpress
from modak_ansible.schedulers.lsf.directives import lsf_directives
from modak_ansible.schedulers.pbs.directives import pbspro_directives, torque_directives
from modak_ansible.schedulers.script import ScriptParts, render_script
from modak_ansible.schedulers.slurm.directives import slurm_directives

SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
RENDERERS = {"slurm": slurm_directives, "torque": torque_directives, "pbspro": pbspro_directives, "lsf": lsf_directives}
PREFIXES = {"slurm": "#SBATCH ", "torque": "#PBS ", "pbspro": "#PBS ", "lsf": "#BSUB "}
PARTS = ScriptParts(image="images/abc.sif", python="/opt/venv/bin/python", script="train.py", container_runtime="any")
STATED = {
    "job_name": "my_job", "account": "p-1", "wall_time_limit": 86400 + 43200, "node_count": 2,
    "process_count_per_node": 2, "core_count_per_process": 4, "request_gpus": 1, "architecture_constraint": "skylake",
    "copy_environment": True, "copy_environment_variable": ("LICENSE", "LEVEL=3"),
    "request_event_notification": ("abort", "begin", "end"), "defer_job": datetime(2026, 12, 24, 18, 30, 5),
    "node_exclusive": True,
}  # fmt: skip
JOB = {
    "name": "my_job", "nodes": 2, "processes_per_node": 2, "cores_per_process": 4, "threads": 4, "walltime": 129600,
    "account": "p-1", "partition": "gpu", "exclusive": True, "environment": {}, "script": "",
}  # fmt: skip


def job(scheduler, options=None, **changes):
    return PlannedJob(**{**JOB, "scheduler": Scheduler(scheduler), "options": JobOptions(**(options or {})), **changes})


FULL = {
    "slurm": job(
        "slurm",
        {
            **STATED, "queue": "gpu", "partition": "gpu", "core_count": 4, "memory_limit": 8 * 2**30,
            "request_specific_nodes": ("node01", "node02"), "job_array": "0-9:2,12%2",
            "standard_output_file": "/home/me/out-%j.txt", "standard_error_file": "err.txt",
            "job_dependency": (
                JobDependency(kind="afterok", jobs=("12", "13_4")), JobDependency(kind="after", jobs=("14",)),
                JobDependency(kind="singleton"),
            ),
            "email_address": ("someone@site.example",),
        },
        memory=8 * 2**30,
    ),
    "torque": job(
        "torque",
        {
            **STATED, "queue": "gpu", "partition": "east", "memory_limit": 16 * 2**30, "job_array": "0-9,12%2",
            "minimum_memory_per_processor": 2**30, "request_specific_nodes": ("node01", "node02"),
            "standard_output_file": "/home/me/out.txt", "standard_error_file": "err.txt",
            "job_dependency": (
                JobDependency(kind="afterok", jobs=("12.server", "13[].server")),
                JobDependency(kind="afterany", jobs=("14",)),
            ),
            "email_address": ("someone@site.example", "other"),
        },
        memory=8 * 2**30,
    ),
}  # fmt: skip
_OF_TORQUE = dict(FULL["torque"].options)
FULL["pbspro"] = job(
    "pbspro",
    {**_OF_TORQUE, "partition": None, "job_array": "0-9", "architecture_constraint": "ib&cpu_type=zen4"},
    memory=8 * 2**30,
)
FULL["lsf"] = job(
    "lsf",
    {
        **STATED, "queue": "gpu", "partition": "gpu", "memory_limit": 8 * 2**30, "core_count": 4, "gres": ("nvme:1",),
        "minimum_memory_per_processor": 2**28, "request_specific_nodes": ("node01", "node02"), "qos": "sla1",
        "reservation": "R12", "architecture_constraint": "(rome|milan)&cpu=zen4",
        "standard_output_file": "/home/me/out-%J.txt", "standard_error_file": "err.txt",
        "job_dependency": (
            JobDependency(kind="afterok", jobs=("12", "13[4]")), JobDependency(kind="afterany", jobs=("14",)),
            JobDependency(kind="after", jobs=("15",)), JobDependency(kind="afternotok", jobs=("16",)),
        ),
        "email_address": ("someone@site.example", "other"),
    },
    memory=8 * 2**30,
)  # fmt: skip
GPUS = {"slurm": "--gres=gpu:1", "torque": ":gpus=1", "pbspro": ":ngpus=1", "lsf": "num=1:j_exclusive=yes"}


@pytest.mark.component
@pytest.mark.parametrize("scheduler", RENDERERS)
def test_all_options(scheduler, tmp_path):
    text = render_script(FULL[scheduler], ScriptParts(**{**PARTS._asdict(), "gpu_request": GPUS[scheduler]}))
    assert_golden(f"scripts/{scheduler}-options.sh", text)
    path = tmp_path / "job.sh"
    path.write_text(text)
    found = subprocess.run([SHELLCHECK, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("scheduler", RENDERERS)
def test_what_is_declared_of_an_option_is_what_the_scheduler_is_told(scheduler):
    options = {**dict(FULL[scheduler].options), "standard_error_file": None, "combine_stdout_stderr": True}
    told = [*RENDERERS[scheduler](FULL[scheduler], GPUS[scheduler]), *(line for _, _, line in CASES)]
    told += RENDERERS[scheduler](job(scheduler, options, memory=8 * 2**30))
    declared = {
        name: re.match(r"`(--?\w[\w-]*(?: \w+=)?)", getattr(option, scheduler) or option.torque)
        for name, option in OPTIONS.items()
    }
    assert [
        name for name, found in declared.items() if found and not any(line.startswith(found[1]) for line in told)
    ] == []


CASES = [
    ("slurm", {"qos": "high"}, "--qos=high"),
    ("torque", {"qos": "high"}, "-l qos=high"),
    ("slurm", {"reservation": "maint-1"}, "--reservation=maint-1"),
    ("torque", {"reservation": "maint-1"}, "-l advres=maint-1"),
    ("slurm", {"gres": ("nvme:1", "tmp:ssd:100G")}, "--gres=nvme:1,tmp:ssd:100G"),
    ("slurm", {"exclude": ("n1", "n7")}, "--exclude=n1,n7"),
    ("slurm", {"licenses": ("scratch", "matlab@flex:2", "cfs=1")}, "--licenses=scratch,matlab@flex:2,cfs:1"),
    ("pbspro", {"licenses": ("filesystems=home:eagle", "matlab:2")}, "-l filesystems=home:eagle"),
    ("pbspro", {"licenses": ("filesystems=home:eagle", "matlab:2")}, "-l matlab=2"),
    ("pbspro", {"licenses": ("storage=scratch/ab1+gdata/ab1",)}, "-l storage=scratch/ab1+gdata/ab1"),
    ("pbspro", {"licenses": ("matlab",)}, "-l matlab=1"),
    ("slurm", {"job_array": "1,3,5-7%2"}, "--array=1,3,5-7%2"),
    ("torque", {"job_array": "1,3,5-7%2"}, "-t 1,3,5-7%2"),
    ("slurm", {"minimum_memory_per_processor": 3 * 2**20 + 1}, "--mem-per-cpu=4M"),
    ("torque", {"minimum_memory_per_processor": 1}, "-l pmem=1mb"),
    ("slurm", {"request_specific_nodes": ("bigmem",)}, "--constraint=bigmem"),
    ("slurm", {"request_specific_nodes": ("bigmem",), "architecture_constraint": "amd"}, '--constraint="bigmem&amd"'),
    ("slurm", {"architecture_constraint": "ib"}, "--constraint=ib"),
    ("slurm", {"architecture_constraint": "amd|intel"}, '--constraint="amd|intel"'),
    ("slurm", {"architecture_constraint": "[(ib&zen4)*2&big*1]"}, '--constraint="[(ib&zen4)*2&big*1]"'),
    ("slurm", {"request_specific_nodes": ("a", "b")}, "--nodelist=a,b"),
    ("torque", {"request_specific_nodes": ("bigmem",)}, "-l nodes=2:ppn=8:bigmem"),
    ("torque", {"request_specific_nodes": ("a", "b")}, "-l nodes=a:ppn=8+b:ppn=8"),
    ("torque", {"architecture_constraint": "amd&fast"}, "-l nodes=2:ppn=8:amd:fast"),
    ("torque", {"core_count": 4}, "-l procs=16"),
    ("slurm", {"core_count": 4}, "--ntasks=4"),
    ("slurm", {"copy_environment": True}, "--export=ALL"),
    ("torque", {"copy_environment": True}, "-V"),
    ("slurm", {"copy_environment_variable": ("A", "B=x:y")}, "--export=A,B=x:y"),
    ("torque", {"copy_environment_variable": ("A", "B=x:y")}, "-v A,B=x:y"),
    ("slurm", {"copy_environment": True, "copy_environment_variable": ("B=1",)}, "--export=ALL,B=1"),
    ("slurm", {"email_address": ("me@x",)}, "--mail-type=FAIL"),
    ("torque", {"email_address": ("me@x", "you")}, "-m a"),
    ("torque", {"email_address": ("me@x", "you")}, "-M me@x,you"),
    ("slurm", {"request_event_notification": ("begin", "end")}, "--mail-type=BEGIN,END"),
    ("torque", {"request_event_notification": ("begin", "end")}, "-m be"),
    ("slurm", {"defer_job": datetime(2027, 1, 2, 3, 4)}, "--begin=2027-01-02T03:04:00"),
    ("torque", {"defer_job": datetime(2027, 1, 2, 3, 4)}, "-a 202701020304.00"),
    ("slurm", {"standard_output_file": "out.txt"}, "--output=out.txt"),
    ("torque", {"standard_output_file": "out.txt"}, "-o out.txt"),
    ("torque", {"standard_output_file": "out.txt"}, "-j oe"),
    ("torque", {"partition": "east"}, "-l partition=east"),
    ("pbspro", {}, "-l select=2:ncpus=8:mpiprocs=2"),
    ("pbspro", {}, "-l place=scatter:exclhost"),
    ("pbspro", {"minimum_memory_per_processor": 2**30}, "-l select=2:ncpus=8:mpiprocs=2:mem=8192mb"),
    ("pbspro", {"architecture_constraint": "ib&cpu=zen4"}, "-l select=2:ncpus=8:mpiprocs=2:ib=True:cpu=zen4"),
    ("pbspro", {"request_specific_nodes": ("a",)}, "-l select=1:ncpus=8:mpiprocs=2:host=a+1:ncpus=8:mpiprocs=2"),
    ("pbspro", {"job_array": "1-12"}, "-J 1-12"),
    ("pbspro", {"project": "ab12"}, "-P ab12"),
    ("pbspro", {"partition": "gpu"}, "-q gpu"),
    ("torque", {"memory_limit": 2**30}, "-l mem=1024mb"),
    ("lsf", {}, "-n 16"),
    ("lsf", {}, '-R "span[ptile=8]"'),
    ("lsf", {}, "-W 36:00"),
    ("lsf", {}, "-x"),
    ("lsf", {"minimum_memory_per_processor": 2**30}, '-R "rusage[mem=8192MB/host]"'),
    ("lsf", {"minimum_memory_per_processor": 2**30}, "-M 16384MB"),
    ("lsf", {"gres": ("nvme:2", "tape")}, '-R "rusage[nvme=2/host]"'),
    ("lsf", {"gres": ("nvme:2", "tape")}, '-R "rusage[tape=1/host]"'),
    ("lsf", {"qos": "sla1"}, "-sla sla1"),
    ("lsf", {"reservation": "R12"}, "-U R12"),
    ("lsf", {"request_specific_nodes": ("a", "b")}, '-m "a b"'),
    ("lsf", {"request_specific_nodes": ("bigmem",)}, '-R "select[bigmem]"'),
    ("lsf", {"request_specific_nodes": ("big",), "architecture_constraint": "a|b"}, '-R "select[big && (a || b)]"'),
    ("lsf", {"architecture_constraint": "ib&cpu=zen4"}, '-R "select[ib && cpu==zen4]"'),
    ("lsf", {"copy_environment": True, "copy_environment_variable": ("A", "B=x:y")}, '-env "all, A, B=x:y"'),
    ("lsf", {"email_address": ("me@x", "you")}, '-u "me@x you"'),
    ("lsf", {"email_address": ("me@x",)}, "-Ne"),
    ("lsf", {"request_event_notification": ("begin", "end")}, "-B"),
    ("lsf", {"request_event_notification": ("abort", "begin", "end")}, "-N"),
    ("lsf", {"defer_job": datetime(2027, 1, 2, 3, 4)}, "-b 2027:1:2:3:04"),
    ("lsf", {"defer_job": datetime(2027, 12, 31, 23, 59, 1)}, "-b 2028:1:1:0:00"),
    ("lsf", {"standard_output_file": "out-%J.txt"}, "-o out-%J.txt"),
    ("lsf", {"partition": "gpu"}, "-q gpu"),
]


@pytest.mark.parametrize(
    ("scheduler", "line"), [("slurm", "--account="), ("torque", "-A "), ("pbspro", "-A "), ("lsf", "-P ")]
)
def test_an_account_may_have_the_kind_of_nodes_behind_its_name(scheduler, line):
    asked = job(scheduler, {}).model_copy(update={"account": "abc@v100"})
    assert f"{line}abc@v100" in RENDERERS[scheduler](asked)


@pytest.mark.parametrize(
    ("scheduler", "partition", "line"),
    [
        ("slurm", "gpu,preempt", "--partition=gpu,preempt"),
        ("torque", "workq@east", "-q workq@east"),
        ("pbspro", "workq@pbs-m1.example.org", "-q workq@pbs-m1.example.org"),
        ("lsf", "normal,short", '-q "normal short"'),
    ],
)
def test_a_job_is_sent_to_several_partitions_or_another_server(scheduler, partition, line):
    assert line in RENDERERS[scheduler](job(scheduler, partition=partition))


@pytest.mark.parametrize(
    ("scheduler", "partition"),
    [("slurm", "gpu,"), ("slurm", "gpu@east"), ("torque", "gpu,preempt"), ("pbspro", "a@b@c"), ("lsf", "gpu@east")],
)
def test_what_no_job_is_sent_to_is_refused(scheduler, partition):
    with pytest.raises(CannotExpress, match="as a (partition|queue)"):
        RENDERERS[scheduler](job(scheduler, partition=partition))


@pytest.mark.parametrize(("scheduler", "options", "line"), CASES)
def test_an_option_is_one_directive(scheduler, options, line):
    assert RENDERERS[scheduler](job(scheduler, options)).count(line) == 1


def test_separate_errors_are_not_joined():
    made = torque_directives(job("torque", {"standard_error_file": "err.txt"}))
    assert "-e err.txt" in made
    assert "-j oe" not in made
    assert not [line for line in slurm_directives(job("slurm", {"combine_stdout_stderr": True})) if "--error" in line]


REFUSED = [
    ("slurm", {"email_address": ("a@b", "c@d")}, "email_address", "one address"),
    ("slurm", {"job_array": "0-9%2%3"}, "job_array", "indices"),
    ("torque", {"job_array": "0-9:2"}, "job_array", "indices"),
    ("torque", {"job_dependency": (JobDependency(kind="singleton"),)}, "job_dependency", "no singleton"),
    ("slurm", {"job_dependency": (JobDependency(kind="afterok"),)}, "job_dependency", "names no job"),
    ("slurm", {"job_dependency": (JobDependency(kind="afterok", jobs=("12.server",)),)}, "job_dependency", "job's id"),
    ("slurm", {"job_dependency": (JobDependency(kind="singleton", jobs=("1",)),)}, "job_dependency", "same name"),
    ("torque", {"copy_environment_variable": ("A=1,2",)}, "copy_environment_variable", "comma"),
    ("slurm", {"copy_environment_variable": ("A=1 2",)}, "copy_environment_variable", "space"),
    ("slurm", {"copy_environment_variable": ("PYTHONPATH",)}, "copy_environment_variable", "would be unset"),
    ("slurm", {"standard_output_file": "logs/out.txt"}, "standard_output_file", "will not exist"),
    ("torque", {"standard_output_file": "out-%j.txt"}, "standard_output_file", "PBS does not replace"),
    ("slurm", {"standard_output_file": "out-%q.txt"}, "standard_output_file", "not a pattern"),
    ("slurm", {"standard_error_file": "error.log"}, "standard_error_file", "one of modak's own files"),
    ("slurm", {"standard_output_file": "~/out.txt"}, "standard_output_file", "cannot be written"),
    ("slurm", {"defer_job": datetime(2027, 1, 1, tzinfo=UTC)}, "defer_job", "local time"),
    ("torque", {"request_specific_nodes": ("a", "b", "c")}, "request_specific_nodes", "3 nodes are named"),
    ("torque", {"request_specific_nodes": ("3",)}, "request_specific_nodes", "name of a node"),
    ("torque", {"architecture_constraint": "a|b"}, "architecture_constraint", "property"),
    ("torque", {"architecture_constraint": "a*2"}, "architecture_constraint", "property"),
    ("slurm", {"architecture_constraint": "a&"}, "architecture_constraint", "Slurm cannot select nodes by"),
    ("slurm", {"architecture_constraint": "a*2&b"}, "architecture_constraint", "Slurm cannot select nodes by"),
    ("slurm", {"architecture_constraint": "[a|[b]]"}, "architecture_constraint", "Slurm cannot select nodes by"),
    ("slurm", {"architecture_constraint": "a;b"}, "architecture_constraint", "Slurm cannot select nodes by"),
    (
        "slurm", {"architecture_constraint": "a|b", "request_specific_nodes": ("big",)}, "architecture_constraint",
        "cannot be combined",
    ),
    ("torque", {"core_count": 4, "architecture_constraint": "a"}, "core_count", "cannot request nodes"),
    ("pbspro", {"architecture_constraint": "a|b"}, "architecture_constraint", "resources with values"),
    ("pbspro", {"request_specific_nodes": ("a", "b", "c")}, "request_specific_nodes", "3 nodes are named"),
    ("pbspro", {"qos": "high"}, "qos", "no qualities of service"),
    ("pbspro", {"reservation": "R12"}, "reservation", "is a queue"),
    ("pbspro", {"gres": ("nvme",)}, "gres", "no generic resources"),
    ("slurm", {"licenses": ("filesystems=home:eagle",)}, "licenses", "has no number"),
    ("slurm", {"licenses": ("a b",)}, "licenses", "as a licence"),
    ("slurm", {"exclude": ("n[1-2]",)}, "exclude", "as the name of a node"),
    ("torque", {"exclude": ("n1",)}, "exclude", "cannot exclude nodes"),
    ("pbspro", {"exclude": ("n1",)}, "exclude", "cannot exclude nodes"),
    ("lsf", {"exclude": ("n1",)}, "exclude", "not supported on LSF"),
    ("pbspro", {"licenses": ("walltime=01:00:00",)}, "licenses", "other options of the job already set"),
    ("torque", {"licenses": ("matlab",)}, "licenses", "does not count licences"),
    ("lsf", {"licenses": ("matlab",)}, "licenses", "not supported on LSF"),
    ("torque", {"gres": ("nvme",)}, "gres", "no generic resources"),
    ("slurm", {"gres": ("nvme 1",)}, "gres", "as a generic resource"),
    ("pbspro", {"job_dependency": (JobDependency(kind="singleton"),)}, "job_dependency", "no singleton"),
    ("lsf", {"job_dependency": (JobDependency(kind="singleton"),)}, "job_dependency", "no singleton"),
    ("lsf", {"job_dependency": (JobDependency(kind="afterok"),)}, "job_dependency", "names no job"),
    ("lsf", {"job_dependency": (JobDependency(kind="afterok", jobs=("12.server",)),)}, "job_dependency", "job id"),
    ("lsf", {"job_array": "0-9"}, "job_array", "not supported on LSF"),
    ("lsf", {"gres": ("gpu:a100:2",)}, "gres", "a name and a number"),
    ("lsf", {"request_specific_nodes": ("a", "b", "c")}, "request_specific_nodes", "3 nodes are named"),
    ("lsf", {"architecture_constraint": "[a|b]"}, "architecture_constraint", "select hosts by"),
    ("lsf", {"architecture_constraint": "ib-hdr"}, "architecture_constraint", "select hosts by"),
    ("lsf", {"standard_output_file": "out-%j.txt"}, "standard_output_file", "not a pattern of LSF"),
    ("slurm", {"combine_stdout_stderr": True, "standard_error_file": "e"}, "combine_stdout_stderr", "errors are to go to e"),
]  # fmt: skip


@pytest.mark.parametrize(("scheduler", "options", "about", "words"), REFUSED)
def test_what_a_scheduler_cannot_be_told_is_refused(scheduler, options, about, words):
    with pytest.raises(CannotExpress, match=words) as caught:
        RENDERERS[scheduler](job(scheduler, options))
    assert caught.value.about == f"job_options.{about}"


@pytest.mark.parametrize(
    ("gpus", "lines"),
    [
        ("--gres=gpu:a100:2", ["--gres=gpu:a100:2,nvme:1"]),
        ("--gpus-per-node=2", ["--gpus-per-node=2", "--gres=nvme:1"]),
        ("", ["--gres=nvme:1"]),
    ],
)
def test_accelerators_and_other_generic_resources_share_the_one_directive_that_counts(gpus, lines):
    made = slurm_directives(job("slurm", {"gres": ("nvme:1",)}), gpus)
    assert [line for line in made if "gres" in line or "gpus" in line] == lines


def test_memory_of_nodes_and_of_cores_exclude_each_other_under_slurm():
    with pytest.raises(CannotExpress, match="not both"):
        slurm_directives(job("slurm", {"minimum_memory_per_processor": 2**30}, memory=2**30))


# --- whatever a user writes stays in its directive

FIELDS = {
    "job_name": ("--job-name=", "-N "), "account": ("--account=", "-A "), "partition": ("--partition=", "-q "),
    "architecture_constraint": ("--constraint=", "-l nodes="), "request_specific_nodes": ("--nodelist=", "-l nodes="),
    "job_array": ("--array=", "-t "), "standard_output_file": ("--output=", "-o "),
    "standard_error_file": ("--error=", "-e "), "copy_environment_variable": ("--export=", "-v "),
    "job_dependency": ("--dependency=", "-W depend="), "email_address": ("--mail-user=", "-M "),
    "outer_partition": ("", "-l partition="),
}  # fmt: skip
OF_LSF = {
    "job_name": "-J ", "account": "-P ", "architecture_constraint": '-R "select[', "request_specific_nodes": "-m ",
    "copy_environment_variable": "-env ", "job_dependency": "-w ", "email_address": "-u ",
}  # fmt: skip
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text(st.sampled_from("ab1 \t\n\r\v\f\0#$`'\"\\;|&<>(){}[]=,:@%+-./~*?!^\u2028\u0085\u00e9"), max_size=20),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}([\n ,:=]#?(SBATCH|PBS) ?--?[a-z]+=?[a-z0-9]*)?", fullmatch=True),
)


def spoilt(scheduler, field, value):
    """A job with a hostile value in one place."""
    lists = ("request_specific_nodes", "copy_environment_variable", "email_address")
    if field == "job_name":
        return job(scheduler, name=value)
    if field in ("account", "partition"):
        return job(scheduler, **{field: value})
    if field == "outer_partition":
        return job(scheduler, {"partition": value})
    if field == "job_dependency":
        return job(scheduler, {field: (JobDependency(kind="afterok", jobs=(value,)),)})
    return job(
        scheduler, {field: (value, "a") if field == "request_specific_nodes" else (value,) if field in lists else value}
    )


def read_back(scheduler, text):
    """The directives as the scheduler finds them: sbatch and qsub stop at the first command."""
    found = []
    for line in text.splitlines()[1:]:
        if line.startswith(PREFIXES[scheduler]):
            found.append(line[len(PREFIXES[scheduler]) :])
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


@pytest.mark.parametrize("scheduler", RENDERERS)
@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=settings.default.max_examples // 2)  # of each field with each scheduler
@given(value=HOSTILE)
@example("a\n#SBATCH --uid=0")
@example("a --uid=0")
@example("-a")
def test_a_hostile_value_is_refused_or_stays_in_its_directive(scheduler, field, value):
    prefix = FIELDS[field][0 if scheduler == "slurm" else 1]
    if scheduler == "pbspro":
        prefix = {"-l nodes=": "-l select=", "-t ": "-J "}.get(prefix, prefix)
    if scheduler == "lsf":
        prefix = OF_LSF.get(field, prefix)
        if field == "job_array":
            return  # it is refused whatever it says
    usual = RENDERERS[scheduler](spoilt(scheduler, field, "1" if field in ("job_dependency", "job_array") else "plain"))
    made = spoilt(scheduler, field, value)
    try:
        lines = RENDERERS[scheduler](made)
    except CannotExpress:
        return
    assert read_back(scheduler, render_script(made, PARTS)) == lines
    others = [line for line in lines if not (prefix and line.startswith(prefix))]
    if value:
        assert len(lines) == len(usual)
        assert others == [line for line in usual if not (prefix and line.startswith(prefix))]
    for line in lines:
        if scheduler == "lsf":
            assert re.fullmatch(r'-[A-Za-z]+( "[A-Za-z0-9_.:=,+@/%&|()\[\] -]*"| [A-Za-z0-9_.:=,+@/%-]*)?', line)
            continue
        assert re.fullmatch(
            r'--?[A-Za-z-]+(="[A-Za-z0-9_.:=+&|*()\[\]-]*"|[= ][A-Za-z0-9_.:=,+@/{}%&|\[\]-]*)?'
            r"( ?[A-Za-z0-9_.:=,+@/%&\[\]-]*)?",
            line,
        )
        assert line.count(" ") <= (0 if scheduler == "slurm" else 1)


# --- constraints on nodes: what sbatch's own words can say is told it, to the letter

FEATURE = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]{0,5}", fullmatch=True)


def joined(each, least=1):
    return st.lists(each, min_size=least, max_size=3).flatmap(
        lambda items: st.lists(st.sampled_from("&|"), min_size=len(items) - 1, max_size=len(items) - 1).map(
            lambda signs: "".join(map("".join, zip(["", *signs], items, strict=True)))
        )
    )


GROUP = st.one_of(FEATURE, joined(FEATURE).map("({})".format))
COUNTED = st.tuples(GROUP, st.sampled_from(["", "*1", "*12"])).map("".join)
CONSTRAINT = st.one_of(FEATURE.map("{}*2".format), joined(st.one_of(GROUP, joined(COUNTED).map("[{}]".format))))


@given(CONSTRAINT)
def test_slurm_is_told_a_constraint_as_it_stands(text):
    assert constraint_problem(text) == ""
    made = job("slurm", {"architecture_constraint": text})
    (line,) = (each for each in read_back("slurm", render_script(made, PARTS)) if each.startswith("--constraint="))
    assert shlex.split(line) == [f"--constraint={text}"]


@given(st.text(st.sampled_from("ab1&|*()[] ,;$'\"\n"), max_size=12))
def test_a_constraint_is_one_word_of_the_directive_or_refused(text):
    made = job("slurm", {"architecture_constraint": text})
    try:
        lines = [directive for directive in slurm_directives(made) if directive.startswith("--constraint=")]
    except CannotExpress as error:
        assert error.about == "job_options.architecture_constraint"
        return
    assert [shlex.split(line) for line in lines] == [[f"--constraint={text}"]] * bool(text)
    assert not set(text) & set(" ,;$'\"\n")
    assert all(text.count(opening) == text.count(closing) for opening, closing in ("()", "[]"))


@pytest.mark.parametrize(
    ("name", "proposed"), [("3d-unet", "job-3d-unet"), ("resnet-1.5", "resnet-1-5"), ("_a", "job-_a")]
)
def test_names_that_openpbs_refuses_are_refused_before(name, proposed):
    with pytest.raises(CannotExpress) as caught:
        pbspro_directives(job("pbspro", name=name))
    assert (caught.value.about, caught.value.hint) == ("job_options.job_name", f"job_name: {proposed}")
    assert pbspro_directives(job("pbspro", name=proposed))[0] == f"-N {proposed}"
    assert torque_directives(job("torque", name=name))[0] == f"-N {name}"  # a real one took such names
