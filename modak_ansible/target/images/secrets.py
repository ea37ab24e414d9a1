"""Runs programs that are told a secret, and keeps it out of what they print."""

from __future__ import annotations

import base64
import os
import subprocess
from typing import Iterable, Mapping
from urllib.parse import quote, unquote, urlsplit

from .logins import Secrets

# Shorter words would be found everywhere.
_SHORTEST = 4
# From here on a word may be a token where others stand, too, such as a user's name.
_LONG = 10
_SHOWN = b"********"


def secret_words(secrets: Secrets) -> tuple[bytes, ...]:
    """What must not be seen of secrets: passwords as they are, as addresses hold them, and as registries are told."""
    words = set()
    for login in secrets.get("logins") or ():
        words |= _forms(login["password"])
        words.add(base64.b64encode(f"{login['username']}:{login['password']}".encode()))
    for value in (secrets.get("pip") or {}).values():
        for address in value.split():
            for secret in _secrets_in(address):
                words |= {secret.encode(), *_forms(unquote(secret))}
    return tuple(sorted((word for word in words if len(word) >= _SHORTEST), key=len, reverse=True))


def _secrets_in(address: str) -> list[str]:
    """What may be a token of an address: at some indexes the user's name is one, or a value of the query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return [address]
    values = [word.partition("=")[2] for word in parts.query.split("&")]
    user = parts.username or ""
    return [parts.password or user, *(each for each in (user, *values) if len(each) >= _LONG)]


def _forms(secret: str) -> set[bytes]:
    return {secret.encode(), quote(secret, safe="").encode()}


class Hider:
    """Replaces words in a stream of bytes, wherever it is cut."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._words = tuple(words)
        self._held = b""

    def passed(self, block: bytes) -> bytes:
        """What may be shown of all that was given so far; the beginning of a word is held back until it is known."""
        text = self._held + block
        for word in self._words:
            text = text.replace(word, _SHOWN)
        longest = max(map(len, self._words), default=1) - 1
        held = next(
            (n for n in range(min(longest, len(text)), 0, -1) if any(w.startswith(text[-n:]) for w in self._words)), 0
        )
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> bytes:
        """What was held back to the end."""
        return self._held


def run_hiding(command: list[str], environment: Mapping[str, str], words: Iterable[bytes]) -> int:
    """Runs a command to its end with its output on ours, without the words; gives its exit code."""
    hider = Hider(words)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(environment),
        close_fds=False, bufsize=0,
    ) as process:  # fmt: skip
        assert process.stdout  # noqa: S101 - mypy does not see it
        number = process.stdout.fileno()
        for block in iter(lambda: os.read(number, 1 << 16), b""):
            os.write(1, hider.passed(block))
        os.write(1, hider.rest())
    return process.returncode
