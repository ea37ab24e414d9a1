"""New entries of the catalogue: made like one that is known, of what an index has or of what was found in an image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from modak_ansible.catalogue.entry import Catalogue, Entry, satisfies
from modak_ansible.catalogue.locking import LockRequest, resolved, text_of_lock, versions_of
from modak_ansible.catalogue.locks import lock_of
from modak_ansible.catalogue.own import read_entry
from modak_ansible.errors import UsageError, nearest
from modak_ansible.model.measured.seen_image import SeenImage

_WRITER = "modak catalogue add"
_SHOWN = 8  # releases in a message
_PYTHON = "python"
# What has no package of its own.
_NO_FRAMEWORKS = {_PYTHON, "mpi", "native"}


def asked_for(text: str, catalogue: Catalogue) -> tuple[str, str]:
    """The framework and the version, empty for the newest, that FRAMEWORK==VERSION means.

    Raises:
        UsageError: it means none.
    """
    hint = "such as pytorch==2.13.0, or an image, or the file of an entry"
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(f"{text!r} is not a framework with a version", hint=hint) from error
    specifiers = list(requirement.specifier)
    is_exact = len(specifiers) == 1 and specifiers[0].operator == "==" and not specifiers[0].version.endswith("*")
    if requirement.extras or requirement.marker or requirement.url or (specifiers and not is_exact):
        raise UsageError(f"{text!r} is not a framework with one version", hint=hint)
    name = canonicalize_name(requirement.name)
    frameworks = {entry.framework for entry in catalogue.entries} - _NO_FRAMEWORKS
    packages = {_package_of(entry): entry.framework for entry in catalogue.entries if entry.requirements}
    framework = name if name in frameworks else packages.get(name, "")
    if framework not in frameworks:
        suggestion = nearest(name, frameworks)
        advice = "list a package that is not a framework in requirements_txt"
        raise UsageError(
            f"the catalogue has no framework {name}", hint=f"{suggestion}; {advice}" if suggestion else advice
        )
    return framework, specifiers[0].version if specifiers else ""


def pattern_for(framework: str, like: str, version: str, catalogue: Catalogue) -> Entry:
    """The entry that a new one is made like: the one that is named, or the framework's own wheels for processors alone,
    in the newest release that is not newer.

    Raises:
        UsageError: there is none.
    """
    if like:
        entry = catalogue.entry(like)
        if entry.framework != framework:
            raise UsageError(f"{like} is a build of {entry.framework}, not of {framework}")
        return entry
    of_pip = [entry for entry in catalogue.of_framework(framework) if entry.origin == "pip" and not entry.accelerator]
    # nothing else goes into what Python 2.7 was made for
    builds = [entry for entry in of_pip if not catalogue.bases[entry.base].python.startswith("2.")] or of_pip
    if not builds:
        raise UsageError(f"the catalogue has no build of {framework} that another one could be modelled on")
    earlier = [entry for entry in builds if version and Version(entry.version) <= Version(version)]
    return (earlier or (builds[-1:] if version else builds))[0]


def named_like(pattern: Entry, framework: str, version: str) -> str:
    """The name of an entry that is made like another one, by its release: pytorch-2.13-cpu."""
    release = ".".join(version.split("+", maxsplit=1)[0].split(".")[:2])
    *_, kind = pattern.name.removeprefix(f"{framework}-").partition("-")
    return "-".join(part for part in (framework, release, kind) if part)


# --- from an index


def from_index(
    release: str, base: str, pattern: Entry, name: str, catalogue: Catalogue, say: Callable[[str], None]
) -> tuple[Entry, str]:
    """An entry of what a package index has, and its lock.

    Args:
        release: of the framework's package, in full.

    Raises:
        NotFound: what belongs to it does not go together.
        ModakError: uv is not here.
    """
    package, python = _package_of(pattern), catalogue.bases[base].python
    first, *companions = map(Requirement, pattern.requirements)
    requirements = (f"{_with_extras(first)}=={release}", *map(_with_extras, companions))
    request = LockRequest(name, requirements, python, pattern.index)
    preferred = [line.partition(" --hash=")[0] for line in lock_of(pattern.name).lines]
    say(f"looking for packages that fit {package} {release}")
    files = resolved(request, (), say, preferred)
    versions = {file.name: file.version for file in files[python]}
    pinned = [f"{_with_extras(companion)}=={versions[canonicalize_name(companion.name)]}" for companion in companions]
    update = {
        "name": request.name, "version": release.partition("+")[0], "base": base, "refusals": {}, "untried": "",
        "requirements": (requirements[0], *pinned),
        "provenance": f"{package} {release} of the package index, modelled on {pattern.name}.",
    }  # fmt: skip
    return pattern.model_copy(update=update), text_of_lock(files, _WRITER)


def released(version: str, pattern: Entry, catalogue: Catalogue, say: Callable[[str], None]) -> tuple[str, str]:
    """The base image whose Python has wheels of a version of a framework, and that version in full.

    Args:
        version: or its first parts, or empty for the newest.

    Raises:
        UsageError: the pattern installs nothing; or no index has that version, for no Python of a base image.
        NotFound: no index answers.
    """
    if not pattern.requirements or catalogue.bases[pattern.base].python.startswith("2."):
        raise UsageError(
            f"{pattern.name} is not a build that can take another release", hint="name another one with --like"
        )
    package = _package_of(pattern)
    label = Version(next(iter(Requirement(pattern.requirements[0]).specifier)).version).local
    plain = [base.name for base in catalogue.bases.values() if not base.mpi and not base.python.startswith("2.")]
    pythons: dict[str, list[str]] = {}
    for base in dict.fromkeys((pattern.base, *sorted(plain, reverse=True))):
        python = catalogue.bases[base].python
        say(f"asking for {package} for Python {python}")
        index = pattern.index
        pythons[python] = versions_of(package, python, index)
        matches = [
            candidate
            for candidate in pythons[python]
            if Version(candidate).local == label and satisfies(candidate, version.partition("+")[0])
        ]
        if matches:
            return base, max(matches, key=Version)
    known_versions = sorted(
        {candidate for versions in pythons.values() for candidate in versions}, key=Version, reverse=True
    )
    labelled = [candidate for candidate in known_versions if Version(candidate).local == label]
    release = f"{package} {version}".rstrip() + (f" as +{label}" if label else "")
    message = f"the package index has no {release} for Python {' or '.join(pythons)}"
    if not known_versions:
        raise UsageError(f"the package index has no {package} for Python {' or '.join(pythons)}")
    hint = f"it has {', '.join((labelled or known_versions)[:_SHOWN])}"
    if not labelled or (version and any(satisfies(candidate, version) for candidate in known_versions)):
        hint += f"; --like ENTRY, one without +{label}, takes another kind of wheel" if label else ""
    raise UsageError(message, hint=hint)


def _package_of(entry: Entry) -> str:
    return Requirement(entry.requirements[0]).name


def _with_extras(requirement: Requirement) -> str:
    return requirement.name + (f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else "")


# --- from an image


def framework_in(image: SeenImage, framework: str) -> str:
    """The framework that an image is an entry for: the one that is asked for, or the only one that it has.

    Raises:
        UsageError: it has none of it, or several.
    """
    frameworks = {name: version for name, version in image.frameworks.items() if name != _PYTHON}
    words = ", ".join(f"{name} {version}" for name, version in image.frameworks.items())
    if framework:
        if framework not in image.frameworks:
            raise UsageError(f"{image.source} has no {framework}: it has {words}")
        return framework
    if "tensorflow" in frameworks:  # whose own Keras it is
        frameworks.pop("keras", None)
    if len(frameworks) > 1:
        raise UsageError(
            f"{image.source} has {words}", hint=f"--framework {next(iter(frameworks))}, or another of them"
        )
    return next(iter(frameworks), _PYTHON)


def from_image(image: SeenImage, framework: str, pattern: Entry, name: str) -> Entry:
    """An entry of what was found in an image."""
    is_pulled = "://" in image.source
    return Entry(
        name=name,
        framework=framework,
        version=image.frameworks[framework],
        origin="hub" if is_pulled else "given",
        compilers=image.compilers if framework != _PYTHON else (),
        architectures=pattern.architectures,
        accelerator=pattern.accelerator,
        source=image.source,
        python=image.python,
        allocators=tuple(image.preloads),
        preloads=image.preloads,
        thread_variables=pattern.thread_variables,
        probe=pattern.probe,
        python_version=image.version,
        glibc=image.glibc,
        provenance=f"{image.source}, as inspected on {image.address or 'this machine'} ({image.sha256[:12]}).",
        licence="whatever the image says",
        address="" if is_pulled else image.address,
        checksum="" if is_pulled else image.sha256,
    )


# --- from a file


def from_file(path: Path, catalogue: Catalogue, say: Callable[[str], None]) -> tuple[Entry, str]:
    """An entry that somebody wrote, and its lock.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        NotFound: what it installs is in no index, or does not go together.
    """
    entry = read_entry(path, catalogue)
    if not entry.requirements:
        return entry, ""
    python = catalogue.bases[entry.base].python
    say(f"resolving the packages of {entry.name}")
    files = resolved(LockRequest(entry.name, entry.requirements, python, entry.index), (), say)
    return entry, text_of_lock(files, _WRITER)
