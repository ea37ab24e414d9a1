"""One trial: the user's own script in a process of its own, in a copy of its folder, ended after so many steps."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from modak_tuner.halving import Failed, Stopped, TooSlow

_GRACE = 3.0  # seconds that a process has to end by itself
_WORDS = 300  # characters of its own that are shown of a script's error
_DATASET = "{dataset}"
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+", re.ASCII)  # no option to Python's parsers, as -1e-5 is


def command_of(plan, candidate, python, dataset):
    """The words of a candidate's command, as the job's script has them."""
    command = [python, plan["application"]["script"]]
    for name, value in candidate["arguments"]:
        if value is False:
            continue
        option = "-" + name if len(name) == 1 else "--" + name
        if value is True:
            command.append(option)
        elif len(name) > 1 and value.startswith("-") and not _NEGATIVE.fullmatch(value):
            command.append(option + "=" + _filled(value, dataset))
        else:
            command += [option, _filled(value, dataset)]
    return command + [_filled(word, dataset) for word in plan["application"]["words"]]


def _filled(word, dataset):
    """A word with folders in the places of {dataset}, {dataset.NAME} and {after:TRAINING}, as the script has it."""
    return re.sub(r"\{(dataset\.|after:)([^{}]*)\}", _folder, word.replace(_DATASET, dataset))


def _folder(match):
    kind = "MODAK_AFTER_" if match.group(1) == "after:" else "MODAK_DATASET_"
    return os.environ.get(kind + re.sub(r"[^A-Z0-9]", "_", match.group(2).upper()), "")


def environment_of(base, candidate, folder, steps, seconds):
    """What a trial's process sees: nothing that it measures or applies gets into the user's results."""
    runtime = base.get("PYTHONPATH", "").partition(os.pathsep)[0]
    dataset = base.get("MODAK_DATASET", "")
    own_variables = {name: _filled(value, dataset) for name, value in candidate["environment"]}
    environment = dict(base, **own_variables)
    if "PYTHONPATH" in own_variables:
        environment["PYTHONPATH"] = os.pathsep.join([runtime, own_variables["PYTHONPATH"]])
    environment.update(
        PYTHONNOUSERSITE="1",
        PYTHONUNBUFFERED="1",
        MODAK_LAUNCHED="%.3f" % time.time(),
        MODAK_APPLIED=os.path.join(folder, "applied.json"),
        MODAK_METRICS=os.path.join(folder, "metrics.json"),
        MODAK_TRIAL_STEPS=str(steps),
        MODAK_TRIAL_SECONDS="%.3f" % seconds,
    )
    return environment


class Runner:
    """Runs trials of one deployment.

    Args:
        deployment: its folder, with the user's files below ``code``.
        plan: its plan.
        python: the interpreter.
        chooses: whether the best is to be chosen; else they are compared, and what one does not apply is not applied
            in the training, either.
    """

    def __init__(self, deployment, plan, python, chooses=True):
        self._deployment, self._plan, self._python = deployment, plan, python
        self._choice_values = plan["tuning"]["candidates"][0]["values"] if chooses else None
        self._process, self._signal = None, 0

    @property
    def is_stopped(self):
        return bool(self._signal)

    def stop(self, number, _frame=None):
        """Ends the trial that runs, and the tuning with it; a handler for signals."""
        self._signal = number
        _end(self._process, signal.SIGKILL)

    def run(self, candidate, steps, seconds):
        """The steps of a candidate, as the runtime in its process reports them.

        Raises:
            Failed: it crashed, counted no steps or did not apply what it is to be chosen for.
            Stopped: somebody wants the tuning to end.
        """
        self._check()
        folder = tempfile.mkdtemp(prefix="trial-", dir=self._deployment)
        try:
            code = self._execute(candidate, folder, steps, seconds)
            self._check()
            return _judged(code, folder, seconds, self._tells_apart(candidate))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _tells_apart(self, candidate):
        """What a candidate has to apply: what it differs in from the plan's choice, which trains as it is, too."""
        if self._choice_values is None:
            return set()
        names = {name for name, value in candidate["values"].items() if self._choice_values.get(name) != value}
        return names | ({"accumulation"} if "batch_size" in names else set())  # one choice in the plan

    def _check(self):
        if self._signal:
            raise Stopped("signal %d stopped it" % self._signal)

    def _execute(self, candidate, folder, steps, seconds):
        code = shutil.copytree(os.path.join(self._deployment, "code"), os.path.join(folder, "code"), symlinks=True)
        self._mount(code)
        began = time.monotonic()
        dataset = os.environ.get("MODAK_DATASET", "")
        with open(os.path.join(folder, "output"), "wb") as output, open(os.path.join(folder, "error"), "wb") as error:
            try:
                self._process = subprocess.Popen(
                    command_of(self._plan, candidate, self._python, dataset),
                    env=environment_of(os.environ, candidate, folder, steps, seconds),
                    cwd=code, stdin=subprocess.DEVNULL, stdout=output, stderr=error, start_new_session=True,
                )  # fmt: skip
            except (OSError, ValueError) as problem:
                raise Failed("it could not be started: %s" % problem) from problem
            try:
                return self._process.wait(timeout=max(0.0, seconds - (time.monotonic() - began)) + _GRACE)
            except subprocess.TimeoutExpired:
                _end(self._process, signal.SIGTERM)
                return None
            finally:
                _end(self._process, signal.SIGKILL)
                self._process.wait()
                self._process = None

    def _mount(self, code):
        """Puts data that lies beside the script's folder where the copy of it finds it; what is below was copied."""
        for dataset in [self._plan.get("dataset") or {}] + self._plan.get("more_datasets", []):
            place = dataset.get("mount_as", "")
            if place.startswith("../"):
                link = os.path.join(code, place)
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.symlink(os.readlink(os.path.join(self._deployment, "code", place)), link)


