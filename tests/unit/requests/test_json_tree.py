"""JSON with the place of every value."""

from __future__ import annotations

import pytest

from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.requests.form.json_tree import parse_json


def parsed(text):
    mistakes = Mistakes()
    return parse_json(text, "x.json", mistakes), [str(mistake) for mistake in mistakes]


def test_numbers_are_jsons_and_tabs_are_space():
    tree, mistakes = parsed('{\n\t"a": 1e3,\t"b": [1.50, -2],\n\t"c": "x\\/\\u00e9\\ud83d\\ude00"}')
    assert mistakes == []
    assert tree.plain() == {"a": 1000.0, "b": [1.5, -2], "c": "x/\u00e9\U0001f600"}
    assert str(tree.get("b").elements[1].location) == "x.json:2:24"
    assert tree.get("b").elements[0].text == "1.50"
    assert str(tree.key_location("c")) == "x.json:3:2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x.json:1:1: json-syntax: not JSON: the file is empty"),
        ('{"a": 1,}', "x.json:1:9: json-syntax: not JSON: nothing follows the comma"),
        ('{"a": 1 "b": 2}', "x.json:1:9: json-syntax: not JSON: a comma or } is missing"),
        ('{"a" 1}', "x.json:1:6: json-syntax: not JSON: the name a has no colon behind it"),
        ("{a: 1}", "x.json:1:2: json-syntax: not JSON: a name in double quotes is missing"),
        ('{\n  "a": yes}', "x.json:2:8: json-syntax: not JSON: a value is missing"),
        ('{"a": 01}', "x.json:1:7"),
        ('{"a": NaN}', "x.json:1:7"),
        ('{"a": 1e999}', "x.json:1:7: json-syntax: not JSON: 1e999 is too large"),
        ('{"a": "x\n"}', "x.json:1:9: json-syntax: not JSON: invalid control character"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a": 1}\n}', "x.json:2:1: json-syntax: not JSON: something follows the end"),
        ('{"a": 1,\n "a": 2}', "x.json:2:2: duplicate-key: a is given twice, first in line 1"),
        ('{"a": 1, // mine\n "b": 2}', "x.json:1:10: json-syntax: not JSON: comments are no part of it: leave this one out"),
        ('# mine\n{"a": 1}', "x.json:1:1: json-syntax: not JSON: comments are no part of it"),
        ('{"a": /* mine */ 1}', "x.json:1:7: json-syntax: not JSON: comments are no part of it"),
        ("[" * 100000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "x.json:1:7"),
    ],
)  # fmt: skip
def test_mistakes(text, said):
    assert said in parsed(text)[1][0]
