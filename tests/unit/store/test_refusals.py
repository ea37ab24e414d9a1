"""What a project remembers of builds that failed their probe."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.store.lists.refusals import forget_refusals, known_refusals, note_refusal

REFUSAL = Refusal(
    entry="acme-1.0-pip", entry_digest="0" * 64, architecture="zen5", address="frontend.example",
    processor="Acme 9000", reason="Illegal instruction", date="2026-11-21T13:00:00Z",
)  # fmt: skip


def test_a_project_that_refused_nothing(tmp_path):
    assert known_refusals(tmp_path / "nowhere") == ()


def test_a_refusal_is_remembered_once(tmp_path):
    state = tmp_path / ".modak"
    note_refusal(state, REFUSAL.model_copy(update={"reason": "an earlier one"}))
    note_refusal(state, REFUSAL)
    elsewhere = REFUSAL.model_copy(update={"address": "other.example"})
    note_refusal(state, elsewhere)
    assert known_refusals(state) == (REFUSAL, elsewhere)


def test_an_image_and_an_environment_are_refused_each_for_itself_and_forgotten_together(tmp_path):
    both = tuple(REFUSAL.model_copy(update={"container": each}) for each in (False, True))
    for each in both:
        note_refusal(tmp_path, each)
    assert known_refusals(tmp_path) == both
    forget_refusals(tmp_path, REFUSAL.entry, REFUSAL.address)
    assert known_refusals(tmp_path) == ()


def test_a_refusal_is_forgotten(tmp_path):
    note_refusal(tmp_path, REFUSAL)
    forget_refusals(tmp_path, REFUSAL.entry, "other.example")
    assert known_refusals(tmp_path) == (REFUSAL,)
    forget_refusals(tmp_path, REFUSAL.entry, REFUSAL.address)
    assert known_refusals(tmp_path) == ()


def test_refusals_at_the_same_time_are_all_kept(tmp_path):
    many = [REFUSAL.model_copy(update={"entry": f"acme-{number}"}) for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: note_refusal(tmp_path, each), many))
    assert {refusal.entry for refusal in known_refusals(tmp_path)} == {each.entry for each in many}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"refusals": [{}]}', '{"schema_version": "modak.refusals/9"}', "\xff"]
)
def test_a_damaged_file_is_called_so(tmp_path, text):
    (tmp_path / "refusals.json").write_text(text, encoding="latin-1")
    with pytest.raises(ModakError, match=r"refusals.json, the list of refused builds, cannot be read") as caught:
        known_refusals(tmp_path)
    assert "remove it" in caught.value.hint
    with pytest.raises(ModakError, match="cannot be read"):
        note_refusal(tmp_path, REFUSAL)
    assert (tmp_path / "refusals.json").read_text(encoding="latin-1") == text
