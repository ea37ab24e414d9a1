"""What a text of a blueprint may look like where it reaches a shell, a scheduler, a path or a package name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from modak_ansible.reading.blueprint.forms.yaml_tree import Item

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}"
_ACCOUNT = r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,62}"
_DESTINATION = rf"{_NAME}(,{_NAME})*(@{_NAME})?"
_INTERFACE = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}"
_OBJECT = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
_ADDRESS = r"[A-Za-z0-9_][A-Za-z0-9_.:%-]{0,252}"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}"
_PATH = r"(~|~/|/|\$[A-Z_][A-Z0-9_]*)?[A-Za-z0-9_.+/@%=-]*"
_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+/?"
_HUB_IMAGE = (
    r"([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:\d{1,5})?/|[a-z0-9-]+:\d{1,5}/)?[a-z0-9]+([._-]+[a-z0-9]+)*"
    r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_MODULE = r"[A-Za-z0-9][A-Za-z0-9_.+/@-]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_OPTION = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_CONSTRAINT = r"[A-Za-z0-9_.:=+&|*()\[\]-]{1,500}"
_VERSION = r"\d+(\.\d+)*"
# Of most ranges nobody needs a library, whose import takes a hundredth of a second, to see that they are such.
_RANGE = r"(>=|<=|<|>|==|!=|~=\d+\.)\d+(\.\d+)*(, *(>=|<=|<|>|==|!=|~=\d+\.)\d+(\.\d+)*)*"
_RESOURCE = r"[A-Za-z][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+){0,2}"
_LICENSE = r"[A-Za-z][A-Za-z0-9_.@-]*([:=][A-Za-z0-9_][A-Za-z0-9_.:/+-]*)?"
_GPU_REQUEST = r"[A-Za-z0-9_=:,.{}/-]+"
_URL = r"(https?|file)://[^\s\"'`$;\\<>|&]+"
_SOURCE = r"(?!\S*@-)((https?|git|ssh|file)://(?!-)|git@[A-Za-z0-9.-]+:)[A-Za-z0-9_.:/@%+~=?&#-]+"
_SHA256 = r"(sha256:)?[0-9a-fA-F]{64}"
_HASH = r"sha256:[0-9a-f]{64}"
# an address is told apart behind it
_REQUIREMENT = r"[A-Za-z0-9][A-Za-z0-9 _.,<>=!~;:@/\"()\[\]'*+-]*"
# what somebody takes for a requirement who means the file with them; packages of such names are no friend's but one
_FILE = r"(?<!\bruamel)\.(txt|toml|lock|cfg|ya?ml)$"

LAUNCHER_NUMBERS = ("ranks", "ranks_per_node", "nodes", "threads", "hosts")


def _is(pattern: str, text: str) -> bool:
    """Whether a text is wholly of a pattern, which is compiled when one is asked for: few texts need most of them."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


def quote(text: str) -> str:
    """A text on one line, for a message."""
    is_plain = text.strip() and text.isprintable() and len(text) <= 60
    return text if is_plain else repr(text[:57] + "..." if len(text) > 60 else text)


def unsafe(
    values: Mapping[str, Item], rules: Mapping[str, Callable[[str], str]]
) -> Iterator[tuple[Item, str, str, str]]:
    """What some values, or those in lists, may not be by rules of their names: where, the rule, in what way, a hint."""
    for name, rule in rules.items():
        for item in (values[name].elements if values[name].is_list else [values[name]]) if name in values else ():
            if problem := rule(str(item.value)):
                yield item, "unsafe-value", problem, ""


def name_problem(text: str) -> str:
    """What is wrong with the name of a job or partition; empty when nothing is."""
    if _is(_NAME, text):
        return ""
    return f"{quote(text)} cannot be a name: letters, digits and _ . + - only, 63 at most, a letter or digit first"


def destination_problem(text: str) -> str:
    """What is wrong with where a job is sent: a partition, several (gpu,preempt), or a queue (workq@server)."""
    if "," not in text and "@" not in text:
        return name_problem(text)
    good = "such as gpu, gpu,preempt for whichever of them is free first, or a queue of another server's, workq@server"
    return "" if _is(_DESTINATION, text) else f"{quote(text)} cannot be where a job is sent: {good}"


def account_problem(text: str) -> str:
    """The same of an account: some sites have one for each kind of their nodes, such as abc@v100."""
    if _is(_ACCOUNT, text):
        return ""
    good = "letters, digits and _ . + - @ only, 63 at most, a letter or digit first"
    return f"{quote(text)} cannot be an account: {good}"


def object_problem(text: str) -> str:
    """What is wrong with the name of an object of Kubernetes (RFC 1123)."""
    good = "small letters, digits and - between them, 63 at most; parts may be joined by ."
    return "" if _is(_OBJECT, text) and len(text) <= 253 else f"{quote(text)} is not a name in Kubernetes: {good}"


