"""Numbers in files of text: JSON in any form, a JSON object a line, Hugging Face's trainer_state, columns of CSV.

Readers give points as they come, keep no more than a line, and note what they cannot read. A last line without its end
may be being written, and says nothing yet unless it is a whole object.
"""

from __future__ import annotations

import csv
import json
import os
from typing import Any, BinaryIO, Dict, Iterator, List

from .points import Point, Remarks, point_of, value_of

# Bytes of a line, and of a file that is read as a whole.
_LINE, WHOLE = 1 << 20, 16 << 20
_IN_PLACE_OF_A_FORM = "is binary, so no numbers are read from it"
_MARK = "\ufeff"  # by which some programs begin a text
# An integer of thousands of digits is refused by Python, and a float holds it: as infinity.
_decode = json.JSONDecoder(parse_int=float).decode


def is_binary(file: BinaryIO, remarks: Remarks) -> bool:
    """Whether it is no text, which is then noted; the file is at its beginning afterwards."""
    has_null = b"\0" in file.read(4096)
    file.seek(0)
    if has_null:
        remarks.add(_IN_PLACE_OF_A_FORM)
    return has_null


def lines(file: BinaryIO, limit: int, remarks: Remarks) -> Iterator[Point]:
    """The points of a file with a JSON object a line.

    Args:
        file: at its beginning.
        limit: bytes at its end that are read; 0 for all of it.
        remarks: gets what is wrong.
    """
    for number, line in _lines(file, limit, remarks):
        try:
            value = _decode(line.strip())
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            if number is not None:
                remarks.add("is not a JSON object", number)
        elif point := point_of(value):
            yield point


def columns(file: BinaryIO, limit: int, remarks: Remarks) -> Iterator[Point]:
    """The points of a CSV file whose first line has the names, which may be a comment; arguments as of :func:`lines`.

    Where cells end with a semicolon, a comma stands before the decimals, as in much of Europe.
    """
    heads = file.readline(_LINE)
    if not heads.endswith(b"\n"):
        return
    head = heads.decode("utf-8", "replace").lstrip(f"{_MARK}# ")
    delimiter = max(",;\t", key=head.count)
    names = [name.strip() for name in _cells(head, delimiter, "1", remarks)]
    for number, line in _lines(file, limit, remarks, 2):
        if number is None:  # its last number may be half of one
            return
        row = _cells(line, delimiter, number, remarks)
        if len(row) != len(names):
            if row:
                remarks.add(f"has {len(row)} columns, but the heading {len(names)}", number)
            continue
        point = point_of({name: _number(text, delimiter) for name, text in zip(names, row)})
        if point:
            yield point


def _cells(line: str, delimiter: str, number: str, remarks: Remarks) -> List[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error as error:
        remarks.add(f"is not CSV: {error}", number)
        return []


def json_document(file: BinaryIO, limit: int, remarks: Remarks) -> Iterator[Point]:
    """The points of one JSON document: the numbers at its top, a list of objects, or lists of numbers by name.

    Several JSON objects below each other are read as lines. Arguments as of :func:`lines`.
    """
    size = os.fstat(file.fileno()).st_size
    if size > WHOLE:
        remarks.add(f"has {size / (1 << 20):,.0f} MiB, but one JSON document is read only up to {WHOLE >> 20}")
        return
    data = file.read(WHOLE)
    try:
        value = _decode(data.decode("utf-8", "replace").lstrip(_MARK))
    except (ValueError, RecursionError) as error:
        first_line = data.partition(b"\n")[0].strip()
        if first_line.startswith(b"{") and first_line.endswith(b"}") and first_line != data.strip():
            file.seek(0)
            yield from lines(file, limit, remarks)
            return
        place = f"{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        remarks.add("is incomplete JSON: it is being written, or was cut short", place)
        return
    yield from _document_points(value)


def _document_points(document: Any) -> Iterator[Point]:
    if isinstance(document, list):
        yield from _list_points(document)
    if not isinstance(document, dict):
        return
    lists = {name: value for name, value in document.items() if isinstance(value, list) and value}
    for name, value in lists.items():
        if name in ("epochs", "log_history", "history", "metrics", "steps"):
            yield from _list_points(value)
    by_name = {name: value for name, value in lists.items() if all(value_of(item) is not None for item in value)}
    for index in range(max(map(len, by_name.values()), default=0)):
        row = {name: value[index] for name, value in by_name.items() if index < len(value)}
        point = point_of(row)
        if point:
            point.epoch = point.epoch if point.epoch is not None or point.step is not None else index + 1.0
            yield point
    inner = document.get("history")
    if isinstance(inner, dict):
        yield from _document_points(inner)
    point = point_of({name: value for name, value in document.items() if name not in ("history", "now")})
    if point and "log_history" not in document:
        yield point


def _list_points(items: List[Any]) -> Iterator[Point]:
    for item in items:
        point = point_of(item) if isinstance(item, dict) else None
        if point:
            yield point


def _lines(file: BinaryIO, limit: int, remarks: Remarks, number: int = 1) -> Iterator[Any]:
    """Lines with their numbers, as texts, which are empty behind a jump to the end of a large file.

    A last one without its end, which may be being written, has None for a number.
    """
    size = os.fstat(file.fileno()).st_size
    is_counted = not (limit and size - file.tell() > limit)
    if not is_counted:
        file.seek(size - limit)
        file.readline(_LINE)  # a part of one
    while file.tell() < size:  # what is written meanwhile is for the next look, and may come faster than it is read
        line = file.readline(_LINE)
        if not line.endswith(b"\n"):
            if len(line) < _LINE:
                yield None, line.decode("utf-8", "replace").lstrip(_MARK)
                return
            remarks.add(f"has more than {_LINE >> 20} MiB in a line", str(number) if is_counted else "")
            while line and not line.endswith(b"\n") and file.tell() < size:
                line = file.readline(_LINE)
        elif line.strip():
            yield (str(number) if is_counted else ""), line.decode("utf-8", "replace").lstrip(_MARK)
        number += 1


def _number(text: str, delimiter: str) -> Any:
    try:
        return float(text.replace(",", ".") if delimiter == ";" else text)
    except ValueError:
        return None


READERS: Dict[str, Any] = {
    "metrics.json": json_document,
    "metrics.jsonl": lines,
    "metrics.csv": columns,
    "trainer_state.json": json_document,
}
