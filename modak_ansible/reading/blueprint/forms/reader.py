"""Checks what a user wrote against a form, and says where each mistake stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from modak_ansible.errors import NEAR, Location, nearest
from modak_ansible.model.job_options import meant_by
from modak_ansible.reading.blueprint.forms.forms import (
    CANNOT_BE_DONE,
    NOT_PLANNED,
    PICK_ONE,
    FieldProblem,
    Form,
    Path,
    choices_of,
    fields_of,
    form_of,
    is_choices,
    key_place,
    named_forms_of,
    place_of,
    plain_types,
)
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item

AnyForm = TypeVar("AnyForm", bound=Form)
REFUSED = "is refused: "


@dataclass(frozen=True)
class Older:
    """A spelling of earlier times."""

    path: str  # of the mapping that it stands in, its names joined by dots; ``*`` for any
    old: str  # the name of a field; with ``field``, a value of it
    new: str  # what is written now
    field: str = ""  # the field whose value it is; empty where the name itself is older


class FormReader:
    """Reads one tree by one form.

    Older spellings, numbers and truth values in quotes, and words in other letters are taken, each with a warning.
    What is empty counts as not given.
    """

    def __init__(
        self, mistakes: Mistakes, warnings: Mistakes, older: Iterable[Older] = (), root: str = "", hidden: int = 0
    ) -> None:
        """
        Args:
            warnings: collects what is written in an older way.
            root: what messages put before every path.
            hidden: how many names at the start of a path the file has not got.

        Attributes:
            unkept: gets tree, path, reason and hint of a field that cannot be acted on; without it that is a mistake.
        """
        self._hidden = hidden
        self._mistakes = mistakes
        self._warnings = warnings
        self._older = tuple(older)
        self._root = root
        self.unkept: Callable[[Item, Path, str, str], None] | None = None

    def read(self, item: Item, form: type[AnyForm]) -> tuple[AnyForm | None, Item]:
        """The form filled in, and the tree in today's spelling, with the places of the file.

        Fields that are not known or cannot be acted on are noted and left out, so that what else is wrong is found,
        too; the form is None where other mistakes leave nothing to go on with.
        """
        tree = self._modern(item, form, ())
        plain = tree.plain()
        try:
            return form.model_validate(plain), tree
        except ValidationError as error:
            errors = error.errors(include_url=False)
        for problem in _one_for_each_place(errors, form):
            self._note(problem, tree, form)
        for problem in errors:
            if _is_surplus(problem):
                _remove(plain, _field_path(problem["loc"], form))
        try:
            return form.model_validate(plain), tree
        except ValidationError:
            return None, tree

    # --- in today's spelling

    def _modern(self, item: Item, annotation: Any, path: Path) -> Item:
        form, named_form = form_of(annotation), named_forms_of(annotation)
        if named_form and item.is_map:
            entries = {name: self._modern(entry, named_form, (*path, name)) for name, entry in item.entries.items()}
            return Item(item.location, entries, keys=item.keys)
        if form is None:
            return self._scalar(item, annotation, path)
        if not item.is_map:
            return item
        members: dict[str, Item] = {}
        keys: dict[str, Location] = {}
        fields = fields_of(form)
        for key, value in item.entries.items():
            place = item.key_location(key)
            name = self._today(path, key, place)
            if name in members or (name != key and name in item.entries):
                self._mistakes.add(place, "duplicate-key", f"{self.shown((*path, name))} is given twice, here as {key}")
                continue
            modern = self._modern(value, fields[name], (*path, name)) if name in fields else value
            if name in fields and is_empty(modern):
                continue
            members[name], keys[name] = modern, place
        return Item(item.location, members, keys=keys)

    def _today(self, path: Path, key: str, place: Location) -> str:
        for older in self._older:
            if not older.field and older.old == key and _same_path(older.path, path):
                message = f"{self.shown((*path, key))} is an older spelling"
                self._warnings.add(place, "older-spelling", message, f"write {older.new}")
                return older.new
        return key

    def _scalar(self, item: Item, annotation: Any, path: Path) -> Item:
        if item.is_list:  # every list is one of texts
            return Item(item.location, [_as_text(element) for element in item.elements])
        if item.is_map:
            return item
        value: Any = self._older_value(item, path)
        kinds = _kinds(annotation)
        if isinstance(value, str):
            value = self._other_letters(value, item, annotation, path)
            value = self._unquoted(value, item, kinds, path)
        elif str in kinds and type(value) not in kinds and isinstance(value, int | float) and value is not True:
            value = item.text if value is not False else value  # a version such as 1.10 is what is written
        return Item(item.location, value, item.text)

    def _older_value(self, item: Item, path: Path) -> Any:
        written = item.value.strip().lower() if isinstance(item.value, str) else ""
        for older in self._older:
            if (
                older.field
                and older.old == written
                and _same_path(older.path, path[:-1])
                and path[-1:] == (older.field,)
            ):
                message = f"{self.shown(path)}: {item.value} is an older spelling"
                self._warnings.add(item.location, "older-spelling", message, f"write {older.new}")
                return older.new
        return item.value

    def _other_letters(self, value: str, item: Item, annotation: Any, path: Path) -> str:
        words = choices_of(annotation)
        if words and value not in words:
            same = next((word for word in words if word.lower() == value.strip().lower()), None)
            if same is not None:
                message = f"{self.shown(path)}: {value!r} is read as {same}"
                self._warnings.add(item.location, "older-spelling", message, f"write {same}")
                return same
        return value

    def _unquoted(self, value: str, item: Item, kinds: set[Any], path: Path) -> Any:
        if str in kinds or not kinds & {int, float, bool}:
            return value
        converted = _number_or_truth(value.strip(), kinds)
        if converted is None:
            return value
        message = f'{self.shown(path)}: "{value}" is read as {str(converted).lower()}'
        self._warnings.add(item.location, "older-spelling", message, f"write {value.strip().lower()} without quotes")
        return converted

    # --- mistakes

    def shown(self, path: Iterable[Any]) -> str:
        """A path for people: its names joined by dots."""
        words = ".".join([str(name) for name in path][self._hidden :])
        return f"{self._root}.{words}".strip(".") if self._root else words or "the request"

    def _note(self, error: Any, tree: Item, form: type[Form]) -> None:
        kind, path = error["type"], _field_path(error["loc"], form)
        name = self.shown(path)
        choices = (*choices_of(self._annotation(form, path)), *self._older_words(path))
        if kind == "literal_error" and is_choices(error.get("input"), choices):
            hint = f"valid: {', '.join(choices_of(self._annotation(form, path)))}"
            self._mistakes.add(place_of(tree, path), "list-of-choices", f"{name} is {PICK_ONE}", hint)
        elif kind == "extra_forbidden":
            members = fields_of(_form_at(form, path[:-1]) or form)
            owner = self.shown(path[:-1])
            message = f"{owner} has no field {path[-1]}" if path[:-1] else f"there is no field {path[-1]} here"
            hint = nearest(meant_by(path[-1], members), members)
            self._mistakes.add(key_place(tree, path), "unknown-field", message, hint)
        elif kind == "missing":
            self._mistakes.add(place_of(tree, path), "missing-field", f"{name} is needed")
        else:
            rule, message, hint = _explanation(error)
            if rule == CANNOT_BE_DONE and self.unkept is not None:
                self.unkept(tree, path, message.removeprefix(REFUSED), hint)
                return
            hint = hint or (self._cure_of_truth(tree, path, form) if rule == "wrong-type" else "")
            words = f"{name} {message}" if message else name
            self._mistakes.add(
                place_of(tree, path), rule, words.replace(f"{REFUSED}{PICK_ONE}", f"is {PICK_ONE}"), hint
            )

    def _annotation(self, form: type[Form], path: Path) -> Any:
        owner = _form_at(form, path[:-1]) if path else None
        return fields_of(owner).get(path[-1]) if owner else None

    def _cure_of_truth(self, tree: Item, path: Path, form: type[Form]) -> str:
        """What to do about a word such as no or on, which YAML takes for a truth value, where a text is wanted."""
        item = tree.get(*path)
        is_text = str in _kinds(self._annotation(form, path))
        return f'write "{item.text}" for the word' if item and isinstance(item.value, bool) and is_text else ""

    def _older_words(self, path: Path) -> Iterator[str]:
        """What was written earlier in place of a field's words."""
        for older in self._older:
            if older.field and _same_path(older.path, path[:-1]) and path[-1:] == (older.field,):
                yield older.old


