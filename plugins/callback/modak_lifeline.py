"""Ends ansible-playbook with the modak command that started it, which may be killed."""

from __future__ import annotations

import os

from ansible.plugins.callback import CallbackBase

try:
    from modak_ansible.transport.lifeline import OWNER, end_with_parent
except ImportError:  # the plan role says what is wrong
    OWNER = ""

DOCUMENTATION = """
name: modak_lifeline
type: notification
short_description: Ends ansible-playbook with the modak command that started it
description: A playbook that a person or opera started is left alone.
"""


class CallbackModule(CallbackBase):
    """Silent."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "modak_lifeline"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if os.environ.get(OWNER):
            end_with_parent()
