"""Files of records: one line of JSON a run, on the disk the moment that the run has ended."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from modak_ansible.errors import Location, ModakError
from modak_ansible.model.base import first_mistake
from modak_ansible.model.measured.finished_run import quantised_s
from modak_ansible.model.measured.record import Record
from modak_ansible.target.core.files import make_private, write_whole


def read_records(path: Path) -> list[Record]:
    """The records of a file, in their order.

    Raises:
        ModakError: the file cannot be read, or a line of it is no record; with the line.
    """
    return [_parsed(path, number, line) for number, line in enumerate(_lines(path), 1) if line.strip()]


def mark(path: Path) -> None:
    """Says of each record of a file anew which clock its steps waited for; what else a line says stays as it stands."""
    lines = _lines(path)
    for place, line in enumerate(lines):
        record = _parsed(path, place + 1, line) if line.strip() else None
        if record and record.quantised_s != (tick := quantised_s(record)):
            fields = json.loads(line)
            fields.pop("quantised_s", None)
            marked = json.dumps({**fields, "quantised_s": tick}, separators=(",", ":"), ensure_ascii=False)
            lines[place] = marked.encode()
    write_whole(path, b"\n".join(lines))


class RecordFile:
    """A file that records are appended to.

    Args:
        path: it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> tuple[list[Record], str]:
        """What it holds already, and what had to be mended: a crash may have torn the last line.

        Raises:
            ModakError: a line of it is no record.
        """
        if not self.path.exists():
            return [], ""
        mended = self._mend()
        return read_records(self.path), mended

    def set_aside(self) -> Path | None:
        """Renames the file, for a new one to be begun; gives its new name, or None where there was none."""
        if not self.path.exists():
            return None
        began = datetime.fromtimestamp(self.path.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = _free(self.path.with_name(f"{self.path.stem}-until-{began}{self.path.suffix}"))
        self.path.rename(aside)
        return aside

    def append(self, record: Record) -> None:
        """Adds a record; when this returns, it outlives a crash of the machine.

        Raises:
            ModakError: it cannot be written.
        """
        line = record.model_dump_json(by_alias=True).encode() + b"\n"
        try:
            make_private(self.path.parent)
            with self.path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ModakError(f"{self.path} cannot be written: {error.strerror}") from error

    def _mend(self) -> str:
        data = self.path.read_bytes()
        whole, newline, rest = data.rpartition(b"\n")
        if not rest:
            return ""
        try:
            Record.model_validate_json(rest)
        except ValidationError:
            torn = _free(self.path.with_name(f"{self.path.name}.torn"))
            torn.write_bytes(rest)
            with self.path.open("rb+") as file:
                file.truncate(len(whole) + len(newline))
            return f"the last line of {self.path} was cut short; it is in {torn} now, and its run counts as not done"
        with self.path.open("ab") as file:
            file.write(b"\n")
        return ""


def _lines(path: Path) -> list[bytes]:
    """Of a file, or of one compressed by xz, as those that ship are in a wheel."""
    try:
        data = path.read_bytes()
        return (lzma.decompress(data) if path.suffix == ".xz" else data).split(b"\n")
    except OSError as error:
        raise ModakError(f"{path} cannot be read: {error.strerror}") from error
    except lzma.LZMAError as error:
        raise ModakError(f"{path} cannot be read: it is not xz data, or it was cut short") from error


def _parsed(path: Path, number: int, line: bytes) -> Record:
    try:
        return Record.model_validate_json(line)
    except ValidationError as error:
        raise ModakError(
            f"not a record: {_message(error)}",
            location=Location(str(path), number, 1),
            hint="take that line out: a record is one line of JSON, as benchmarks/records/record.schema.json says",
        ) from error


def _message(error: ValidationError) -> str:
    suffix = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return first_mistake(error) + suffix


def _free(path: Path) -> Path:
    """The path itself, or one with a number where that is taken."""
    candidates: Iterable[Path] = (path, *(path.with_name(f"{path.name}.{number}") for number in range(2, 1000)))
    return next(candidate for candidate in candidates if not candidate.exists())
