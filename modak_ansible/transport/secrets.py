"""Logins of registries and tokens of package indexes: from the environment or a file of the user's, never from inputs.

The file is private (``chmod 600``) and outside of any project, or encrypted by Ansible Vault or sops, whose own tools
decrypt it. Nothing of it is written anywhere again: it reaches the target inside the call that needs it, and there
the environment of the build.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from modak_ansible.errors import ModakError, last_line, nearest
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.store import logins as of_data
from modak_ansible.store.project import project_root
from modak_ansible.target.core.files import expanded
from modak_ansible.target.core.plan import Layer
from modak_ansible.target.images.logins import Login as TargetLogin
from modak_ansible.target.images.logins import Secrets as TargetSecrets
from modak_ansible.target.images.logins import registry_of, registry_of_layer

FILE = "MODAK_SECRETS"
REGISTRY = ("MODAK_REGISTRY", "MODAK_REGISTRY_USERNAME", "MODAK_REGISTRY_PASSWORD")
_PIP = {"MODAK_PIP_INDEX_URL": "index-url", "MODAK_PIP_EXTRA_INDEX_URL": "extra-index-url"}
VARIABLES = (FILE, *REGISTRY, *_PIP)
_USUAL = "modak/secrets.yaml"  # below the user's folder for configuration
_VAULT = "$ANSIBLE_VAULT;"
_SECONDS = 120


@dataclass(frozen=True)
class Login:
    """A user of a registry; ``registry`` is its host, such as ``registry.example:5000``."""

    registry: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Webhook:
    """Where a chat is told of the end of a deployment."""

    name: str
    kind: str
    url: str = field(repr=False)


@dataclass(frozen=True)
class Secrets:
    """What is known; ``pip`` holds addresses by the name of pip's setting, such as ``index-url``."""

    logins: tuple[Login, ...] = ()
    pip: Mapping[str, str] = field(default_factory=dict, repr=False)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)

    def for_target(self, layers: Sequence[Layer], places: Sequence[str] = ()) -> TargetSecrets:
        """What making an image needs to be told: the logins of its own registries, and pip's addresses.

        Args:
            places: where images are looked for, or pushed to.
        """
        hosts = {*map(registry_of_layer, layers), *map(registry_of, places)}
        target_secrets = TargetSecrets()
        if logins := [
            TargetLogin(registry=login.registry, username=login.username, password=login.password)
            for login in self.logins
            if login.registry in hosts
        ]:
            target_secrets["logins"] = logins
        if self.pip and any(layer["kind"] in ("build", "venv") for layer in layers):
            target_secrets["pip"] = dict(self.pip)
        return target_secrets

    def as_data(self) -> dict[str, object]:
        """The form of the file."""
        logins = {login.registry: {"username": login.username, "password": login.password} for login in self.logins}
        return {"registries": logins, "pip": dict(self.pip)}


def read_secrets(environment: Mapping[str, str] = os.environ) -> Secrets:
    """What the environment and the file say together; the environment goes before the file.

    Raises:
        ModakError: the file is not there, others may read it, it lies in a project, it cannot be decrypted or is not
            of its form. No message holds anything of its content.
    """
    from_environment = _from_environment(environment)
    path = _file(environment)
    if path is None:
        return from_environment
    from_file = _from_file(path)
    hosts = {login.registry for login in from_environment.logins}
    logins = (*from_environment.logins, *(login for login in from_file.logins if login.registry not in hosts))
    return Secrets(logins, {**from_file.pip, **from_environment.pip}, from_file.webhooks)