def _as_text(item: Item) -> Item:
    is_number = isinstance(item.value, int | float) and not isinstance(item.value, bool)
    return Item(item.location, item.text, item.text) if is_number else item


def _one_for_each_place(errors: Iterable[Any], form: type[Form]) -> Iterator[Any]:
    """The errors, of those that alternatives of one field give only the most telling one."""
    places: dict[Path, list[Any]] = {}
    for error in errors:
        places.setdefault(_field_path(error["loc"], form), []).append(error)
    for place_errors in places.values():
        telling = [error for error in place_errors if not _expected(error)]
        if telling or len(place_errors) == 1:
            yield (telling or place_errors)[0]
        else:
            yield {
                **place_errors[0],
                "expected": " or ".join(dict.fromkeys(_expected(error) for error in place_errors)),
            }


def _expected(error: Any) -> str:
    """What a value should have been, where it is of another type altogether."""
    kind = error["type"]
    return error.get("expected") or next((words for start, words in _TYPES.items() if kind.startswith(start)), "")


def _is_surplus(error: Any) -> bool:
    problem = (error.get("ctx") or {}).get("error")
    is_refused = isinstance(problem, FieldProblem) and problem.rule in (CANNOT_BE_DONE, NOT_PLANNED)
    return bool(error["type"] == "extra_forbidden" or is_refused)


