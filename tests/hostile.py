"""Texts that want to be more than a value, and programs that write down what they were really given."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from hypothesis import strategies as st

# Where a payload that is executed leaves its mark; texts name it as $CANARY, which every shell of these tests knows.
_PAYLOADS = (
    '$(touch "$CANARY")', '`touch "$CANARY"`', '"; touch "$CANARY"; "', "'; touch \"$CANARY\"; '", '; touch "$CANARY" #',
    '| touch "$CANARY"', '&& touch "$CANARY"', '\ntouch "$CANARY"\n', '\r\ntouch "$CANARY"\r\n', '${X:-$(touch "$CANARY")}',
    '> "$CANARY"', '<(touch "$CANARY")', '\\\ntouch "$CANARY"', '!touch', "{{ lookup('pipe', 'touch $CANARY') }}",
    "{% raw %}", "%post\n    touch $CANARY\n", "%environment", "a\n#SBATCH --uid=0", "a\n#PBS -u root", "a\u2028#SBATCH --uid=0",
    "-oProxyCommand=touch $CANARY", "--help", "-", "--", "../../../etc/passwd", "/etc/passwd", "~root", "~", "$HOME", "$IFS",
    "a b", "'", '"', "\\", "*", "?", "[a-z]", "{a,b}", "\t", "\x1b[31m", "\0", "", " ", "\ufeff", "\u202e", "é", "%h", "%%", "#",
)  # fmt: skip
_LETTERS = "ab1 \t\n\r\0#$`'\"\\;|&<>(){}[]=,:@%+-./~*?!^\u2028\u0085\u00e9"

HOSTILE = st.one_of(
    st.sampled_from(_PAYLOADS),
    st.tuples(st.text("ab1_.-/", max_size=4), st.sampled_from(_PAYLOADS), st.text("ab1_.-/", max_size=4)).map("".join),
    st.text(_LETTERS, max_size=16),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=16),
)
# What a quoted text may hold; line breaks and control characters are refused where blueprints are read.
PRINTABLE = HOSTILE.map(lambda text: "".join(character for character in text if character.isprintable()))

# Writes its name, its arguments and some of its environment, each ended by a zero byte, and a line's end.
_RECORDER = """#!/bin/bash
{ printf '%s\\0' "${0##*/}" "$@"; for each in "${!V@}"; do printf '%s\\0' "$each=${!each}"; done; printf '\\n\\0'; } >> "$SEEN"
"""


class Recorded:
    """Programs that write down what they are given, in a folder that goes before all others on PATH."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.canary = folder / "canary"
        self.seen = folder / "seen"
        self.bin = folder / "bin"
        shutil.rmtree(self.bin, ignore_errors=True)
        self.bin.mkdir(parents=True)
        for name in names:
            (self.bin / name).write_text(_RECORDER)
            (self.bin / name).chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.bin}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "SEEN": str(self.seen), "CANARY": str(self.canary), "HOME": str(self.bin.parent)}

    def run(self, *command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command, whose programs begin to write anew."""
        self.seen.unlink(missing_ok=True)
        return subprocess.run(
            [str(word) for word in command], cwd=cwd or self.bin.parent, env=self.environment, capture_output=True,
            text=True, errors="replace", check=False, timeout=120,
        )  # fmt: skip

    def calls(self) -> list[list[str]]:
        """What the programs were given, one list a call, with their own names first."""
        if not self.seen.exists():
            return []
        text = self.seen.read_bytes().decode(errors="surrogateescape")
        return [call.split("\0")[:-1] for call in text.split("\n\0")[:-1]]

    def check_nothing_was_executed(self) -> None:
        assert not self.canary.exists(), "a value was executed"


def examples(usual: int) -> int:
    """How many examples a thorough test takes; MODAK_HOSTILE multiplies them."""
    return int(usual * float(os.environ.get("MODAK_HOSTILE", "1")))


def as_yaml(value: object) -> str:
    """A value as YAML writes it in one line; JSON is that, but for what YAML 1.1 takes for the end of a line."""
    return json.dumps(value)


def post_of(definition: str) -> str:
    """The commands of a definition's %post sections."""
    lines, inside = [], False
    for line in definition.splitlines():
        if line.startswith("%"):
            inside = line.split()[0] == "%post"
        elif inside:
            lines.append(line)
    return "\n".join(lines)


def quoted(*words: str) -> str:
    return shlex.join(words)
