"""Golden files: a text that is generated is compared with the one that a person has read and kept."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Compares a text with its golden file; with UPDATE_GOLDEN=1 in the environment the file is written anew."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), f"{path} is missing: read the text, then UPDATE_GOLDEN=1 pytest"
    assert text == path.read_text(), f"{path} differs: read the difference, then UPDATE_GOLDEN=1 pytest"
