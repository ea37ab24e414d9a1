"""What was planned for this process and what was really applied, in the file that MODAK_APPLIED names."""

import atexit
import os
import sys

SCHEMA = "modak.applied/1"
# Whoever starts the processes of a parallel job numbers them; the first one reports, and others that have a file of
# their own, which lies in ranks/N.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


class Report:
    """The report of one process.

    Args:
        path: of the file; empty where nobody asks for one.
        planned: what the plan chose, by name.
    """

    def __init__(self, path, planned):
        self.path, self.planned = path, planned
        self.frameworks = {}
        self.mistakes = []
        self.accelerator = ""
        self.prepared = False
        self.trainer = ""  # the library whose trainer runs the loop, and is told what a script's own line would be
        self.memory = None  # of a script that is traced, what it needs
        self._choices = {}
        self._steps = self._energy = None
        self._process = os.getpid()
        self.ranks = None  # of a training that prepare made parallel, which of how many this process is
        ranks = [os.environ[name] for name in _RANKS if os.environ.get(name, "0") != "0"]
        parent = os.path.split(os.path.dirname(path))
        self._silent = bool(ranks) and not (parent[1] in ranks and os.path.basename(parent[0]) == "ranks")

    def watch(self, steps):
        """Takes the clock of the steps, and writes when the process ends."""
        self._steps = steps
        if self.speaks() and not self._energy:
            from modak_runtime.energy import Energy

            self._energy = Energy()
        atexit.register(self.write, finished=True)
        atexit.register(steps.tell)

    @property
    def steps_made(self):
        """How many steps this process has made."""
        return self._steps.count if self._steps else 0

    def framework(self, name, version, seconds):
        """Notes a framework, and how long its import took."""
        self.frameworks[name] = {"version": str(version), "import_seconds": round(seconds, 4)}
        if self._energy and self.speaks() and name != "numpy":
            self._energy.count_gpus()

    def applied(self, name, how, note=""):
        """Notes that a choice acts; what refused it for another object before is forgotten."""
        self._choices[name] = {"applied": self.planned[name], "how": how, "reason": note}

    def stands(self, name, value, how):
        """Notes what acts in the place of a choice that has nothing to act on, unless it does for another object."""
        if name in self.planned and (self._choices.get(name) or {}).get("applied") != self.planned[name]:
            self._choices[name] = {"applied": value, "how": how, "reason": ""}

    def refused(self, name, reason, how=""):
        """Notes why a choice does not act, unless it does for another object."""
        if name in self.planned and (self._choices.get(name) or {}).get("applied") is None:
            self._choices[name] = {"applied": None, "how": how, "reason": reason}

    def is_refused(self, name):
        """Whether somebody said already why a choice does not act."""
        return name in self._choices and self._choices[name]["applied"] is None

    def withdrawn(self, name, reason, how=""):
        """Notes why a choice acts no longer."""
        self._choices.pop(name, None)
        self.refused(name, reason, how)

    def mistake(self, where, error):
        """Notes an error of our own; what it was to apply is not applied."""
        self.mistakes.append("%s: %s: %s" % (where, type(error).__name__, error))

    def as_dict(self, finished):
        unknown = {"applied": None, "how": "", "reason": self._why_not()}
        choices = {
            name: dict({"planned": value}, **self._choices.get(name, unknown)) for name, value in self.planned.items()
        }
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "schema": SCHEMA,
            "finished": finished,
            "frameworks": self.frameworks,
            "hostname": os.uname().nodename,
            "processor": {"model": _processor(), "architecture": os.uname().machine},
            "accelerator": self.accelerator,
            "choices": choices,
            "steps": self._steps.as_dict() if self._steps else None,
            "energy": self._energy.as_dict() if self._energy else None,
            "peak_memory_bytes": usage.ru_maxrss * 1024,  # Linux counts in KiB
            "ranks": self.ranks,
            **({"memory": self.memory} if self.memory else {}),
            "mistakes": self.mistakes,
        }

    def speaks(self):
        """Whether this process is the one that reports, and is asked to."""
        return bool(self.path) and not self._silent and os.getpid() == self._process

    def write(self, finished=False):
        """Writes the file as a whole; a helper process without steps leaves that of the training alone."""
        if not self.speaks():
            return
        if not self.prepared and not (self._steps and self._steps.count) and os.path.exists(self.path):
            return
        import json  # a process that writes nothing need not wait for it

        text = json.dumps(self.as_dict(finished), indent=1, sort_keys=True) + "\n"
        if not write_whole(self.path, text):
            self.path = ""

    def _why_not(self):
        if self.mistakes:
            return self.mistakes[-1]
        if "keras" in self.frameworks:
            return "no Keras model was compiled and fitted"
        if self.trainer:
            return "the trainer of %s trained nothing that it applies to" % self.trainer
        if "torch" in self.frameworks and not self.prepared:
            return "the script does not call prepare"
        if "torch" in self.frameworks:
            return "prepare was given nothing that it applies to"
        return "the script imported no framework that it applies to"


class Without:
    """A report in which some choices are not planned."""

    def __init__(self, report, names):
        self._report = report
        self.planned = {name: value for name, value in report.planned.items() if name not in names}

    def __getattr__(self, name):
        return getattr(self._report, name)


def _processor():
    """What the processor is called, as target/core/probe.py of modak_ansible says it; empty where nobody says."""
    try:
        with open("/proc/cpuinfo") as lines:
            first_processor = lines.read().partition("\n\n")[0]
    except OSError:
        return ""
    fields = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first_processor.split("\n"))
    }
    name, family, model = (fields.get(field, "") for field in ("model name", "cpu family", "model"))
    if name and family and model and not any(letter.isdigit() for letter in name):
        return "%s family %s model %s" % (name, family, model)
    return name


def write_whole(path, text):
    """Writes a file as a whole; gives whether it could, for a full disk is no reason to end a training."""
    part = "%s.%d.part" % (path, os.getpid())
    try:
        with open(part, "w") as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        warn("%s cannot be written: %s" % (path, error.strerror))
        return False
    return True


def warn(words):
    """Writes a line to standard error, where that takes it: its file may be on the disk that is full."""
    try:  # noqa: SIM105 - contextlib would be imported in every process for it
        sys.stderr.write("modak: %s\n" % words)
    except OSError:
        pass


def parsed(choices):
    """The choices of MODAK_CHOICES: ``compiler=inductor memory_format=channels_last``."""
    return dict(word.partition("=")[::2] for word in choices.split() if "=" in word)