def interface_problem(text: str) -> str:
    """What is wrong with the name of a network interface; empty for one that is to be found."""
    good = "such as ib0: letters, digits and _ . - only, 15 at most"
    return "" if not text or _is(_INTERFACE, text) else f"{quote(text)} is not a network interface's name: {good}"


def constraint_problem(text: str) -> str:
    """What is wrong with the letters of a constraint on nodes; what they mean is the scheduler's matter."""
    good = "letters, digits and _ . : = + -, with & | * and brackets between them"
    return "" if _is(_CONSTRAINT, text) else f"{quote(text)} cannot be a constraint: {good}"


def address_problem(text: str) -> str:
    """What is wrong with a host's address; ssh would read a leading - as an option."""
    user, _, place = text.rpartition("@")
    host, _, port = place.partition(":")
    if not port.isdigit():  # as of an address with several colons
        host, port = place, ""
    fields = [f"username: {user}"] * bool(user) + [f"port: {port}"] * bool(port)
    if fields and _is(_ADDRESS, host) and (not user or _is(_USER, user)):
        return f"{quote(text)} is more than a host: write {host} here, and {', '.join(fields)}"
    return "" if _is(_ADDRESS, text) else f"{quote(text)} is not a host's name or address"


def user_problem(text: str) -> str:
    return "" if _is(_USER, text) else f"{quote(text)} is not a user's name"


def node_name_problem(text: str) -> str:
    """What is wrong with the name of a node, which people see and type, and which points of a sweep add to."""
    if not text or not text.isprintable() or text.startswith("-") or set(text) & set(":,=/"):
        return (
            f"{quote(text)} cannot be a node's name: printable characters, no - at its beginning, and none of : , = /"
        )
    return ""


def path_problem(text: str) -> str:
    """What is wrong with a path on the target, which ends in job scripts and container binds."""
    if not text or not _is(_PATH, text):
        return f"{quote(text)} cannot be a path on the target: letters, digits and _ . + / @ % = - only"
    if ".." in PurePosixPath(text).parts:
        return f"{quote(text)} leads out of its folder"
    return ""


def local_path_problem(text: str) -> str:
    """What is wrong with a path on this machine that a configuration of SSH is to hold."""
    if text.isprintable() and not set(text) & set('"\\$`'):
        return ""
    return f"{quote(text)} cannot be used in a configuration of SSH: give it a plain name"


def image_problem(text: str) -> str:
    """What is wrong with an image that is there already: an address, or a file on the target."""
    from modak_ansible.target.core.container import IMAGE_ENDINGS  # noqa: PLC0415 - few trainings bring an image

    scheme, separator, rest = text.partition("://")
    if not separator:
        if text.endswith(IMAGE_ENDINGS):
            return path_problem(text)
        of_hub = text.removeprefix("docker:").replace("#", "/", 1)  # as docker:NAME, and enroot's HOST#NAME
        cure = f": an image of a hub is docker://{of_hub}" if _is(_HUB_IMAGE, of_hub) else ""
        return f"{quote(text)} is neither an address nor a {' or '.join(IMAGE_ENDINGS)} file{cure}"
    if scheme == "docker" and rest and not _is(_HUB_IMAGE, rest):
        return f"{quote(text)} is not an image of a hub: a name in small letters, with :TAG or @sha256:DIGEST behind it"
    good = scheme in ("docker", "oras", "library") and rest and all(c.isalnum() or c in "._-/:@" for c in rest)
    return "" if good else f"{quote(text)} is not docker://, oras:// or library:// with a name"


def place_problem(text: str) -> str:
    """What is wrong with where images are for others: a repository of a registry, or a folder on the target."""
    scheme, separator, rest = text.partition("://")
    if separator:
        good = scheme in ("oras", "docker") and _is(_REPOSITORY, rest)
        return (
            "" if good else f"{quote(text)} is not oras:// or docker://HOST/REPOSITORY in small letters, without a tag"
        )
    if not text.startswith(("/", "~/", "$")):
        return (
            f"{quote(text)} is neither oras:// or docker://HOST/REPOSITORY nor a folder from the target's root or ~/ on"
        )
    return path_problem(text)


def bind_problem(text: str) -> str:
    parts = text.split(":")
    if len(parts) > 3 or any(path_problem(part) for part in parts):
        return f"{quote(text)} is not a bind: source, source:destination or source:destination:ro"
    return ""


def module_problem(text: str) -> str:
    return "" if _is(_MODULE, text) else f"{quote(text)} is not the name of an environment module"


