"""What is there is not made again, and the controller's sources go along only with what is built."""

from __future__ import annotations

from modak_ansible.stages import image as image_stage
from modak_ansible.stages.image import ensure_image


def test_an_image_that_is_there_costs_one_look(make_stage, monkeypatch):
    monkeypatch.setattr(image_stage, "package_sources", lambda: 1 / 0)
    asked = []

    def call(name, *, action, **arguments):
        asked.append(action)
        return {"missing": [], "image": {"size": 1}}

    stage, _ = make_stage(call)
    assert not ensure_image(stage).changed
    assert asked == ["look"]


def test_an_image_that_is_missing_is_made_with_the_controllers_sources(make_stage, monkeypatch):
    monkeypatch.setattr(image_stage, "package_sources", lambda: {"apt_mirror": "http://here/debian"})
    sites = {}

    def call(name, *, action, site, **arguments):
        sites[action] = site
        is_done = action == "wait"
        return {"missing": [] if is_done else ["top"], "started": True, "image": {}, "status": {"state": "done"}}

    stage, said = make_stage(call)
    assert ensure_image(stage).changed
    assert sites["start"]["otherwise"] == {"apt_mirror": "http://here/debian"}
    assert said == ["making top on the target"]
