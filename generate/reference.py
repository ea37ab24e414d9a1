"""docs/reference/: types of TOSCA, commands, optimisations, the catalogue and the API, each from what declares it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

import modak_ansible
from generate import Writers, table, with_section
from modak_ansible.catalogue.entry import Entry
from modak_ansible.catalogue.reader import shipped_catalogue
from modak_ansible.commands.main import application
from modak_ansible.deployment.surface import Planned, Results, StatusRow
from modak_ansible.optimisations import optimisations

ROOT = Path(__file__).resolve().parents[1]
_TYPES = ROOT / "tosca" / "types"
_HEADS = {
    "node_types": "Nodes",
    "capability_types": "Capabilities of targets",
    "data_types": "Data types",
    "relationship_types": "Relationships",
    "policy_types": "Policies",
}
_BOUNDS = {
    "valid_values": "one of",
    "greater_or_equal": "at least",
    "greater_than": "over",
    "less_or_equal": "at most",
    "less_than": "below",
    "in_range": "in",
    "pattern": "matches",
    "min_length": "length at least",
}
_MADE = "Written by `make generate`."


def _one_line(text: object) -> str:
    """A text for a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def _code(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"`{_one_line(item)}`" for item in value)
    return f"`{_one_line(value)}`" if value not in ("", {}, None) else ""


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *parts]) + "\n"


# --- types


def _types() -> str:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(_TYPES.glob("*.yaml"))]
    parts = [f"What a blueprint may contain, from `tosca/types`, which it imports as `types/modak.yaml`. {_MADE}"]
    for kind, head in _HEADS.items():
        types = {name: definition for file in files for name, definition in (file.get(kind) or {}).items()}
        if types:
            parts += [
                f"## {head}",
                *(part for name, definition in sorted(types.items()) for part in _type(name, definition)),
            ]
    return _page("Types", *parts, *_shipped())


def _type(name: str, definition: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    words = _one_line(definition.get("description", ""))
    yield f"{words} Derived from `{definition['derived_from']}`.".strip()
    rows = [
        _property(property_name, declaration)
        for property_name, declaration in (definition.get("properties") or {}).items()
    ]
    rows += [
        (f"`{attribute}` (attribute)", declaration["type"], "", _one_line(declaration.get("description", "")))
        for attribute, declaration in (definition.get("attributes") or {}).items()
    ]
    if rows:
        yield table(("property", "type", "default", "description"), *rows)
    capabilities = [
        f"`{capability}`: {_code(declaration['type'] if isinstance(declaration, dict) else declaration)}"
        for capability, declaration in (definition.get("capabilities") or {}).items()
    ]
    if capabilities:
        yield f"Capabilities: {', '.join(capabilities)}."
    required = [node for requirement in definition.get("requirements") or () for node in _required(requirement)]
    if required:
        yield f"Requires {', '.join(required)}."


def _required(requirement: dict[str, Any]) -> Iterator[str]:
    for name, declaration in requirement.items():
        node = declaration.get("node") if isinstance(declaration, dict) else declaration
        fewest, largest = (declaration.get("occurrences") or [1, 1]) if isinstance(declaration, dict) else [1, 1]
        often = {(1, 1): "", (0, 1): ", or none"}.get((fewest, largest), f", {fewest} to {largest}".lower())
        yield f"`{name}` (a {_code(node)}{often})" if node else f"`{name}`"


def _property(name: str, declaration: dict[str, Any]) -> tuple[str, str, str, str]:
    kind = declaration["type"]
    if inner := (declaration.get("entry_schema") or {}):
        kind += f" of {inner['type'] if isinstance(inner, dict) else inner}"
    bounds = [
        f"{_BOUNDS.get(bound, bound)} {_values(bound, value)}"
        for constraint in declaration.get("constraints") or ()
        for bound, value in constraint.items()
    ]
    words = " ".join([_one_line(declaration.get("description", "")), *(f"({bound})" for bound in bounds)]).strip()
    has_default = "default" in declaration
    requirement = "" if has_default or declaration.get("required") is False else "required"
    return f"`{name}`", kind, _code(declaration["default"]) if has_default else requirement, words


def _values(bound: str, value: object) -> str:
    return _code(value).replace(", ", " to ") if bound == "in_range" else _code(value)


def _shipped() -> Iterator[str]:
    yield "## Targets that ship"
    yield "Starting points, in `tosca/targets`. A request names one; `-i site.yaml` overrides what differs."
    rows = []
    for path in sorted((ROOT / "tosca" / "targets").glob("*.yaml")):
        metadata = yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]
        rows.append((f"`{path.stem}`", _one_line(metadata.get("unverified", ""))))
    yield table(("target", "unverified: what it is based on"), *rows)
    yield "## Blueprints that ship"
    rows = []
    for path in sorted((ROOT / "tosca" / "blueprints").glob("*/service.yaml")):
        description = yaml.safe_load(path.read_text(encoding="utf-8"))["description"]
        name = path.parent.name
        rows.append((f"[{name}](../../tosca/blueprints/{name}/README.md)", _one_line(description)))
    yield table(("blueprint", "deploys"), *rows)


