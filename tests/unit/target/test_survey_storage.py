"""Folders, file systems and quotas, as the target's kernel and commands tell of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import CommandResult
from modak_ansible.target.survey import storage as survey_storage
from modak_ansible.target.survey.storage import folder_facts, is_network, mount_of, quotas, read_quotas

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw,nosuid,nodev,noexec 0 0
tmpfs /tmp tmpfs rw,nosuid,nodev,noexec 0 0
nas:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /scratch/my\\040disk xfs rw 0 0
overlay /home/over overlay rw 0 0
tmpfs /home/over tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "source", "kind"),
    [("/home/alice", "nas:/home", "nfs4"), ("/home", "nas:/home", "nfs4"), ("/homes", "/dev/sda1", "ext4"), ("/", "/dev/sda1", "ext4"),
     ("/scratch/my disk/x", "/dev/sdb1", "xfs"), ("/home/over/x", "tmpfs", "tmpfs"), ("/tmp", "tmpfs", "tmpfs")],
)  # fmt: skip
def test_the_file_system_of_a_path(path, source, kind):
    assert mount_of(path, MOUNTS)[:2] == (source, kind)


@given(st.text(max_size=60), st.text(max_size=10))
def test_no_list_of_mounts_breaks_it(mounts, path):
    mount_of(f"/{path}", mounts)


@pytest.mark.parametrize(
    ("kind", "network"),
    [("nfs4", True), ("nfs", True), ("lustre", True), ("fuse.cephfs", True), ("ext4", False), ("xfs", False), ("ext2/ext3", False),
     ("overlayfs", False), ("fhgfs", True), ("v9fs", True), ("smb2", True), ("gfs/gfs2", True), ("ocfs2", True), ("panfs", True), ("dvs", True),
     ("fuse.something", None), ("fuseblk", None), ("UNKNOWN (0x1234)", None), ("", None)],
)  # fmt: skip
def test_what_others_may_see(kind, network):
    assert is_network(kind) is network


def test_a_folder_that_is_there(tmp_path):
    found = folder_facts(tmp_path, trial=True)
    assert (found["path"], found["there"], found["writable"], found["problem"]) == (str(tmp_path), True, True, "")
    assert found["free_bytes"] > 0
    assert found["type"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not(tmp_path):
    found = folder_facts(tmp_path / "not" / "there")
    assert (found["there"], found["writable"]) == (False, True)


def test_a_quota_that_is_used_up(tmp_path, monkeypatch):
    def full(_):
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(survey_storage.os, "fsync", full)
    assert folder_facts(tmp_path, trial=True)["problem"] == "Disk quota exceeded"


# As the manual pages of quota(1) and lfs-quota(1) show them.
QUOTA = """\
Disk quotas for user alice (uid 2000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      nas:/home  104857*  102400  204800  1700000000   5000       0       0       0
      /dev/sdb1       0       0       0       0       0       0       0       0
"""
LFS = "/lustre 1024 0 2048 - 10 100 200 -\n"


def test_quotas():
    first, second = read_quotas(QUOTA)
    assert first == {
        "place": "nas:/home",
        "used": 104857 * 1024,
        "limit": 204800 * 1024,
        "files": 5000,
        "most_files": None,
    }
    assert second["limit"] is None
    (lustre,) = read_quotas(LFS)
    assert (lustre["limit"], lustre["files"], lustre["most_files"]) == (2048 * 1024, 10, 200)
    assert read_quotas("Disk quotas for user alice (uid 2000): none\n") == []
    # some of its servers do not answer
    (told,) = read_quotas("/fred [1041408]*  5242880 6291456       -     [0]       0       0       -\n")
    assert (told["used"], told["limit"], told["files"]) == (1041408 * 1024, 6291456 * 1024, 0)


@given(st.text(alphabet="/a 019*-\n", max_size=80))
def test_no_table_of_quotas_breaks_it(text):
    assert all(quota["used"] >= 0 for quota in read_quotas(text))


def test_the_quota_of_a_home_folder_that_is_a_link_is_asked_where_it_leads(tmp_path, monkeypatch):
    (tmp_path / "lustre").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "lustre")
    monkeypatch.setattr(survey_storage, "_mounts", lambda: f"mds:/l {tmp_path}/lustre lustre rw 0 0\n")
    monkeypatch.setattr(survey_storage, "find_program", lambda *names: names[0])
    monkeypatch.setattr(survey_storage, "TimedRun", lambda **_: lambda words: CommandResult(0, LFS))
    found = quotas(tmp_path / "home")
    assert (found["asked"], found["limits"][0]["limit"]) == ("lfs quota", 2048 * 1024)


def test_the_quota_of_a_workspace_on_another_file_system_than_the_home_is_asked_for_too(tmp_path, monkeypatch):
    """As at centres with a home on NFS and a workspace on Lustre; of one file system it is asked once."""
    asked = []

    def run(words):
        asked.append(words[0])
        return CommandResult(0, LFS if words[0] == "lfs" else QUOTA)

    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    mounts = f"nas:/home {home} nfs4 rw 0 0\nmds:/l {work} lustre rw 0 0\n"
    monkeypatch.setattr(survey_storage, "_mounts", lambda: mounts)
    monkeypatch.setattr(survey_storage, "find_program", lambda *names: names[0])
    monkeypatch.setattr(survey_storage, "TimedRun", lambda **_: run)
    found = quotas(home, work / "modak" / "new")
    assert (found["asked"], [each["place"] for each in found["limits"]]) == (
        "quota and lfs quota", ["nas:/home", "/dev/sdb1", "/lustre"],
    )  # fmt: skip
    asked.clear()
    quotas(work, work / "modak")
    quotas(home, home / "modak")
    assert asked == ["lfs", "lfs", "lfs", "quota"]  # of which two ask for the projects of the folders


def test_the_quota_of_a_project_of_lustre(tmp_path, monkeypatch):
    """By lfs-project(1): what lies below a folder counts, whoever wrote it; the project 0 is none."""

    def run(words):
        if words[1] == "project":
            return CommandResult(0, f"{project:>5} P {words[-1]}\n")
        return CommandResult(0, "/lustre 9 0 10 - 1 0 0 -\n" if "-p" in words and "110255" in words else LFS)

    monkeypatch.setattr(survey_storage, "_mounts", lambda: f"mds:/l {tmp_path} lustre rw 0 0\n")
    monkeypatch.setattr(survey_storage, "find_program", lambda *names: names[0])
    monkeypatch.setattr(survey_storage, "TimedRun", lambda **_: run)
    project = 110255
    assert [each["limit"] for each in quotas(tmp_path)["limits"]] == [2048 * 1024, 10 * 1024]
    project = 0
    assert [each["limit"] for each in quotas(tmp_path)["limits"]] == [2048 * 1024]


GPFS = """\
mmlsquota::HEADER:version:reserved:reserved:filesystemName:quotaType:id:name:blockUsage:blockQuota:blockLimit:\
blockInDoubt:blockGrace:filesUsage:filesQuota:filesLimit:filesInDoubt:filesGrace:remarks:quota:defQuota:fid:filesetname:
mmlsquota::0:1:::gpfs01:USR:2000:alice:2097152:10485760:12582912:0:none:4000:0:500000:0:none:e:on:off:::
mmlsquota::0:1:::gpfs01:GRP:500:lab:9999999:0:0:0:none:1:0:0:0:none:e:on:off:::
mmlsquota::0:1:::work:USR:2000:alice:10:20:0:0:2 days:1:0:0:0:none:e:on:off:1:proj:
"""


def test_quotas_of_gpfs(tmp_path, monkeypatch):
    """In the form that public parsers of mmlsquota -Y are tested by, which is in kilobytes."""
    monkeypatch.setattr(survey_storage, "_mounts", lambda: f"gpfs01 {tmp_path} gpfs rw 0 0\n")
    monkeypatch.setattr(survey_storage, "find_program", lambda *names: names[-1])
    asked = []
    monkeypatch.setattr(
        survey_storage, "TimedRun", lambda **_: lambda words: asked.append(words) or CommandResult(0, GPFS)
    )
    found = quotas(tmp_path)
    assert (found["asked"], asked) == ("mmlsquota", [["/usr/lpp/mmfs/bin/mmlsquota", "-Y"]])
    assert [(each["place"], each["used"], each["limit"], each["most_files"]) for each in found["limits"]] == [
        ("gpfs01", 2 * 2**30, 12 * 2**30, 500000), ("gpfs01:lab", 9999999 * 1024, None, None), ("work:proj", 10240, 20480, None),
    ]  # fmt: skip
    assert read_quotas("mmlsquota: [E] GPFS is down on this node.\n") == []


def test_where_no_command_tells_of_quotas(tmp_path, monkeypatch):
    monkeypatch.setattr(survey_storage, "find_program", lambda *_: None)
    assert quotas(tmp_path) == {"asked": "", "limits": []}


@pytest.mark.parametrize("place", ["/lustre", "/lustre/home/alice/projects"])
def test_a_place_of_lustre_that_has_a_line_of_its_own(place):
    lines = f"{place:>15}\n{'':15}" if len(place) > 15 else f"{place:>15}"
    (found,) = read_quotas(f"{lines} 9999999  0 10000000  -  5000  0  0  -\n")
    assert (found["place"], found["used"], found["limit"]) == (place, 9999999 * 1024, 10000000 * 1024)
    one, two = read_quotas(f"{lines} 1 0 2 - 3 0 0 -\n/other 4 0 5 - 6 0 0 -\n")
    assert (one["used"], two["place"]) == (1024, "/other")


def test_a_folder_that_may_not_be_entered(closed_folder):
    """Scratch of the nodes is often such a folder on a front end."""
    facts = folder_facts(closed_folder / "job" / "scratch", trial=True)
    assert (facts["there"], facts["problem"]) == (False, "Permission denied")
