"""Gradient-boosted trees of scikit-learn on the same table as the dense layers: `--model rows` of pytorch.py."""

from __future__ import annotations

import os

import numpy as np
import sklearn
import tasks
from arguments import give_up, parse, training_parser
from recorder import Recorder, Workload
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

TREES = 20  # of each class, an epoch


def main():
    """Trains and measures, as the command line asks; an epoch is 20 trees more of each class."""
    parser = training_parser("Trains gradient-boosted trees.", {}, 3, 1, 0.1)
    arguments = parse(parser, needs_data=False)
    arguments.images = arguments.images or 16384
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    workload = Workload("architectures", "gradient-boosted trees", None)
    recorder = Recorder(workload, arguments, "scikit-learn", [("scikit-learn", sklearn.__version__)])
    with recorder.timed("load_data"):
        task = tasks.table(32, arguments.images, arguments.seed)
    model = HistGradientBoostingClassifier(
        learning_rate=arguments.learning_rate, max_iter=TREES, warm_start=True, early_stopping=False,
        random_state=arguments.seed,
    )  # fmt: skip
    classes = np.arange(task.classes)
    recorder.training_begins(task.description, len(task.samples), len(task.test_samples), 1)
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        model.set_params(max_iter=TREES * (epoch + 1)).fit(task.samples, task.labels)
        recorder.step_ends(log_loss(task.labels, model.predict_proba(task.samples), labels=classes), len(task.samples))
        recorder.evaluation_begins()
        chances = model.predict_proba(task.test_samples)
        test_loss = log_loss(task.test_labels, chances, labels=classes)
        recorder.epoch_ends(test_loss, float((chances.argmax(1) == task.test_labels).mean()))
    if not test_loss < task.ignorant_loss:
        give_up(1, "it has learnt nothing: the test loss is %.3f, %.3f is a guess" % (test_loss, task.ignorant_loss))


if __name__ == "__main__":
    main()
