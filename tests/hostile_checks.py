"""Checks that take hostile texts through a renderer and then through the program that reads what was rendered.

Each of CHECKS makes, in a folder of its own, a function of hypothesis's data; the unit tests call it a few times, the
integration tests often. A text that cannot be rendered safely must be refused with words of its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess

from hostile import HOSTILE, PRINTABLE, Recorded, post_of
from hypothesis import strategies as st

from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import ModakError
from modak_ansible.model.application import Build
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.recipes.apptainer import pulled_definition, requirements_definition
from modak_ansible.recipes.environment import environment_script
from modak_ansible.recipes.libraries.place import PYTHON
from modak_ansible.schedulers.script import DataPlace, ScriptParts, render_script
from modak_ansible.transport.ssh import connect

BATCH = 12  # values of a kind in one script
MANY = st.lists(PRINTABLE, min_size=BATCH, max_size=BATCH)


def job(scheduler="none", **changes):
    values = {
        "scheduler": Scheduler(scheduler), "name": "example", "nodes": 1, "processes_per_node": 1,
        "cores_per_process": 1, "threads": 1, "walltime": 600, "environment": {}, "script": "",
    }  # fmt: skip
    return PlannedJob(**{**values, **changes})


def deployment_in(folder):
    """A deployment's folder below a workspace with an image and its seal."""
    deployment = folder / "deployments" / "one"
    subprocess.run(["rm", "-rf", str(deployment)], check=True)
    (deployment / "code").mkdir(parents=True)
    (folder / "images").mkdir(exist_ok=True)
    (folder / "images" / "abc.sif").write_text("image")
    (folder / "images" / "abc.seal").write_text("6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d x\n")
    return deployment


def option(name, value):
    """The words of an option as argparse reads them: a value that looks like an option is one of them with its name."""
    is_alike = value.startswith("-") and not re.fullmatch(r"-\d+|-\d*\.\d+", value)
    return [f"{name}={value}"] if is_alike else [name, value]


def job_scripts(folder):
    """Arguments, environment, words, binds, modules and the user's own lines, through bash, to a container's runtime."""
    recorded = Recorded(folder, "apptainer", "module")

    def check(data):
        words, values, lines = data.draw(MANY), data.draw(MANY), data.draw(MANY)
        script = data.draw(PRINTABLE.filter(bool))
        words = [word.replace("{dataset}", "") for word in words]
        parts = ScriptParts(
            image="images/abc.sif", seal="images/abc.seal", python="/bin/python", script=script,
            container_runtime="apptainer", binds=tuple(words), modules=tuple(values),
            environment=tuple((f"V{number}", text) for number, text in enumerate(values)),
            arguments=tuple((f"a{number}", text) for number, text in enumerate(words)), words=tuple(words),
            pre=tuple(f"export VPRE{number}={shlex.quote(line)}" for number, line in enumerate(lines)),
            post=tuple(f"apptainer post {shlex.quote(line)}" for line in lines),
        )  # fmt: skip
        deployment = deployment_in(folder)
        (deployment / "job.sh").write_text(render_script(job(), parts))
        done = recorded.run("bash", deployment / "job.sh", cwd=deployment)
        recorded.check_nothing_was_executed()
        said = (deployment / "error.log").read_text(errors="replace") + done.stderr
        assert done.returncode == 0, said
        assert said == ""
        calls = recorded.calls()
        assert [call[:3] for call in calls[:BATCH]] == [["module", "load", value] for value in values]
        (inside,) = (call for call in calls if call[1] == "exec")
        pre = [f"VPRE{number}={line}" for number, line in enumerate(lines)]
        assert sorted(inside[-BATCH:]) == sorted(pre)
        given = inside[:-BATCH]
        binds = [word for bind in words for word in ("--bind", bind)]
        workspace = str(folder)
        assert given[:4] == ["apptainer", "exec", "--bind", workspace]
        assert given[4 : 4 + 2 * BATCH] == binds
        tail = [*(f"V{number}={value}" for number, value in enumerate(values)), "/bin/python", script]
        tail += [word for number, value in enumerate(words) for word in option(f"--a{number}", value)] + words
        assert given[-len(tail) :] == tail
        assert [call[2] for call in calls if call[1] == "post"] == lines

    return check


def programs(folder):
    """A program of the user's that is built from sources: their address, the commands, and its words."""
    recorded = Recorded(folder, "git", "program")
    with (recorded.bin / "git").open("a") as git:
        git.write('mkdir "${@: -1}"\n')

    def check(data):
        words, address, command = data.draw(MANY), data.draw(HOSTILE), data.draw(PRINTABLE)
        address = f"https://host.example/{address}"
        if rules.source_problem(address):
            address = "https://host.example/a.git"
        parts = ScriptParts(
            image="", python="", script="", command=("program", *words), words=tuple(words),
            build=Build(kind="git", source=address, command=f"program {shlex.quote(command)}"),
        )  # fmt: skip
        deployment = deployment_in(folder)
        (deployment / "job.sh").write_text(render_script(job(), parts))
        done = recorded.run("bash", deployment / "job.sh", cwd=deployment)
        recorded.check_nothing_was_executed()
        assert done.returncode == 0, (deployment / "error.log").read_text(errors="replace")
        calls = recorded.calls()
        assert calls[0][-3:-1] == ["--", address]
        assert calls[1] == ["program", command]
        assert calls[2] == ["program", *words, *words]

    return check


