"""Where a description goes, and that nothing is written over."""

from __future__ import annotations

import pytest
import yaml
from surveyed import bare, surveyed

from modak_ansible.discovery.description import describe
from modak_ansible.discovery.target_files import TargetFiles
from modak_ansible.errors import UsageError

FOUND = describe(bare(), surveyed())
HOST = describe(bare("host"), surveyed(cluster=None))


def test_a_file(tmp_path):
    files = TargetFiles(str(tmp_path / "site.yaml"))
    files.check()
    assert files.write(FOUND) == [tmp_path / "site.yaml"]
    assert yaml.safe_load((tmp_path / "site.yaml").read_text())["frontend"] == "login.example"


@pytest.mark.parametrize("name", ["sites/mine/", "sites"])
def test_a_folder(tmp_path, name):
    files = TargetFiles(f"{tmp_path}/{name}")
    files.check()
    written = files.write(FOUND)
    assert [path.name for path in written] == ["site.yaml", "target.yaml"]
    assert (written[0].parent / "types" / "modak.yaml").is_file()
    TargetFiles(f"{tmp_path}/{name}", force=True).write(FOUND)


def test_a_host_has_a_target_file_too(tmp_path):
    site, template = TargetFiles(f"{tmp_path}/out").write(HOST)
    assert yaml.safe_load(site.read_text())["scheduler"] == "none"
    assert "modak.nodes.Host" in template.read_text()


def test_nothing_is_written_without_a_name():
    TargetFiles(None).check()
    assert TargetFiles(None).write(FOUND) == []


def test_a_file_that_is_there_stays(tmp_path):
    (tmp_path / "site.yaml").write_text("mine")
    with pytest.raises(UsageError, match="already there"):
        TargetFiles(str(tmp_path / "site.yaml")).check()
    with pytest.raises(UsageError, match="already there"):
        TargetFiles(str(tmp_path)).check()
    TargetFiles(str(tmp_path / "site.yaml"), force=True).check()


def test_a_folder_that_is_a_file_or_not_there(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        TargetFiles(str(tmp_path / "file")).check()
    with pytest.raises(UsageError, match="there is no folder"):
        TargetFiles(str(tmp_path / "none" / "site.yaml")).check()
