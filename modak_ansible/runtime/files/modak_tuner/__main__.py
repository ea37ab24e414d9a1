"""``python -m modak_tuner DEPLOYMENT``: tunes, or compares with stock; 0 if a candidate was measured. Never trains."""

import json
import os
import signal
import sys

from modak_tuner.diary import Diary
from modak_tuner.halving import Halving
from modak_tuner.trial import Runner


def main(deployment):
    with open(os.path.join(deployment, "plan.json")) as file:
        plan = json.load(file)
    tuning = plan["tuning"]
    halves = tuning["reduction"] > 1  # else all go on: the choice and stock, which only trains where it is faster
    diary, runner = Diary(deployment, tuning), Runner(deployment, plan, sys.executable, chooses=halves)
    signal.signal(signal.SIGTERM, runner.stop)
    signal.signal(signal.SIGINT, runner.stop)
    state, reason = "failed", ""
    try:
        halving = Halving(tuning, runner.run, diary)
        if halves:
            import optuna

            reason = halving.tune(optuna)
        else:
            reason = halving.take_turns()
        state = "stopped" if runner.is_stopped else "finished"
    except ImportError as error:
        reason = "the image has no optuna: %s" % error
    except Exception as error:  # the border: whatever is wrong with us, the training runs
        reason = "%s: %s" % (type(error).__name__, error)
    finally:
        diary.end(state, reason)
    return 0 if diary.has_best else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