def paths(folder):
    """Paths of the target's: what the rules let through stands in the script as one word, and below its folder."""
    recorded = Recorded(folder, "apptainer")
    names = ("image", "dataset", "staging_path", "python", "signing_key")

    def check(data):
        values = {name: data.draw(HOSTILE) for name in names}
        refused = [name for name, path in values.items() if rules.path_problem(path)]
        for name in refused:
            assert rules.quote(values[name]).isprintable()
            values[name] = "/plain"
        assert not any(".." in value.split("/") for value in values.values())
        data_place = DataPlace(name="data", path=values.pop("dataset"))
        parts = ScriptParts(script="train.py", container_runtime="apptainer", data=(data_place,), **values)
        deployment = deployment_in(folder)
        (deployment / "job.sh").write_text(render_script(job(), parts))
        done = recorded.run("bash", deployment / "job.sh", cwd=deployment)
        recorded.check_nothing_was_executed()
        said = (deployment / "error.log").read_text(errors="replace") + done.stderr
        assert "syntax error" not in said
        assert "command not found" not in said

    return check


def requirements(folder):
    """Packages of the user's, through the %post of a definition and the script of an environment."""
    recorded = Recorded(folder, "python", "python3", "python3.12")
    # one that installs nothing, as programs that only write down what they are given have no version
    entry = next(entry for entry in load_catalogue().entries if entry.requirements).model_copy(
        update={"requirements": ()}
    )
    markers = PRINTABLE.map(lambda text: f'six; python_version != "{text}"')

    def check(data):
        texts = data.draw(st.lists(st.one_of(HOSTILE, markers, st.just("six==1.17.0")), min_size=6, max_size=6))
        good = [text for text in texts if not rules.requirement_problem(text)] or ["six"]
        assert all(line[:1].isalnum() and "{" not in line and "$" not in line for line in good)
        definition = requirements_definition(good, "0" * 64)
        usual = requirements_definition(["six"], "0" * 64)
        sections = [line for line in definition.splitlines() if line.startswith("%")]
        assert sections == [line for line in usual.splitlines() if line.startswith("%")]
        assert len(definition.splitlines()) == len(usual.splitlines())
        commands = post_of(definition).replace(PYTHON, "python").replace("rm -rf", "true").replace("rm -f", "true")
        commands = commands.replace("/opt/modak", str(folder / "kept"))
        done = recorded.run("bash", "-euc", commands)
        recorded.check_nothing_was_executed()
        assert done.returncode == 0, done.stderr
        assert recorded.calls()[0] == ["python", "-m", "pip", "install", "--no-cache-dir", *good]
        script = environment_script(entry, good, "3.12").replace('"$1/bin/python"', "python")
        (folder / "made").mkdir(exist_ok=True)  # as venv does, which is only recorded here
        done = recorded.run("sh", "-c", script, "script", folder / "made")
        recorded.check_nothing_was_executed()
        assert done.returncode == 0, done.stderr
        (installed,) = (call for call in recorded.calls() if call[-len(good) :] == good and "install" in call)
        assert installed[1:3] == ["-m", "pip"]

    return check


def images(folder):
    """An image's address or path stands in two lines of a definition, or is refused."""

    def check(data):
        from modak_ansible.reading.blueprint.forms.text_rules import image_problem

        for text in data.draw(st.lists(HOSTILE, min_size=BATCH, max_size=BATCH)):
            for source in (text, f"docker://{text}", f"oras://registry.example/{text}", f"/images/{text}.sif"):
                if image_problem(source):
                    continue
                definition = pulled_definition(source)
                assert len(definition.splitlines()) == 2
                assert definition.splitlines()[1].split()[1:] == [source.partition("://")[2] or source]
                assert not source.startswith("-")

    return check


def connections(folder):
    """Addresses, users and keys: ssh itself reads them back as they were given, and nothing else beside them."""
    recorded = Recorded(folder)

    def check(data):
        address, user, key = data.draw(HOSTILE), data.draw(HOSTILE), data.draw(HOSTILE)
        address = "host.example" if rules.address_problem(address) else address
        user = "alice" if rules.user_problem(user) else user
        key = "key" if not key or key.startswith(("/", "~")) or ".." in key or "\0" in key else key
        fields = {"name": "t", "scheduler": Scheduler.SLURM, "address": address, "username": user}
        try:
            made = connect(Target(**fields, identity_file=key), folder / "testbed", folder, folder)
        except ModakError as error:
            assert "cannot be used in a configuration of SSH" in error.message
            made = connect(Target(**fields), folder / "testbed", folder, folder)
            key = ""
        done = recorded.run("ssh", "-G", "-F", made.config, made.address)
        recorded.check_nothing_was_executed()
        assert done.returncode == 0, done.stderr
        said = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
        known = dict(said)
        assert known["user"] == user
        assert known["stricthostkeychecking"] == "true"
        assert known.get("proxycommand", "none") == "none"
        assert "localcommand" not in known
        if key:
            assert [value for name, value in said if name == "identityfile"] == [str(folder / key).replace("%", "%%")]

    return check


CHECKS = {
    "job scripts": job_scripts, "programs": programs, "paths": paths, "requirements": requirements, "images": images,
    "connections": connections,
}  # fmt: skip
