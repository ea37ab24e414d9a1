"""docs/requests.md: its tables are those of the forms, its example is valid."""

from __future__ import annotations

import json
import os
import re

import pytest

from modak_ansible.blueprint.forms.forms import choices_of, fields_of, form_of, plain_types
from modak_ansible.blueprint.forms.mistakes import Mistakes
from modak_ansible.blueprint.reader import Inputs
from modak_ansible.planning.service import check_blueprint
from modak_ansible.requests.form.form import RequestForm
from modak_ansible.requests.form.older import OLDER

_KINDS = {bool: "true, false", int: "whole number", float: "number"}


@pytest.fixture(scope="module")
def page(root):
    return root / "docs" / "requests.md"


def field_rows(form=RequestForm, path=""):
    aliases = {field.alias or name: field for name, field in form.model_fields.items()}
    for name, annotation in fields_of(form).items():
        inner, words = form_of(annotation), choices_of(annotation)
        kinds = [text for kind, text in _KINDS.items() if kind in set(plain_types(annotation))]
        values = "" if inner else ", ".join(words or kinds) or "text"
        if aliases[name].description.startswith(("Refused", "Not kept")):
            values = "-"
        yield f"| `{path}{name}` | {values} | {aliases[name].description} |"
        if inner:
            yield from field_rows(inner, f"{path}{name}.")


def field_table():
    rows = [row.replace("`job.", "`") for row in field_rows() if not row.startswith("| `job` ")]
    return "\n".join(["| field of `job` | values | what is done |", "|---|---|---|", *rows])


def older_table():
    rows = [
        f"| `{(each.path + '.').lstrip('.')}{each.field + ': ' if each.field else ''}{each.old}` | `{each.new}` |"
        for each in OLDER
    ]
    return "\n".join(["| older | today |", "|---|---|", *rows])


def section(text, name):
    return re.search(rf"(<!-- {name} -->\n)(.*?)(<!-- /{name} -->)", text, re.DOTALL)


@pytest.mark.parametrize(("name", "table"), [("fields", field_table), ("older", older_table)])
def test_tables(page, name, table):
    text = page.read_text()
    found = section(text, name)
    expected = f"{table()}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(text.replace(found[0], found[1] + expected + found[3]))
        return
    assert found[2] == expected, "UPDATE_GOLDEN=1 writes it anew"


def test_the_example_is_valid_without_a_warning(root):
    mistakes, warnings = Mistakes(), Mistakes()
    plans = check_blueprint(root / "docs" / "example" / "request.json", Inputs(), mistakes, warnings)
    assert (list(mistakes), list(warnings)) == ([], [])
    assert plans[0].image.entry.startswith("pytorch-2")
    assert plans[0].application.work.workload == "mnist_cnn"


def test_the_example_of_a_target_is_read(page, tmp_path, root):
    text = page.read_text()
    block = text[text.index("    # targets.yaml") :]
    lines = [line[4:] for line in block[: block.index("\n\n## ")].splitlines()]
    (tmp_path / "targets.yaml").write_text("\n".join(lines))
    (tmp_path / "types").symlink_to(root / "tosca" / "types")
    (tmp_path / "train.py").write_text("")
    request = json.loads((root / "docs" / "example" / "request.json").read_text())
    request["job"]["target"] = {"name": "cluster"}
    request["job"]["application"]["executable"] = "train.py"
    (tmp_path / "request.json").write_text(json.dumps(request))
    mistakes = Mistakes()
    (plan,) = check_blueprint(tmp_path / "request.json", Inputs(), mistakes)
    assert plan.target.address == "login.cluster.example"
