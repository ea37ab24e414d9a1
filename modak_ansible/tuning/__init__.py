"""What a job tries before it trains: which configurations, for how long, and where that cannot be."""

from modak_ansible.tuning.planned import REQUIREMENTS, TUNER, planned_tuning, tuner_packages, tuning_alone

__all__ = ["REQUIREMENTS", "TUNER", "planned_tuning", "tuner_packages", "tuning_alone"]
