"""Weights & Biases' runs of no network: a folder a run with a journal, which ``wandb sync`` brings to a server.

The journal is LevelDB's log with a head of its own: blocks of 32 KiB, and in them records, or parts of one, each with a
CRC-32, a length and a type.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from modak_ansible.deployment.exporting.exported import Exported, Folders
from modak_ansible.deployment.exporting.protobuf import delimited, varint_field

_HEAD = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_BLOCK, _RECORD = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def folders(run: Exported) -> Folders:
    """One, as wandb names them: by when the run began, and by its id."""
    identity = run.identity[:8]
    moment = datetime.fromtimestamp(run.began, UTC).strftime("%Y%m%d_%H%M%S")
    return {f"offline-run-{moment}-{identity}": {f"run-{identity}.wandb": _journal(_records(run, identity))}}


def _records(run: Exported, identity: str) -> Iterable[bytes]:
    """Messages Record: header = 21, run = 17, history = 2, summary = 3, exit = 18."""
    yield delimited(21, delimited(1, delimited(1, "modak")))
    configuration = _items(dict(sorted(run.run.given.items())))
    seconds, fraction = divmod(run.began, 1)
    began = varint_field(1, int(seconds)) + varint_field(2, int(fraction * 1e9))
    about = (
        delimited(1, identity)
        + delimited(3, run.project)
        + delimited(4, configuration)
        + delimited(8, run.run.training)
    )
    yield delimited(17, about + delimited(17, began))
    rows: dict[int, dict[str, float]] = {}
    times: dict[int, float] = {}
    for name, step, time, value in run.points():
        rows.setdefault(step, {})[name] = value
        times[step] = max(time, times.get(step, 0.0))
    last: dict[str, float] = {}
    for step, values in sorted(rows.items()):
        last |= values
        row = {**values, "_step": step, "_timestamp": times[step], "_runtime": max(0.0, times[step] - run.began)}
        yield delimited(2, _items(row) + delimited(2, varint_field(1, step)))
    yield delimited(3, _items(last))
    if run.is_over:
        code = 0 if run.run.state == "COMPLETED" else 1
        yield delimited(18, varint_field(1, code) + varint_field(2, int(run.run.seconds or 0)))


def _items(values: Mapping[str, str] | Mapping[str, float]) -> bytes:
    return b"".join(delimited(1, _item(name, value)) for name, value in values.items())


def _item(name: str, value: str | float) -> bytes:
    """A key and its value as JSON, in which numbers that are none are words."""
    json_value = value if isinstance(value, str) or math.isfinite(value) else _WORDS[str(value)]
    return delimited(2, name) + delimited(16, json.dumps(json_value))


_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _journal(records: Iterable[bytes]) -> bytes:
    journal = bytearray(_HEAD)
    for number, record in enumerate(records, 1):
        _add(journal, varint_field(1, number) + record)
    return bytes(journal)


def _add(journal: bytearray, data: bytes) -> None:
    begins = True
    while True:
        room = _BLOCK - len(journal) % _BLOCK
        if room < _RECORD:
            journal += bytes(room)
            continue
        part, data = data[: room - _RECORD], data[room - _RECORD :]
        kind = (_FIRST if data else _FULL) if begins else (_MIDDLE if data else _LAST)
        checksum = zlib.crc32(part, zlib.crc32(bytes([kind])))
        journal += struct.pack("<IHB", checksum, len(part), kind) + part
        begins = False
        if not data:
            return
