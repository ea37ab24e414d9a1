"""How jobs are, for who asks without a playbook: read from an archive with what it runs and what is asked.

It stands in for the module modak_job where nothing is changed, and so is called for in the same words.
"""

from __future__ import annotations

import json
from typing import Any, Mapping

from ..core.answer import answered
from .actions import act

# What the answer's line begins with: shells say other things when they start.
ANSWER = "modak-answer "


def tell(arguments: Mapping[str, Any]) -> None:
    """Prints what the module modak_job would answer to ``query``."""
    print(ANSWER + json.dumps(answered(lambda: act("query", arguments))))  # noqa: T201 - whoever asked reads it
