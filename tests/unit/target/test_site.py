"""A machine's own settings, wherever distributions and people put them."""

from __future__ import annotations

import subprocess

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core import site
from modak_ansible.target.core.site import read_site
from modak_ansible.target.images import site_folder
from modak_ansible.target.images.site_folder import write_site_folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that says nothing, but for what a test has its commands print and its files say."""

    class Machine:
        home = tmp_path / "home"
        files = [home / "system.conf", home / ".config/pip/pip.conf"]
        printed = {}
        environment = {"HOME": str(home)}
        release = "ID=debian\nVERSION_CODENAME=bookworm\n"

        def read(self, **given):
            return read_site(given, self.environment)

        def write(self, name, text):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    made = Machine()
    made.printed, made.environment = {}, dict(Machine.environment)
    monkeypatch.setattr(
        site,
        "_output",
        lambda *command: "".join(text for words, text in made.printed.items() if {*words.split()} <= {*command}),
    )
    monkeypatch.setattr(site, "read_text", lambda path: made.release)
    monkeypatch.setattr(site, "_BUNDLES", ())
    monkeypatch.setattr(site, "_pip_files", lambda environment: [path for path in made.files if path.exists()])
    return made


def test_a_machine_that_says_nothing(machine):
    found = machine.read()
    assert (found.bundle, found.apt_mirror, found.pip, found.proxies) == (None, None, {}, {})


@pytest.mark.parametrize(
    "lines",
    [
        "Debian|Debian-Security|main|http://no/debian-security/\nDebian|Debian|main|http://mirror/debian/\n",
        "Acme|Acme|main|http://no/acme/\nDebian|Debian|contrib|http://no/\nDebian|Debian|main|http://mirror/debian/\n",
        "Debian|Debian|main|cdrom://no/\nDebian|Debian|main|http://mirror/debian/\n",
    ],
)
def test_debian_mirror(machine, lines):
    machine.printed["apt-get indextargets"] = lines
    assert machine.read().apt_mirror == "http://mirror/debian"
    assert machine.read(apt_mirror="http://mine/debian").apt_mirror == "http://mine/debian"


def test_debian_mirror_without_package_lists(machine):
    """As an image or a minimal machine is, where apt has not fetched anything yet."""
    machine.printed["apt-get --print-uris"] = (
        "'http://no/acme/dists/bookworm/InRelease' no_acme_dists_bookworm_InRelease 0 \n"
        "'http://no/acme/dists/bookworm/stable/binary-amd64/Packages.xz' no_acme 0 \n"
        "'http://no/other/dists/sid/main/binary-amd64/Packages.xz' no_other 0 \n"
        "'http://mirror/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror_debian_dists_bookworm 0 \n"
    )
    assert machine.read().apt_mirror == "http://mirror/debian"
    machine.release = "ID=ubuntu\nVERSION_CODENAME=bookworm\n"
    assert machine.read().apt_mirror is None


def test_another_distributions_mirror_is_none_of_debian(machine):
    machine.release = "ID=ubuntu\nVERSION_CODENAME=noble\n"
    machine.printed["apt-get indextargets"] = "Ubuntu|Ubuntu|main|http://ubuntu/ubuntu/\n"
    assert machine.read().apt_mirror is None


def test_the_controllers_sources_serve_where_the_machine_names_none(machine):
    otherwise = {"apt_mirror": "http://far/debian", "pip": {"index-url": "https://far/simple"}}
    found = machine.read(otherwise=otherwise)
    assert (found.apt_mirror, found.pip) == ("http://far/debian", {"index-url": "https://far/simple"})
    machine.write("system.conf", "[global]\nextra-index-url = https://near/simple\n")
    machine.printed["apt-get indextargets"] = "Debian|Debian|main|http://near/debian/\n"
    found = machine.read(otherwise=otherwise)
    assert (found.apt_mirror, found.pip) == ("http://near/debian", {"extra-index-url": "https://near/simple"})


def test_only_addresses_of_the_network_are_handed_on(machine):
    machine.environment["PIP_INDEX_URL"] = "https://far/simple"
    machine.environment["PIP_EXTRA_INDEX_URL"] = "http://localhost:3141/simple https://me:secret@far/simple"
    machine.environment["PIP_FIND_LINKS"] = "/wheels https://far/wheels"
    machine.environment["PIP_TIMEOUT"] = "60"
    assert site.package_sources(machine.environment) == {
        "apt_mirror": "",
        "pip": {"index-url": "https://far/simple", "find-links": "https://far/wheels"},
    }


def test_what_is_no_address_at_all_is_handed_on_to_nobody(machine):
    machine.environment["PIP_INDEX_URL"] = "https://me:pa[ss@far/simple"
    assert site.package_sources(machine.environment) == {"apt_mirror": "", "pip": {}}
    assert site.pip_folders({"find-links": "https://me:pa[ss@far/simple"}) == []


def test_apt_options(machine):
    machine.printed["apt-config"] = (
        'Acquire::http::Proxy "http://p:1";\nAcquire::Languages "none";\nAcquire::https::CaInfo "/etc/own.crt";\n'
        'Acquire::https::SslKey "/etc/key";\n'
    )
    here, there = site.apt_options("/there.crt")
    assert len(here) == 3
    assert there == ['Acquire::http::Proxy "http://p:1";', 'Acquire::https::CaInfo "/there.crt";']


def test_pip_files_and_environment_are_joined_as_pip_does(machine):
    machine.write(
        "system.conf", "[global]\nindex-url = http://a\nextra-index-url =\n  http://b\n  http://c\ncolor = no\n"
    )
    machine.write(".config/pip/pip.conf", "[global]\nindex-url = http://mine\n[install]\nno-index = no\n")
    machine.environment["PIP_TRUSTED_HOST"] = "b"
    assert machine.read().pip == {
        "index-url": "http://mine", "extra-index-url": "http://b http://c", "no-index": "no", "trusted-host": "b",
    }  # fmt: skip
    given = {"pip_index_url": "http://site", "pip_find_links": ["/wheels"], "pip_extra_index_urls": ["http://d"]}
    pip = machine.read(**given).pip
    assert (pip["index-url"], pip["find-links"]) == ("http://site", "/wheels")
    assert pip["extra-index-url"] == "http://d http://b http://c"


def test_a_broken_pip_file_is_passed_over(machine):
    machine.write("system.conf", "index-url = no section\n")
    machine.write(".config/pip/pip.conf", "[global]\nindex-url = http://mine\n")
    assert machine.read().pip == {"index-url": "http://mine"}


def test_bundles_that_somebody_chose_come_first_and_each_once(machine, tmp_path):
    for name, text in (("a.crt", "a"), ("b.crt", "b"), ("c.crt", "a")):
        (tmp_path / name).write_text(text)
    machine.environment.update(
        SSL_CERT_FILE=str(tmp_path / "a.crt"), CURL_CA_BUNDLE=str(tmp_path / "c.crt"), PIP_CERT=str(tmp_path / "b.crt"),
    )  # fmt: skip
    assert machine.read().bundles == [str(tmp_path / "a.crt"), str(tmp_path / "b.crt")]
    assert machine.read(certificate_bundle="/site.crt").bundles == ["/site.crt"]


def test_a_bundle_may_lie_in_the_home_folder(machine, monkeypatch):
    monkeypatch.setenv("HOME", "/home/alice")
    assert machine.read(certificate_bundle="~/ca.pem").bundles == ["/home/alice/ca.pem"]
    assert machine.read(certificate_bundle="$HOME/ca.pem").bundles == ["/home/alice/ca.pem"]


def test_a_bundle_that_is_not_there_is_named(machine):
    with pytest.raises(ModakError, match=r"the certificates /site/typo.crt are not on the target"):
        print(machine.read(certificate_bundle="/site/typo.crt").bundle)


def test_folders_of_packages_may_lie_in_the_home_folder(tmp_path, machine, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "wheels").mkdir()
    binds = write_site_folder(machine.read(pip_find_links=["~/wheels"]), tmp_path / "site")
    assert binds == [f"{tmp_path}/wheels:/mnt/0:ro"]
    assert "export PIP_FIND_LINKS=/mnt/0\n" in (tmp_path / "site" / "environment").read_text()


@pytest.mark.component
def test_the_build_sees_it_all(machine, monkeypatch, tmp_path):
    wheels, index = tmp_path / "wheels", tmp_path / "pypi" / "simple"
    wheels.mkdir()
    index.mkdir(parents=True)
    (tmp_path / "own.crt").write_text("certificates")
    machine.write("system.conf", f"[global]\nfind-links = {wheels}\nextra-index-url = file://{index} http://b\n")
    machine.environment.update(https_proxy="http://p:1/$(id)'x", SSL_CERT_FILE=str(tmp_path / "own.crt"))
    machine.printed["apt-config"] = 'Acquire::Retries "3";\n'
    monkeypatch.setattr(site_folder, "apt_options", site.apt_options)
    folder = tmp_path / "site"
    binds = write_site_folder(machine.read(), folder)
    assert sorted(binds) == [f"{index.parent}:/mnt/0:ro", f"{wheels}:/mnt/1:ro"]
    assert (folder / "mount-points").read_text() == "/mnt/0\n/mnt/1\n"
    assert (folder / "certificates.crt").read_text() == "certificates"
    assert (folder / "apt.conf").read_text() == 'Acquire::Retries "3";\n'
    names = ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "https_proxy", "SSL_CERT_FILE", "APT_CONFIG")
    shown = " ".join(f'"${name}"' for name in names)
    command = f". {folder}/environment; printf '%s\\n' {shown}"
    seen = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.splitlines()
    assert seen == [
        "file:///mnt/0/simple http://b", "/mnt/1", "http://p:1/$(id)'x", "/.modak-site/certificates.crt", "/.modak-site/apt.conf",
    ]  # fmt: skip


def test_this_machine_can_be_read():
    """Whatever it says, it is said without an error."""
    read_site({})