@contextmanager
def handed_on(
    environment: Mapping[str, str] = os.environ, *, needed: bool = True, asks: bool = False
) -> Iterator[dict[str, str]]:
    """What a process that is started gets in place of the variables: the name of a file that is on no disk.

    ansible-runner writes the environment of a playbook down, so it is given none of the variables themselves.

    Args:
        needed: whether the process makes images; one that does not is told of nothing, and nothing is decrypted.
        asks: whether it asks a cloud nonetheless.
    """
    blanks = {name: "" for name in (*VARIABLES, *of_data.VARIABLES) if name in environment}
    secrets = read_secrets(environment) if needed else Secrets()
    with (
        _in_memory_file(secrets.as_data() if secrets != Secrets() else {}) as file,
        _in_memory_file(of_data.logins_of(environment) if needed or asks else {}) as data,
    ):
        yield {**blanks, FILE: file, of_data.FILE: data}


@contextmanager
def _in_memory_file(content: Mapping[str, object]) -> Iterator[str]:
    """The name of a file with a content; that of one without any where there is none."""
    if not content:
        yield os.devnull
        return
    number = os.memfd_create("secrets")
    try:
        os.fchmod(number, 0o600)
        os.write(number, json.dumps(content).encode())
        yield f"/proc/{os.getpid()}/fd/{number}"
    finally:
        os.close(number)


# --- where they are


def _from_environment(environment: Mapping[str, str]) -> Secrets:
    registry, username, password = (environment.get(name, "") for name in REGISTRY)
    names = [name for name in REGISTRY if environment.get(name)]
    if names and len(names) < len(REGISTRY):
        missing = ", ".join(name for name in REGISTRY if name not in names)
        raise ModakError(
            f"{' and '.join(names)} without {missing}: a login is for one registry alone",
            hint="MODAK_REGISTRY is its host, such as registry.example",
        )
    if "/" in registry:
        raise ModakError(f"MODAK_REGISTRY is not a host: {_HOST_ALONE}", hint="such as registry.example")
    logins = (Login(registry, username, password),) if names else ()
    return Secrets(
        logins, {name: environment[variable] for variable, name in _PIP.items() if environment.get(variable)}
    )


def _file(environment: Mapping[str, str]) -> Path | None:
    setting = environment.get(FILE)
    if setting == os.devnull:
        return None
    if setting:
        return expanded(setting)
    folder = environment.get("XDG_CONFIG_HOME") or expanded("~/.config")
    default = Path(folder) / _USUAL
    return default if default.is_file() else None


def _from_file(path: Path) -> Secrets:
    try:
        text = path.read_text(encoding="utf-8")
        status = path.stat()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ModakError(f"the secrets in {path} cannot be read: {reason}", hint=f"{FILE} names that file") from error
    if text.startswith(_VAULT):
        text = _decrypt(
            path, "ansible-vault", "view", hint="ANSIBLE_VAULT_PASSWORD_FILE names the file with its password"
        )
    elif _is_sops_encrypted(text):
        text = _decrypt(path, "sops", "--decrypt", hint="sops must find its key, as in SOPS_AGE_KEY_FILE")
    else:
        _check_private(path, status)
    return _parse(path, text)


def _check_private(path: Path, status: os.stat_result) -> None:
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in (os.getuid(), 0):
        raise ModakError(f"others may read or write the secrets in {path}", hint=f"chmod 600 {path}")
    root = project_root(path.parent)
    is_project = root != path.parent.resolve() or any((root / mark).exists() for mark in (".git", ".modak"))
    if is_project and root != Path.home().resolve():
        raise ModakError(
            f"the secrets in {path} are inside the project {root}, and would be passed on with it",
            hint=f"move them to ~/.config/{_USUAL}, or encrypt them with ansible-vault or sops",
        )


def _is_sops_encrypted(text: str) -> bool:
    root = parse_yaml(text, "", Mistakes())
    return root is not None and root.get("sops", "mac") is not None


