"""Where the user's machine keeps what can be made anew; it may be removed at any time."""

from __future__ import annotations

import os
from pathlib import Path

from modak_ansible.target.core.files import expanded


def cache_folder() -> Path:
    """The project's folder below the one that the XDG base directory specification names."""
    return Path(os.environ.get("XDG_CACHE_HOME") or expanded("~/.cache")) / "modak"
