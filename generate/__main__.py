"""make generate: writes every generated part of a file anew, and names the files that changed."""

from __future__ import annotations

from pathlib import Path

from generate import generated, generated_files

ROOT = Path(__file__).resolve().parents[1]

for name, writers in sorted(generated_files().items()):
    path = ROOT / name
    before = path.read_text()
    after = generated(before, writers)
    if after != before:
        path.write_text(after)
        print(name)