def _decrypt(path: Path, program: str, verb: str, hint: str) -> str:
    neighbour = Path(sys.executable).parent / program
    executable = str(neighbour) if neighbour.exists() else shutil.which(program)
    if executable is None:
        raise ModakError(f"{path} is encrypted, and {program} is not on this machine", hint=f"install {program}")
    try:
        # a password is asked for at the terminal, where there is one; an ansible.cfg of the current folder, which may
        # be a project of somebody else's, is not read from elsewhere
        result = subprocess.run(
            [executable, verb, str(path.absolute())], capture_output=True, check=False, timeout=_SECONDS, cwd="/",
            env=_with_whole_paths(os.environ),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ModakError(f"{program} did not decrypt {path} within {_SECONDS} s", hint=hint) from None
    if result.returncode != 0:
        reason = last_line(result.stderr.decode(errors="replace"), "it says nothing")
        raise ModakError(f"{program} cannot decrypt {path}: {reason}", hint=hint)
    try:
        return result.stdout.decode("utf-8")  # whatever the locale is
    except UnicodeDecodeError:
        raise ModakError(f"what {program} decrypts in {path} is not text", hint="write it again, in UTF-8") from None


def _with_whole_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment whose settings for the programs that decrypt mean the same from any folder."""
    names = ("ANSIBLE_CONFIG", "ANSIBLE_VAULT_PASSWORD_FILE", "SOPS_AGE_KEY_FILE", "GNUPGHOME")
    paths = {name: str(expanded(environment[name]).absolute()) for name in names if environment.get(name)}
    return {**environment, **paths}


# --- their form


def _parse(path: Path, text: str) -> Secrets:
    mistakes = Mistakes()
    root = parse_yaml(text, str(path), mistakes)
    if root is None or mistakes or not root.is_map:
        # the parser's own words may hold what stands there
        raise ModakError(f"the secrets in {path} are not YAML", hint=_FORM)
    for name in root.entries:
        if name not in (*_SECTIONS, "sops"):
            raise ModakError(f"{root.key_location(name)}: {name} is unknown", hint=nearest(name, _SECTIONS))
        if name in _SECTIONS and not root.entries[name].is_map and root.entries[name].value is not None:
            raise ModakError(f"{root.key_location(name)}: {name} must map names to values", hint=_FORM)
    registries, pip, webhooks = (root.get(name) for name in _SECTIONS)
    logins = [_login(name, item) for name, item in (registries.entries if registries else {}).items()]
    settings = {name: _text(item) for name, item in (pip.entries if pip else {}).items()}
    for name in settings:
        if name not in _PIP.values():
            raise ModakError(f"{pip.location if pip else path}: pip has no secret {name}", hint=_FORM)
    chats = {name: _webhook(name, item) for name, item in (webhooks.entries if webhooks else {}).items()}
    return Secrets(tuple(logins), settings, chats)


_SECTIONS = ("registries", "pip", "webhooks")
_HOST_ALONE = "a login is for the host of a registry, without https:// before it and a path behind it"
_FORM = (
    "registries: { HOST: { username: NAME, password: WORD } }, pip: { index-url: ADDRESS }, "
    "and webhooks: { NAME: { kind: slack, url: ADDRESS } }"
)


def _login(registry: str, item: Item) -> Login:
    if "/" in registry:
        raise ModakError(f"{item.location}: {_HOST_ALONE}", hint=_FORM)
    unknown_fields = [name for name in item.entries if name not in ("username", "password")]
    values = {name: _text(entry) for name, entry in item.entries.items()}
    if unknown_fields or not values.get("username") or not values.get("password"):
        raise ModakError(
            f"{item.location}: the login of {registry} needs username and password, and no more", hint=_FORM
        )
    return Login(registry, values["username"], values["password"])


def _webhook(name: str, item: Item) -> Webhook:
    values = {word: _text(entry) for word, entry in item.entries.items()}
    if set(values) != {"kind", "url"} or not values["url"].startswith(("https://", "http://")):
        raise ModakError(f"{item.location}: the webhook {name} needs kind and url, an address of https", hint=_FORM)
    return Webhook(name, values["kind"], values["url"])


def _text(item: Item) -> str:
    if item.is_map or item.is_list or not item.text:
        raise ModakError(f"{item.location}: it must be text", hint=_FORM)
    return item.text