def _remove(plain: Any, path: Path) -> None:
    for name in path[:-1]:
        plain = plain.get(name, {}) if isinstance(plain, dict) else {}
    if isinstance(plain, dict):
        plain.pop(path[-1], None)


def _explanation(error: Any) -> tuple[str, str, str]:
    """The rule that a value breaks, what is wrong with it, and a hint, out of what pydantic says."""
    kind, context, value = error["type"], error.get("ctx") or {}, error.get("input")
    problem = context.get("error")
    if isinstance(problem, FieldProblem):
        return problem.rule, f"{REFUSED}{problem.reason}", problem.hint
    if isinstance(problem, ValueError):
        return "out-of-range", f"is refused: {problem}", ""
    if kind == "literal_error":
        valid = [word for word in _quoted(context.get("expected", "")) if word]
        return "not-allowed-value", f"cannot be {_brief(value)}", _choices_hint(value, valid)
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if name in context:
            return "out-of-range", f"must be {words} {context[name]:.12g}, not {_brief(value)}", ""
    return "wrong-type", f"must be {_expected(error) or 'of another form'}, not {_brief(value)}", ""


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "model": "a mapping",
    "dict": "a mapping",
}


def _choices_hint(value: Any, words: list[str]) -> str:
    hint = nearest(value, words) if isinstance(value, str) and value else ""
    valid = f"valid: {', '.join(words)}"
    return f"{hint} {valid}" if hint.startswith(NEAR) else valid


def _quoted(expected: str) -> list[str]:
    """The words of pydantic's "'a', 'b' or 'c'"."""
    return expected.split("'")[1::2]


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_empty(item: Item) -> bool:
    """Whether nothing is written: null, or a text of spaces."""
    return item.value is None or (isinstance(item.value, str) and not item.value.strip())


def _kinds(annotation: Any) -> set[Any]:
    return {type_ for type_ in plain_types(annotation) if type_ in (int, float, bool, str)}


def _field_path(loc: Iterable[Any], form: type[Form]) -> Path:
    """pydantic's path without what it adds of its own: positions in lists, and the names of alternatives."""
    return _followed(loc, form)[0]


def _form_at(form: type[Form], path: Path) -> type[Form] | None:
    return _followed(path, form)[1]


def _followed(loc: Iterable[Any], form: type[Form]) -> tuple[Path, type[Form] | None]:
    """A path as far as it leads through forms, and the form that it ends at; none behind a plain value."""
    path: list[str] = []
    inside: type[Form] | None = form
    named_form: type[Form] | None = None  # of the mapping whose names come next
    for name in loc:
        if named_form:
            inside, named_form = named_form, None
            path.append(name)
            continue
        if inside is None:
            break
        path.append(name)
        annotation = fields_of(inside).get(name)
        inside, named_form = form_of(annotation), named_forms_of(annotation)
    return tuple(path), inside


def _same_path(pattern: str, path: Path) -> bool:
    return pattern == "*" or tuple(word for word in pattern.split(".") if word) == path


def _number_or_truth(value: str, kinds: set[Any]) -> Any:
    if bool in kinds and value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        if kind in kinds and value.isascii():
            try:
                number = cast("float", kind(value))
            except ValueError:
                continue
            return number if math.isfinite(number) and "_" not in value else None
    return None
