"""What a job tries before it trains: which configurations, for how long, and where that cannot be."""

from modak_ansible.tuning.planned import REQUIREMENTS, planned_tuning, tuning_alone

__all__ = ["REQUIREMENTS", "planned_tuning", "tuning_alone"]
