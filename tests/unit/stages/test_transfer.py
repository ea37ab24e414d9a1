"""A transfer over a connection that breaks is gone on with; what a dropped connection does not explain is an error."""

from __future__ import annotations

import os

import pytest

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.transport import retry as patience
from modak_ansible.transport.rsync import push
from modak_ansible.transport.ssh import Connection

pytestmark = pytest.mark.component

BROKEN = ("rsync: [sender] write error: Broken pipe (32)", 10)


@pytest.fixture
def rsync(tmp_path, monkeypatch):
    """Has rsync end as a test says, one time after the other, and then well; gives the pauses that were made."""
    pauses = []
    monkeypatch.setattr(patience.time, "sleep", pauses.append)

    def ends(*ways):
        lines = [f"{number}) echo '{said}' >&2; exit {code};;" for number, (said, code) in enumerate(ways, 1)]
        program = tmp_path / "bin" / "rsync"
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\necho x >> {tmp_path}/runs\ncase $(wc -l < {tmp_path}/runs) in\n{os.linesep.join(lines)}\nesac\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return pauses

    return ends


def send(tmp_path, said, connection=None):
    push(connection or Connection("host", tmp_path / "ssh_config"), [tmp_path / "file"], "folder", said.append)


def test_a_transfer_goes_on_when_the_connection_is_back(tmp_path, rsync):
    pauses, said = rsync(BROKEN, ("ssh: connect to host: Connection refused", 255), ("", 12)), []
    send(tmp_path, said)
    assert pauses == [1, 2, 5]
    assert said == [f"the connection broke; trying again in {pause} s" for pause in pauses]


def test_a_target_that_stays_away_is_given_up(tmp_path, rsync):
    pauses = rsync(*[BROKEN] * 8)
    with pytest.raises(TargetUnreachable, match=r"does not answer any more: rsync: .* Broken pipe"):
        send(tmp_path, [])
    assert sum(pauses) == 128


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (("rsync: write failed: No space left on device (28)", 12), "the disk is full on the target, at folder"),
        (("rsync: write failed: Disk quota exceeded (122)", 11), "the quota is used up on the target, at folder"),
        (("bash: rsync: command not found", 12), "rsync is not on the target"),
        (("rsync: Command not found.", 12), "rsync is not on the target"),
        (("rsync: read error: Permission denied (13)", 23), "the transfer was interrupted: rsync: read error"),
    ],
)
def test_what_no_other_attempt_would_mend_is_an_error_at_once(tmp_path, rsync, way, words):
    pauses = rsync(way)
    with pytest.raises(ModakError, match=words):
        send(tmp_path, [])
    assert pauses == []


def test_no_length_of_errors_stops_it(tmp_path, rsync):
    rsync(("x" * 200_000 + "\nrsync: read error: Permission denied (13)", 23))
    program = tmp_path / "bin" / "rsync"
    program.rename(tmp_path / "bin" / "told")
    program.write_text(f"#!/bin/sh\nexec timeout 20 {tmp_path}/bin/told\n")
    program.chmod(0o755)
    with pytest.raises(ModakError, match="the transfer was interrupted: rsync: read error"):
        send(tmp_path, [])


def test_within_this_machine_no_connection_breaks(tmp_path, rsync):
    pauses = rsync(BROKEN)
    with pytest.raises(ModakError, match="the transfer was interrupted"):
        send(tmp_path, [], Connection(""))
    assert pauses == []