# --- commands


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with the words that it is called by, and groups before their commands."""
    root = typer.main.get_command(application())
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        yield f"modak {name}", command
        for inner, subcommand in getattr(command, "commands", {}).items():
            yield f"modak {name} {inner}", subcommand


def _help(words: str, command: Any) -> str:
    with command.make_context(words, [], resilient_parsing=True) as context:
        context.info_name, context.terminal_width = words, 100
        return str(command.get_help(context)).rstrip()


def _commands() -> str:
    parts = [f"The output of `--help`, command by command. {_MADE}"]
    for words, command in commands():
        level = "##" if words.count(" ") == 1 else "###"
        parts += [f"{level} {words}", f"```text\n{_help(words, command)}\n```"]
    return _page("Commands", *parts)


# --- optimisations


def _optimisations() -> str:
    rows = []
    for optimisation in sorted(optimisations(), key=lambda option: option.name):
        path = ROOT / "modak_ansible" / optimisation.page()
        paragraphs = path.read_text(encoding="utf-8").split("\n\n")
        settings = ", ".join(f"`{property_.name or optimisation.name}`" for property_ in optimisation.properties)
        first = _first(_one_line(paragraphs[2]))
        rows.append(
            (f"[{optimisation.name}](../../modak_ansible/{optimisation.page()})", first, settings, optimisation.acts_on)
        )
    head = (
        "The options that a plan considers. Each has a page on what it changes, where it applies, what it does to "
        f"results, and the evidence. {_MADE}"
    )
    return _page("Optimisations", head, table(("optimisation", "what it is", "set with", "acts on"), *rows))


def _first(text: str) -> str:
    """The first sentence, or what stands before a colon; what stands in code ends neither."""
    end = re.match(r"(?:`[^`]*`|[^`])+?[.:](?=\s|$)", text)
    return (end[0] if end else text).rstrip(":")


def _pages() -> str:
    by_name = sorted(optimisations(), key=lambda optimisation: optimisation.name)
    return "\n".join(f"          - modak_ansible/{optimisation.page()}" for optimisation in by_name)


def _blueprints() -> str:
    names = sorted(path.parent.name for path in (ROOT / "tosca" / "blueprints").glob("*/README.md"))
    return "\n".join(f"          - {name}: tosca/blueprints/{name}/README.md" for name in names)


def _benchmarks() -> str:
    """Their pages, by the titles that they have."""
    pages = {path: path.read_text(encoding="utf-8").partition("\n")[0] for path in ROOT.glob("benchmarks/*/README.md")}
    titled = sorted((title.removeprefix("# "), path) for path, title in pages.items())
    return "\n".join(f"          - {title}: {path.relative_to(ROOT)}" for title, path in titled)


def _navigation(text: str) -> str:
    for name, pages in (("optimisations", _pages()), ("blueprints", _blueprints()), ("benchmarks", _benchmarks())):
        text = with_section(text, name, pages)
    return text


# --- catalogue


def _catalogue() -> str:
    catalogue = shipped_catalogue()
    parts = [
        "The builds of frameworks that a plan chooses from, in `modak_ansible/catalogue/entries`; `modak catalogue` "
        f"also shows what is known about them here. {_MADE}"
    ]
    for framework in sorted({entry.framework for entry in catalogue.entries}):
        rows = [_entry(entry) for entry in catalogue.of_framework(framework)]
        parts += [f"## {framework}", table(("entry", "version", "from", "for", "remarks"), *rows)]
    bases = [
        (f"`{name}`", base.suite, base.python, _one_line(base.remark)) for name, base in sorted(catalogue.bases.items())
    ]
    parts += ["## Base images", table(("base", "Debian", "Python", "remark"), *bases)]
    datasets = [
        (f"`{name}`", dataset.format, f"{dataset.size:,} bytes", _one_line(dataset.licence))
        for name, dataset in sorted(catalogue.datasets.items())
    ]
    parts += ["## Datasets known by name", table(("dataset", "format", "size", "licence"), *datasets)]
    return _page("Catalogue", *parts)


def _entry(entry: Entry) -> tuple[str, ...]:
    processors = ", ".join(entry.architectures) + (f" with {', '.join(entry.features)}" if entry.features else "")
    hardware = f"{processors}, {entry.accelerator}" if entry.accelerator else processors
    remarks = [entry.provenance]
    remarks += [f"**Untried**: {entry.untried}."] if entry.untried else []
    remarks += [f"**Refused** on {where}: {why}." for where, why in sorted(entry.refusals.items())]
    return f"`{entry.name}`", entry.version, entry.origin, hardware, _one_line(" ".join(remarks)).replace("..", ".")


# --- API


def _api() -> str:
    parts = [f"`import modak_ansible as modak`: everything listed here is public, and nothing else. {_MADE}"]
    parts.append(_python(inspect.getdoc(modak_ansible) or ""))
    for name in modak_ansible.__all__:
        member = getattr(modak_ansible, name)
        if callable(member):
            docstring = inspect.getdoc(member) or ""
            head = f"class {name}" if inspect.isclass(member) else f"def {name}{inspect.signature(member)}"
            parts += [f"## {name}", _python(_wrapped(head)), *_paragraphs(docstring)]
    for kind in (Planned, StatusRow, Results):
        parts += [f"## {kind.__name__}", *_paragraphs(inspect.getdoc(kind) or ""), *_members(kind)]
    return _page("API", *parts)


def _python(text: str) -> str:
    return f"```python\n{text}\n```"


def _wrapped(head: str) -> str:
    """A signature with one parameter a line."""
    if not head.startswith("def ") or "()" in head:
        return head
    name, _, rest = head.partition("(")
    inner, _, result = rest.rpartition(")")
    parameters = re.split(r", (?![^\[]*\])", inner)
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"]).replace("'", "")


def _paragraphs(docstring: str) -> Iterator[str]:
    """A docstring as Markdown: its sections are lists."""
    docstring = re.sub(r":(?:func|class|meth):`~?([\w.]+)`", r"`\1`", docstring).replace("``", "`")
    for paragraph in docstring.split("\n\n"):
        head, _, below = paragraph.partition("\n")
        if head in ("Args:", "Returns:", "Raises:", "Attributes:"):
            lines = textwrap.dedent(below).splitlines()
            items = [line if line.startswith(" ") else f"- {line}" for line in lines]
            yield f"**{head.rstrip(':')}**"
            yield "\n".join(re.sub(r"^- (\w+):", r"- `\1`:", item) for item in items)
        else:
            yield paragraph


def _members(kind: type) -> Iterator[str]:
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    names = names or list(getattr(kind, "model_fields", getattr(kind, "_fields", ())))
    properties = [
        name for name, attribute in vars(kind).items() if isinstance(attribute, property) and not name.startswith("_")
    ]
    if names:
        yield f"Fields: {', '.join(f'`{name}`' for name in names)}."
    if properties:
        yield f"Properties: {', '.join(f'`{name}`' for name in properties)}."


FILES: Writers = {
    "docs/reference/types.md": lambda _: _types(),
    "docs/reference/commands.md": lambda _: _commands(),
    "docs/reference/optimisations.md": lambda _: _optimisations(),
    "docs/reference/catalogue.md": lambda _: _catalogue(),
    "docs/reference/api.md": lambda _: _api(),
    "mkdocs.yml": _navigation,
}
