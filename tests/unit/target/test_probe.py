"""What a target says of its processor and its memory."""

from __future__ import annotations

from modak_ansible.target.core import probe as probe_module
from modak_ansible.target.core import processor
from modak_ansible.target.core.probe import probe
from modak_ansible.target.core.workspace import Workspace

CPUINFO = """\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC: one
flags\t\t: fpu avx2

processor\t: 1
model name\t: another
"""


def test_the_first_core_speaks_for_all(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO)
    monkeypatch.setattr(processor, "Path", lambda _: path)
    known = {"vendor_id": "AuthenticAMD", "model name": "AMD EPYC: one", "flags": "fpu avx2"}
    assert processor.cpuinfo() == known


def test_a_machine_without_cpuinfo_is_known_by_its_platform(tmp_path, monkeypatch):
    monkeypatch.setattr(probe_module, "cpuinfo", dict)
    monkeypatch.setattr(processor, "cpuinfo", dict)
    monkeypatch.setattr(processor.platform, "processor", lambda: "some processor")
    facts = probe(Workspace(str(tmp_path / "workspace")), "none", "none", create=True)
    assert (facts["processor"], facts["cpuinfo"]) == ("some processor", {})
    assert facts["memory"] > 10**8
