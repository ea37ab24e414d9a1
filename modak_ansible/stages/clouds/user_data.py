"""What a machine is told when it first starts, as cloud-init reads it: its host key, and when it ends itself."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from modak_ansible.catalogue.own import BlockDumper
from modak_ansible.errors import ModakError
from modak_ansible.model.target import Cloud, Terms

_HEAD = "#cloud-config\n"
_SCRIPT = "/usr/local/sbin/modak-idle"
# What a login starts is in its session, however long it outlives it: a job, a build, a transfer.
_IDLE = """\
#!/bin/sh
# Ends this machine once nobody has been logged in, and nothing that a login began has run, for {minutes} minutes{most}.
began="${{MODAK_BEGAN:-/var/lib/modak-began}}" used="${{MODAK_USED:-/run/modak-used}}"
[ -e "$began" ] || : > "$began"
[ -e "$used" ] || : > "$used"
for group in $(find "${{MODAK_CGROUPS:-/sys/fs/cgroup}}" -path '*/session-*.scope*' -name cgroup.procs 2> /dev/null); do
  [ -z "$(cat "$group" 2> /dev/null)" ] || touch "$used"
done
{shared}[ -z "$(find "$used" -mmin "+{minutes}")" ]{spent} || shutdown -P now
"""
# A job of Slurm's is in no session; and who is logged in at one host of a cluster, or has a job there, uses all of it.
# The home folder is everybody's, and the clock in it, too: to whom the first host does not answer, it says nothing.
_OF_ALL = """\
all="${{MODAK_ALL:-/home/.modak-cluster}}"
[ -z "$(timeout -s KILL 20 squeue --noheader 2> /dev/null)" ] || touch "$used"
timeout -s KILL 20 sh -c '[ ! "$1" -nt "$2" ] || touch -r "$1" "$2"; [ ! "$2" -nt "$1" ] || touch -r "$2" "$1"' \
  sh "$used" "$all" 2> /dev/null
"""
_MOST = ", or when it is {minutes} minutes old"
_SPENT = ' && [ -z "$(find "$began" -mmin "+{minutes}")" ]'


class KeyPair(NamedTuple):
    """A host's key; the public half without a comment."""

    private: str
    public: str


def new_host_key() -> KeyPair:
    """One that nobody had before.

    Raises:
        ModakError: there is no ssh-keygen.
    """
    with tempfile.TemporaryDirectory(prefix="modak-key-") as folder:
        path = Path(folder) / "key"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
        try:
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ModakError("ssh-keygen cannot make a key on this machine", hint="install openssh-client") from error
        return KeyPair(path.read_text(encoding="utf-8"), path.with_suffix(".pub").read_text(encoding="utf-8").strip())


def user_data(cloud: Cloud, terms: Terms, username: str, host_key: KeyPair, login_key: str) -> str:
    """The text; whoever reads it, as all on the machine may, knows its host key.

    Args:
        username: who is let in.
        login_key: the public half of what lets him in; empty where the provider's own key pair does.
    """
    config: dict[str, Any] = {
        # no other key than ours, for where one is given none is made: whoever asks is shown the one that is known
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": host_key.private, "ed25519_public": host_key.public},
        "ssh_pwauth": False,
        "disable_root": username != "root",
        "package_update": True,
        "packages": ["rsync", *cloud.packages],
        "write_files": [
            {"path": _SCRIPT, "permissions": "0755", "content": idle_script(terms, of_cluster=bool(cloud.machines))},
        ],
        # at every start, and before packages come, which may take long or fail
        "bootcmd": [
            ["systemd-run", "--unit=modak-idle", "--on-active=120", "--on-unit-active=60", _SCRIPT],
        ],
    }
    if login_key:
        config["ssh_authorized_keys"] = [login_key]
    return _HEAD + yaml.dump(config, Dumper=BlockDumper, sort_keys=False, width=10_000)


def idle_script(terms: Terms, *, of_cluster: bool = False) -> str:
    """What runs there each minute."""
    shared = _OF_ALL.format() if of_cluster else ""
    minutes = minutes_of(terms)
    most, spent = (template.format(minutes=minutes) if minutes else "" for template in (_MOST, _SPENT))
    return _IDLE.format(minutes=terms.idle_minutes, most=most, spent=spent, shared=shared)


def minutes_of(terms: Terms) -> int | None:
    """How long a machine may live for its budget, which hosts of a cluster share; None where there is none."""
    if terms.budget is None or terms.hourly is None:
        return None
    return max(1, int(terms.budget / terms.hourly * 60))


def login_key_of(identity_file: Path) -> str:
    """The public half of a private key, as it lies beside it.

    Raises:
        ModakError: it does not.
    """
    path = identity_file.with_name(f"{identity_file.name}.pub")
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        hint = f"ssh-keygen -y -f {identity_file} > {path}; or key: the name of a key pair that the provider has"
        raise ModakError(f"{path} does not exist: it is the public half of the key for the login", hint=hint) from error