def launcher_problem(text: str) -> str:
    """What is wrong with a launcher; ``{ranks}`` and the like stand for the job's own numbers."""
    for name in re.findall(r"\{([^{}]*)\}", text):
        if name not in LAUNCHER_NUMBERS:
            return f"{quote(text)}: {{{quote(name)}}} is not a known number of a job: {', '.join(LAUNCHER_NUMBERS)}"
    words = text.split(" ")
    good = words and all(re.fullmatch(r"([A-Za-z0-9_./=:,+@%-]|\{\w+\})+", word, re.ASCII) for word in words)
    return "" if good else f"{quote(text)} is not a command with plain options"


def resource_problem(text: str) -> str:
    good = "NAME, NAME:COUNT or NAME:TYPE:COUNT, such as nvme:1"
    return "" if _is(_RESOURCE, text) else f"{quote(text)} is not a generic resource: {good}"


def license_problem(text: str) -> str:
    good = "NAME, NAME:COUNT or NAME=VALUE, such as matlab:2 or filesystems=home:eagle"
    return "" if _is(_LICENSE, text) else f"{quote(text)} is not a licence: {good}"


def gpu_request_problem(text: str) -> str:
    if not _is(_GPU_REQUEST, text) or re.search(r"\{(?!(count|per_process)\})", text):
        return f"{quote(text)} is not a request for accelerators, such as --gres=gpu:a100:{{count}}"
    has_number = "{count}" in text or "{per_process}" in text
    return "" if has_number else f"{quote(text)} does not say where the {{count}} goes"


def url_problem(text: str) -> str:
    return "" if _is(_URL, text) else f"{quote(text)} is not an http, https or file address"


def source_problem(text: str) -> str:
    """What is wrong with where a program's sources are: a git repository or an archive."""
    return "" if _is(_SOURCE, text) else f"{quote(text)} is not the address of a git repository or an archive"


def checksum_problem(text: str) -> str:
    return "" if _is(_SHA256, text) else f"{quote(text)} is not a SHA-256: 64 hexadecimal digits"


def variable_problem(text: str) -> str:
    return "" if _is(_VARIABLE, text) else f"{quote(text)} cannot be the name of an environment variable"


def option_problem(text: str) -> str:
    return "" if _is(_OPTION, text) else f"{quote(text)} cannot be the name of an option; write it without dashes"


def value_problem(text: str) -> str:
    """What is wrong with an argument or the value of a variable; quoting takes care of all but control characters."""
    return "" if text.isprintable() or not text else f"{quote(text)} holds a line break or another control character"


def line_problem(text: str) -> str:
    """What is wrong with one line of the user's own shell."""
    return value_problem(text.replace("\t", " "))


def pattern_problem(text: str) -> str:
    """What is wrong with a pattern for files below the script's folder."""
    if not text or not text.isprintable() or text.startswith(("/", "~", "-")) or ".." in PurePosixPath(text).parts:
        return f"{quote(text)} must be a path below the script's folder"
    return ""


def script_problem(path: PurePosixPath) -> str:
    """What is wrong with a script's path, which is a word of a command line, and travels with what lies beside it."""
    text = str(path)
    if not text.isprintable():
        return value_problem(text)
    if text.startswith(("-", "~")):
        return f"{quote(text)}: a command line does not accept a script whose name begins with {text[0]} as one"
    if path.name.startswith("."):
        return f"{quote(text)} is hidden, and hidden files are not copied"
    return ""


def version_problem(text: str) -> str:
    """What is wrong with a version or a range of versions."""
    if _is(_VERSION, text) or _is(_RANGE, text):
        return ""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - slow to import, and seldom needed

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return f'{quote(text)} is not a version or a range, such as "2.13" or ">=2.10,<3"'
    return ""


def requirement_problem(text: str) -> str:
    """What is wrong with a line of requirements.txt; local files, and options other than hashes, are not taken."""
    words, *hashes = text.split(" --hash=")
    if re.search(_FILE, words, re.IGNORECASE):
        return f"{quote(text)} is a file, not a package: give its lines"
    if not _is(_REQUIREMENT, words):
        return f"{quote(text)} is not a Python requirement of plain characters, such as pandas==2.2"
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - slow to import, and seldom needed

    try:
        requirement = Requirement(words)
    except InvalidRequirement:
        return f"{quote(text)} is not a Python requirement, such as pandas==2.2"
    if requirement.url:
        return f"{quote(text)}: give a package's name, not an address"
    if not all(_is(_HASH, digest) for digest in hashes):
        return f"{quote(text)}: a hash is --hash=sha256: and 64 hexadecimal digits"
    pins = [
        specifier
        for specifier in requirement.specifier
        if specifier.operator in ("==", "===") and "*" not in specifier.version
    ]
    if hashes and (not pins or len(requirement.specifier) > 1):
        return f"{quote(words)}: what has a hash needs its version and nothing else, such as pandas==2.2.3"
    return ""