def _end(process, number):
    """Sends a signal to a process and to what it started."""
    if process is None:
        return
    try:
        os.killpg(process.pid, number)
    except OSError:
        return  # all of them have ended
    if number == signal.SIGTERM:
        try:
            process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            return


def _judged(code, folder, seconds, names):
    """The steps that a trial reported, where it is one and applied the choices of these names."""
    if code:
        words = _last_line(os.path.join(folder, "error"))
        raise Failed("it ended with %s%s" % (_name_of(code), ": " + words if words else ""))
    try:
        with open(os.path.join(folder, "applied.json")) as file:
            report = json.load(file)
    except (OSError, ValueError) as problem:
        if code is None:
            raise TooSlow("it completed no step in %.0f s" % seconds) from problem
        raise Failed("it reported no steps") from problem
    for name, choice in sorted(report["choices"].items()):
        if name in names and choice["applied"] is None:
            raise Failed("%s %s was not applied: %s" % (name, choice["planned"], choice["reason"] or "no reason given"))
    steps = report.get("steps") or {}
    if not steps.get("count"):
        kind = TooSlow if (steps.get("total_seconds") or 0.0) >= seconds else Failed
        raise kind("none of its steps were counted in %.0f s" % (steps.get("total_seconds") or seconds))
    imports = [framework.get("import_seconds") or 0.0 for framework in (report.get("frameworks") or {}).values()]
    reported = ("hostname", "processor", "accelerator", "frameworks", "choices", "peak_memory_bytes")
    # the longest has those within it that it imports
    return dict(steps, import_seconds=max(imports, default=0.0), report={name: report.get(name) for name in reported})


def _name_of(code):
    return "exit code %d" % code if code > 0 else "signal %d" % -code


def _last_line(path):
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 4096))
        lines = file.read().decode("utf-8", "replace").split("\n")
    lines = ["".join(c if c.isprintable() else " " for c in line).strip() for line in lines]
    return ([line for line in lines if line] or [""])[-1][:_WORDS]
