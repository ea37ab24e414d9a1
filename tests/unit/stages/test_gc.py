"""What nobody uses is looked for, and removed as far as it was shown."""

from __future__ import annotations

from modak_ansible.stages.gc import collect, survey

FOUND = {"kind": "image", "name": "pytorch (abc)", "path": "/w/images/abc.sif", "size": 2 * 10**9, "idle": 1.0}


def answering(asked, **answer):
    def call(name, **arguments):
        asked.append((name, arguments))
        return {"workspace": "/w", "removed": [], "garbage": [FOUND], "kept": [], "problems": [], **answer}

    return call


def test_looking_changes_nothing(make_stage):
    asked = []
    stage, _ = make_stage(answering(asked))
    outcome = survey(stage, 60.0)
    assert not outcome.changed
    assert outcome.message == "unused: pytorch (abc), 2.0 GB"
    assert outcome.data["garbage"] == [FOUND]
    given = {"workspace": "modak", "action": "look", "older_than": 60.0, "only": [], "hosts": []}
    assert asked == [("modak_gc", given)]


def test_removing_tells_what_is_gone(make_stage):
    asked = []
    stage, _ = make_stage(answering(asked, removed=[FOUND, FOUND], garbage=[]))
    outcome = collect(stage, 60.0, ["/w/images/abc.sif"])
    assert outcome.changed
    assert outcome.message == "removed 2 things, 4.0 GB"
    assert asked[0][1]["action"] == "remove"
    assert asked[0][1]["only"] == ["/w/images/abc.sif"]


def test_check_mode_only_looks(make_stage):
    asked = []
    stage, _ = make_stage(answering(asked), check=True)
    outcome = collect(stage, 60.0, [])
    assert outcome.changed
    assert outcome.message == "would remove pytorch (abc), 2.0 GB"
    assert asked[0][1]["action"] == "look"


def test_nothing_to_remove(make_stage):
    stage, _ = make_stage(answering([], garbage=[]))
    assert collect(stage, 0.0, []).message == "removed nothing"
