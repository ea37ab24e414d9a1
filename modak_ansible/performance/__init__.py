"""The performance model: how long a training takes in a configuration on a target, and how sure that is.

It is fitted to the records of benchmarks (and of every job that ended) by ``modak model fit``; planning reads the
fitted file and needs neither numpy nor scikit-learn.
"""

from modak_ansible.performance.model import PerformanceModel, load_model

__all__ = ["PerformanceModel", "load_model"]
