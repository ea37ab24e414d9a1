"""Says why a task failed where the output of the playbook does not: opera shows only that one did."""

from __future__ import annotations

import os
import sys

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: modak_errors
type: notification
short_description: Shows the messages of failed tasks under opera
description: opera prints standard error when an operation has failed; this puts the task's own message there.
"""


class CallbackModule(CallbackBase):
    """Silent unless opera runs the playbook."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "modak_errors"
    CALLBACK_NEEDS_ENABLED = False

    def v2_runner_on_failed(self, result, ignore_errors=False):
        if not ignore_errors:
            self._show(result)

    def v2_runner_on_unreachable(self, result):
        self._show(result)

    @staticmethod
    def _show(result):
        if os.environ.get("ANSIBLE_STDOUT_CALLBACK") != "json_ansible_callback":
            return
        message = result.result.get("msg") or result.result.get("stderr") or "no reason given"
        print(f"error: {result.task.get_name()}: {message}", file=sys.stderr)
