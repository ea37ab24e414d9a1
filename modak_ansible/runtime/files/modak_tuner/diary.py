"""What tuning has found so far, in tuning.json as a whole after every trial, and in a line each for people."""

import json
import os
import sys
import time

from modak_tuner import scores

SCHEMA = "modak.tuning/1"


class Diary:
    """The diary of one tuning.

    Args:
        folder: the deployment's; ``state/tuned`` in it names the best so far for the job's script.
        tuning: the plan's section.
    """

    def __init__(self, folder, tuning):
        self._folder, self._began, self._position = folder, time.monotonic(), 0
        self._titles = {candidate["name"]: candidate["title"] for candidate in tuning["candidates"]}
        self._tuning = tuning
        self._is_tuning = tuning["reduction"] > 1  # else all go on
        self.busy = scores.busy_limit(os.cpu_count())
        self._content = {
            "schema": SCHEMA,
            "state": "running",
            "reason": "",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "hostname": os.uname().nodename,
            "busy": self.busy,
            "budget": tuning["budget"],
            "spent": 0.0,
            "best": "",
            "best_rung": None,
            "candidates": {
                candidate["name"]: {
                    "title": candidate["title"], "settings": candidate["settings"], "outcome": "untried", "reason": "",
                }
                for candidate in tuning["candidates"]
            },
            "trials": [],
        }  # fmt: skip
        self._write()

    @property
    def has_best(self):
        return bool(self._content["best"])

    def trial(self, rung, name, measure, score, seconds):
        """Notes a trial that was measured; gives the line for people, to be said when the best so far is noted too."""
        self._content["candidates"][name]["outcome"] = "measured"
        steps = {key: value for key, value in measure.items() if key != "report"}
        self._add(rung, name, seconds, steps=steps, score=score, report=measure.get("report", {}))
        first = measure.get("first_seconds") or measure.get("to_first_step_seconds") or 0.0
        busy = measure.get("foreign_cores") or 0.0
        return "%s: %.2f ms a step, the first after %.1f s (%d steps%s)" % (
            self._of(rung, name), measure["median_seconds"] * 1e3, first, measure["count"],
            ", other processes kept %.1f cores busy" % busy if busy > self.busy else "",
        )  # fmt: skip

    def lost(self, rung, name, reason, seconds):
        """Notes a candidate that cannot be taken, and why; gives the line for people, as ``trial``."""
        self._content["candidates"][name].update(outcome="out", reason=reason)
        self._add(rung, name, seconds, reason=reason)
        return "%s: dropped: %s" % (self._of(rung, name), reason)

    def pruned(self, rung, name):
        """Notes a candidate that others left behind."""
        self._content["candidates"][name]["reason"] = "slower than others in rung %d" % (rung + 1)
        self._write()

    def best(self, name, rung):
        """Notes the best so far, for the script that trains it should this process not live; empty for none."""
        if (name, rung) == (self._content["best"], self._content["best_rung"]):
            return
        self._content.update(best=name, best_rung=rung)
        tuned = os.path.join(self._folder, "state", "tuned")
        if name:
            _replace(tuned, name + "\n")
        else:
            os.remove(tuned)
        self._write()

    def end(self, state, reason):
        """Notes how it ended."""
        self._content.update(state=state, reason=reason)
        self._write()
        best, choice = self._content["best"], self._tuning["candidates"][0]["name"]
        is_told = self._is_tuning or best not in ("", choice)
        ending = "; best: %s" % (self._titles[best] if best else "none was measured") if is_told else ""
        self.say("ended: %s%s" % (reason, ending))

    def say(self, text):
        """Writes a line for people."""
        sys.stdout.write("%s: %s\n" % ("tuning" if self._is_tuning else "compare_with_stock", text))
        sys.stdout.flush()

    def _of(self, rung, name):
        rung_name = "rung" if self._is_tuning else "turn"
        return "trial %d, %s %d, %s" % (self._position, rung_name, rung + 1, self._titles[name])

    def _add(self, rung, name, seconds, **values):
        self._position += 1
        trial = {"candidate": name, "rung": rung + 1, "position": self._position, "seconds": round(seconds, 3)}
        trial["asked"] = scores.steps_of(self._tuning, rung)
        self._content["trials"].append(dict(trial, **values))
        self._write()

    def _write(self):
        self._content["spent"] = round(time.monotonic() - self._began, 3)
        _replace(os.path.join(self._folder, "tuning.json"), json.dumps(self._content, indent=1, sort_keys=True) + "\n")


def _replace(path, text):
    """Writes a file as a whole."""
    part = "%s.%d.part" % (path, os.getpid())
    with open(part, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
