"""What is searched, in words."""

from __future__ import annotations

from modak_ansible.model.search import Dimension


def test_whole_numbers_are_written_out():
    assert Dimension(name="seed", high=2147483647, is_whole=True).words == "seed (0 to 2147483647)"
    assert (
        Dimension(name="size", low=1000, high=3000000, step=500, is_whole=True).words
        == "size (1000 to 3000000, step 500)"
    )
    assert Dimension(name="lr", low=1e-5, high=0.1, log=True).words == "lr (1e-05 to 0.1, log)"
