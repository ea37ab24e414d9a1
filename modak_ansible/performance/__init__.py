"""The performance model: how long a training takes in a configuration on a target, and how certain that is.

``modak model fit`` fits it to the records of benchmarks (and of every finished job); planning reads the fitted file
and needs neither numpy nor scikit-learn.
"""

from modak_ansible.performance.model import PerformanceModel, load_model

__all__ = ["PerformanceModel", "load_model"]
