"""Logins of data and of clouds in the user's environment, which reach a playbook by a file that is on no disk.

ansible-runner writes the environment of a playbook down. What asks for either reads the clients' own variables.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

FILE = "MODAK_LOGINS"
VARIABLES = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "OS_PASSWORD", "OS_APPLICATION_CREDENTIAL_SECRET", "OS_TOKEN", "OS_ACCESS_TOKEN", "OS_CLIENT_SECRET", "OS_CODE",
    "OS_OAUTH2_CLIENT_SECRET", "OS_PASSCODE",
)  # fmt: skip


def logins_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that say something."""
    return {name: environment[name] for name in VARIABLES if environment.get(name)}


def take_logins(environment: MutableMapping[str, str] = os.environ) -> None:
    """Puts what was handed on where the clients look for it, once."""
    place = environment.pop(FILE, "")
    if place and place != os.devnull:
        logins = json.loads(Path(place).read_text(encoding="utf-8"))
        environment.update({name: logins[name] for name in VARIABLES if name in logins})
