"""make generate: writes every generated part of a file anew, and names the files that changed.

Where modules or types changed it begins again, for pages may follow from them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from generate import generated, generated_files

ROOT = Path(__file__).resolve().parents[1]

is_code_changed = False
for name, writers in sorted(generated_files().items()):
    path = ROOT / name
    before = path.read_text()
    after = generated(before, writers)
    if after != before:
        path.write_text(after)
        print(name, flush=True)
        is_code_changed |= path.suffix in (".py", ".yaml")
if is_code_changed:
    os.execv(sys.executable, [sys.executable, "-m", "generate"])  # noqa: S606 - there is no shell to start
