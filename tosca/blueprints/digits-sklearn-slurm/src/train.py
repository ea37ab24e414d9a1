"""Recognises the 1,797 handwritten digits that scikit-learn brings along, with a random forest."""

import argparse
import json
import os
import time

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.25, random_state=options.seed)
    forest = RandomForestClassifier(options.trees, max_depth=options.depth, random_state=options.seed, n_jobs=-1)
    began = time.perf_counter()
    forest.fit(train_x, train_y)
    metrics = {
        "accuracy": accuracy_score(test_y, forest.predict(test_x)),
        "log_loss": log_loss(test_y, forest.predict_proba(test_x)),
        "fit_seconds": time.perf_counter() - began,
    }
    with open(os.environ.get("MODAK_METRICS", "metrics.json"), "w") as file:
        json.dump(metrics, file)


if __name__ == "__main__":
    main()
