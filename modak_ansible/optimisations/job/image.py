"""Which build of the framework runs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import archspec.cpu

from modak_ansible.allocation.ranks import ranks_of, why_not_shared_out
from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.entry import ANY, fits, satisfies, script_for
from modak_ansible.catalogue.locks import package_of
from modak_ansible.catalogue.processor import why_refused
from modak_ansible.catalogue.serving import why_not_made, why_not_on_processor
from modak_ansible.errors import nearest, visible
from modak_ansible.model.application import STOCK_MPI
from modak_ansible.model.measured.seen_image import SeenImage
from modak_ansible.model.measured.workload import WorkloadScript
from modak_ansible.model.plan import Rejected, by_reason
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation, Option
from modak_ansible.optimisations.properties import Property

if TYPE_CHECKING:
    from modak_ansible.catalogue.companions import Collision

# Who asks for nothing in particular gets what the framework's own project publishes.
_ORIGINS = ("pip", "hub", "opt-build", "given")


class Image(Optimisation):
    name = "image"
    about = "optimisation.entry"
    properties = (
        Property(
            "The catalogue entry to use, as modak catalogue lists it; empty leaves the choice to the planner.",
            name="entry",
            default="",
        ),
        Property("Which kind of framework build, such as pip's wheels or a hub's image.", _ORIGINS, "build"),
    )
    stock = ()
    is_switch = False
    reaches = "image"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        given = draft.request.image
        if given:
            _check_given(draft, given)
            return (Option(given.source, _why_given(given)),)
        if draft.request.runs_natively:
            return (Option("none", "the program runs with what is installed on the nodes"),)
        wanted = self.wish(draft)
        if wanted:
            _check_wanted(draft, wanted)
        fitting: list[Entry] = []
        refused: list[Option] = []
        for entry in _competing(draft):
            unasked = "" if entry.name == wanted else _why_not_unasked(entry, draft)
            reason = _why_not(entry, draft) or unasked
            if reason:
                refused.append(Option(entry.name, why_not=reason))
            else:
                fitting.append(entry)
        if not fitting:
            raise _nothing_fits_with(draft, refused)
        fitting, colliding = _without_collisions(fitting, draft)
        refused += colliding
        fitting.sort(key=lambda entry: _ORIGINS.index(entry.origin))  # stable: newest first
        return (*(_option(entry, fitting[0], draft) for entry in fitting), *refused)

    def apply(self, draft: Draft, value: str) -> None:
        given = draft.request.image
        if given and given.seen and not given.seen.problem:
            draft.entry = _entry_of(given.seen, draft)
            draft.script = _script_of(draft, draft.entry) if draft.entry else None
            draft.own = _own_settings(draft)
        elif draft.request.image is None and not draft.request.runs_natively:
            draft.entry = draft.catalogue.entry(value)
            draft.environment.update(draft.entry.environment)
            draft.request = _with_script(draft, draft.entry)
            draft.script = _script_of(draft, draft.entry)
            draft.own = _own_settings(draft)

    def wish(self, draft: Draft) -> str:
        entry, given = draft.request.optimisation.entry, draft.request.image
        if given and entry:
            raise CannotPlan("optimisation.entry", f"{entry} is asked for, and the training has an image of its own")
        return entry

    def evidence(self, draft: Draft) -> str:
        return draft.entry.provenance if draft.entry else ""

    def why_other(self, other: str, taken: str, draft: Draft) -> str:
        return _why_other(draft.catalogue.entry(other), draft.catalogue.entry(taken))


def _why_given(given: GivenImage) -> str:
    named = "the blueprint names this image"
    if given.seen is None:
        return f"{named}; not inspected yet; modak deploy does that first"
    if given.seen.problem:
        return f"{named}, which could not be inspected: {given.seen.problem}"
    there = [f"{name} {version}" for name, version in given.seen.frameworks.items()]
    oci = f" as {given.seen.oci}" if given.seen.oci else ""
    return f"{named}{oci}, which has {', '.join([*there, *given.seen.preloads, *given.seen.libraries])}"


def _check_given(draft: Draft, given: GivenImage) -> None:
    """
    Raises:
        CannotPlan: an image that was looked into has not got the framework, or has another version of it.
    """
    seen, application = given.seen, draft.request.application
    if seen is None or seen.problem or not application.is_training or application.framework == ANY:
        return
    version = seen.frameworks.get(application.framework)
    if version is None and application.requirements:
        return  # they may bring it
    if version is None:
        there = ", ".join(f"{name} {framework}" for name, framework in seen.frameworks.items())
        hint = "name what it has, or give an image that has it"
        raise CannotPlan("framework", f"{given.source} has no {application.framework}: it has {there}", hint)
    if not satisfies(version, application.version):
        message = f"{given.source} has {application.framework} {version}, not {application.version}"
        raise CannotPlan("version", message, "leave it out, or give another image")


def _entry_of(seen: SeenImage, draft: Draft) -> Entry | None:
    """What was found in an image, in the form in which the catalogue knows a build."""
    framework = draft.request.application.framework
    known = draft.catalogue.of_framework(framework)
    if framework not in seen.frameworks:
        return None
    return Entry(
        name=f"image-{seen.sha256[:12]}",
        framework=framework,
        version=seen.frameworks[framework],
        origin="given",
        compilers=seen.compilers if framework != "python" else (),
        architectures=known[0].architectures if known else (),
        allocators=tuple(seen.preloads),
        preloads=seen.preloads,
        thread_variables=known[0].thread_variables if known else ("OMP_NUM_THREADS",),
        python_version=seen.version,
        glibc=seen.glibc,
        probe="",
        provenance=f"{seen.source}, as inspected ({seen.sha256[:12]})",
        licence="",
    )


def _competing(draft: Draft) -> list[Entry]:
    """The builds among which the choice is: all that the workload has a script for where any framework will do."""
    application = draft.request.application
    if application.framework != ANY:
        return draft.catalogue.of_framework(application.framework)
    if application.workload is None:
        raise CannotPlan(
            "framework", f"framework: any needs a workload.yaml next to {application.script} that names its scripts",
            "name the framework of the script",
        )  # fmt: skip
    frameworks = dict.fromkeys(script.framework for script in application.workload.scripts)
    found = [entry for framework in frameworks for entry in draft.catalogue.of_framework(framework)]
    return [entry for entry in found if script_for(application.workload, entry)]


def _with_script(draft: Draft, entry: Entry) -> Request:
    """The request, whose script follows the build where any framework will do."""
    application = draft.request.application
    script = script_for(application.workload, entry) if application.workload else None
    if application.framework != ANY or script is None:
        return draft.request
    update = {"framework": entry.framework, "script": script.script}
    return draft.request.model_copy(update={"application": application.model_copy(update=update)})


def _script_of(draft: Draft, entry: Entry) -> WorkloadScript | None:
    """What workload.yaml says of the script that runs; None where it says nothing of it."""
    application = draft.request.application
    scripts = application.workload.scripts if application.workload else ()
    return next((script for script in scripts if script.script == application.script and fits(script, entry)), None)


def _own_settings(draft: Draft) -> dict[str, str]:
    switches = draft.script.switches if draft.script else {}
    given = {name.replace("-", "_"): str(value) for name, value in draft.request.application.arguments}
    return {name: given.get(name, values[0]) for name, values in switches.items()}


def _option(entry: Entry, first: Entry, draft: Draft) -> Option:
    reason = f"{entry.framework} {entry.version} fits the request and {draft.request.target.processor.architecture}"
    asked = draft.request.optimisation.build != "any" or draft.request.optimisation.entry == entry.name
    # operators of ours are a matter of their own, which says what they do to results
    other_libraries = entry.origin != first.origin and not asked and entry.libraries != ("operators",)
    return Option(entry.name, reason, numerics="reassociation" if other_libraries else "same")


def _check_wanted(draft: Draft, wanted: str) -> None:
    """Refuses an entry that is asked for and cannot be had."""
    entry, framework = draft.catalogue.find(wanted), draft.request.application.framework
    if entry is None:
        raise CannotPlan("optimisation.entry", *draft.catalogue.why_none(wanted))
    if entry not in _competing(draft):
        raise CannotPlan(
            "optimisation.entry", f"{wanted} is a build of {entry.framework}, not of {framework}",
            f"framework: {entry.framework}, or another entry",
        )  # fmt: skip
    reason = _why_not(entry, draft)
    if reason:
        raise CannotPlan("optimisation.entry", f"{wanted} cannot be taken: {reason}", "take another entry", wish=True)


def _why_not(entry: Entry, draft: Draft) -> str:
    """Why a build cannot serve; empty when it can."""
    request = draft.request
    wish = request.optimisation
    if not satisfies(entry.version, request.application.version):
        return f"version {entry.version} is not {request.application.version}"
    if wish.build not in ("any", entry.origin):
        return f"its build is {entry.origin}, and {wish.build} is asked for"
    if wish.compiler not in ("any", "none", "default", *entry.compilers):
        return f"it does not include {wish.compiler}"
    return (
        _why_no_script(entry, draft)
        or _why_no_library(entry, draft)
        or _why_no_package(entry, draft)
        or why_not_on_processor(entry, request.target.processor)
        or _why_not_accelerated(entry, draft)
        or _why_not_shared_out(entry, draft)
        or why_not_made(entry, request.target, draft.catalogue, request.application.version)
        or why_refused(entry, request.target, draft.refusals, request.application.requirements)
    )


def _why_no_script(entry: Entry, draft: Draft) -> str:
    """Why the script is not for a build, by what workload.yaml beside it says."""
    application = draft.request.application
    if application.workload is None:
        return ""
    if application.framework == ANY:
        script = script_for(application.workload, entry)
        travels = script and any(file.path == script.script for file in application.files)
        return "" if travels or script is None else f"its script {script.script} is not among the files that are copied"
    named = [script for script in application.workload.scripts if script.script == application.script]
    if not named or any(fits(each, entry) for each in named):
        return ""
    right = script_for(application.workload, entry)
    return f"workload.yaml has {right.script if right else 'no script'} for it, not {application.script}"


def _why_no_library(entry: Entry, draft: Draft) -> str:
    """Why a program with MPI cannot be made, or cannot run, with a build."""
    application, base = draft.request.application, draft.catalogue.bases.get(entry.base)
    library = application.hpc.library if application.hpc and application.hpc.parallelisation == "mpi" else ""
    if library and base and base.mpi and library not in base.provides:
        return f"it has {', '.join(base.provides)}, and {library} is asked for"
    if application.hpc and application.build and base and base.mpi and not entry.tools:
        return "it has no compiler, and the program is built"
    return ""


def _used_of_brought(draft: Draft) -> frozenset[str]:
    """What is used of the packages that some build brings."""
    request = draft.request
    imported = request.parallelism.name.partition(".")[0] if request.parallelism else ""
    return _used(draft.catalogue.brought, imported, request.application.requirements)


@lru_cache(maxsize=64)  # every entry asks, of every training
def _used(brought: frozenset[str], imported: str, requirements: tuple[str, ...]) -> frozenset[str]:
    return brought & {imported, *map(package_of, requirements)}


def _why_no_package(entry: Entry, draft: Draft) -> str:
    missing = _used_of_brought(draft).difference(entry.brings)
    is_own = entry.source and entry.name == draft.request.optimisation.entry  # an image whose user knows what is in it
    if not missing or is_own or missing <= {*map(package_of, entry.requirements)}:
        return ""
    having = [each.name for each in draft.catalogue.entries if missing <= {*each.brings}]
    return f"it lacks {', '.join(sorted(missing))}, which {' and '.join(having) or 'no entry'} has"


def _why_not_accelerated(entry: Entry, draft: Draft) -> str:
    wants_accelerator = draft.request.resources.accelerators > 0
    vendor = draft.request.target.accelerator.vendor
    if entry.accelerator and not wants_accelerator and not entry.on_processors:
        return f"it needs an accelerator ({entry.accelerator}), and the job asks for none"
    if wants_accelerator and not entry.accelerator:
        return "it uses no accelerator, and the job asks for one"
    if wants_accelerator and vendor not in (None, entry.accelerator):
        return f"it is for {entry.accelerator}, and the target has {vendor}"
    return ""


def _why_not_shared_out(entry: Entry, draft: Draft) -> str:
    """Why a build cannot have ranks with parts of a model's parameters, where that is how they train."""
    ranks = ranks_of(draft.request, draft.layout)
    return why_not_shared_out(entry.version) if ranks and ranks.shares_out else ""


def _why_not_unasked(entry: Entry, draft: Draft) -> str:
    """Why a build that would serve has to be asked for."""
    is_off = _is_off(entry, draft)
    if is_off and _has_smaller_wheels(draft, entry):
        return "it includes what an accelerator needs, and the job asks for none; optimisation.entry selects it"
    if entry.untried and not is_off:
        return f"it is untested ({entry.untried}); optimisation.entry selects it"
    base = draft.catalogue.bases.get(entry.base)
    hpc = draft.request.application.hpc
    if hpc and not hpc.library and base and base.provides and STOCK_MPI not in base.provides:
        return f"{STOCK_MPI} is taken where no library is asked for"
    if entry.tools and not draft.request.application.build and _has_smaller(draft, entry):
        return "it has compilers, and nothing is built; optimisation.entry selects it"
    unused = sorted(set(entry.brings) - _used_of_brought(draft))
    if unused and not draft.request.application.version:
        return f"it has {', '.join(unused)}, which nothing here uses; its version, or optimisation.entry, selects it"
    is_old = base is not None and base.python.startswith("2.")
    if is_old and not draft.request.application.version and _has_present_build(draft, entry.framework):
        return f"its Python is {base.python if base else ''}; its version, or optimisation.entry, selects it"
    newer = None if draft.request.application.version else _newer_of_its_kind(entry, draft)
    return f"{newer.name} is newer; its version, or optimisation.entry, selects this one" if newer else ""


def _newer_of_its_kind(entry: Entry, draft: Draft) -> Entry | None:
    """A later release of the same kind of build that serves, so that both need not be weighed."""

    def kind(each: Entry) -> tuple[object, ...]:
        return each.origin, each.accelerator, each.libraries, sorted(each.environment.items()), each.tools

    later = draft.catalogue.of_framework(entry.framework)  # the newest first
    later = later[: later.index(entry)]
    return next(
        (
            each
            for each in later
            if kind(each) == kind(entry)
            and (not each.untried or _is_off(each, draft))
            and not _why_not(each, draft)
            and not collision_of(each, draft)
        ),
        None,
    )


def _is_off(entry: Entry, draft: Draft) -> bool:
    """Whether a build would run without the accelerator that it was made for."""
    return bool(entry.accelerator) and not draft.request.resources.accelerators


def _has_smaller_wheels(draft: Draft, entry: Entry) -> bool:
    """Whether the framework's own wheels for processors alone serve, in a release of today where none is asked for."""
    others = (each for each in draft.catalogue.of_framework(entry.framework) if each.origin == entry.origin)
    collides = collision_of(entry, draft)  # the other's collision is no reason for this one then
    return any(
        not (each.accelerator or _why_not(each, draft) or _why_not_unasked(each, draft))
        and (collides or not collision_of(each, draft))
        for each in others
    )


def collision_of(entry: Entry, draft: Draft) -> tuple[int, Collision] | None:
    """The first package that is asked for and does not go with a build, by its number, and why."""
    lines = draft.request.application.requirements
    if not lines:
        return None
    from modak_ansible.catalogue.companions import collision  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    base = draft.catalogue.bases.get(entry.base)
    found = ((number, collision(entry, line, base.python if base else "")) for number, line in enumerate(lines))
    return next(((number, problem) for number, problem in found if problem), None)


def _without_collisions(fitting: list[Entry], draft: Draft) -> tuple[list[Entry], list[Option]]:
    """The builds that the packages go with, and why not the others; all of them where they go with none."""
    reasons = {entry.name: collision_of(entry, draft) for entry in fitting}
    if all(reasons.values()):
        return fitting, []
    colliding = [Option(name, why_not=found[1].message) for name, found in reasons.items() if found]
    return [entry for entry in fitting if not reasons[entry.name]], colliding


def _has_smaller(draft: Draft, entry: Entry) -> bool:
    """Whether another build has the same MPI library, and no compilers."""
    others = (build for build in draft.catalogue.of_framework(entry.framework) if build.base == entry.base)
    return any(not other.tools for other in others)


def _has_present_build(draft: Draft, framework: str) -> bool:
    bases = (draft.catalogue.bases.get(entry.base) for entry in draft.catalogue.of_framework(framework))
    return any(base is not None and not base.python.startswith("2.") for base in bases)


def _why_other(other: Entry, taken: Entry) -> str:
    if other.origin != taken.origin:
        return f"{taken.name} is a build of {taken.origin}; build: {other.origin} selects this one"
    if other.version == taken.version:
        return f"{taken.name} is as new; optimisation.entry selects this one"
    return f"{taken.name} is newer"


def _nothing_fits_with(draft: Draft, refused: list[Option]) -> CannotPlan:
    """What stands against every build; a wish, where some would fit without it."""
    problem, wishes = _nothing_fits(draft, refused), draft.request.optimisation
    asked = [name for name in ("build", "compiler") if getattr(wishes, name) != "any"]
    for names in (*([name] for name in asked), asked):
        weaker = wishes.model_copy(update=dict.fromkeys(names, "any"))
        other = replace(draft, request=draft.request.model_copy(update={"optimisation": weaker}))
        fits = (entry for entry in _competing(other) if not (_why_not(entry, other) or _why_not_unasked(entry, other)))
        if names and any(fits):
            return CannotPlan(f"optimisation.{names[0]}", problem.message, problem.hint, wish=True)
    return problem


def _nothing_fits(draft: Draft, refused: list[Option]) -> CannotPlan:
    application = draft.request.application
    if not refused:
        known = sorted({entry.framework for entry in draft.catalogue.entries})
        return CannotPlan("framework", f"the catalogue has no {application.framework}", f"it has {', '.join(known)}")
    architecture = draft.request.target.processor.architecture
    if architecture not in archspec.cpu.TARGETS:
        hint = nearest(architecture, archspec.cpu.TARGETS) or "leave architecture out, or take x86_64 or aarch64"
        return CannotPlan("host", f"{visible(architecture)} is not a processor that archspec knows", hint)
    others = [option.why_not for option in refused if not option.why_not.startswith("version ")]
    no_compiler = bool(others) and all(reason.startswith("it does not include ") for reason in others)
    about = "optimisation.compiler" if no_compiler else "framework" if others else "version"
    grouped = by_reason(Rejected(value=option.value, reason=option.why_not) for option in refused)
    reasons = "; ".join(f"{', '.join(values)}: {reason}" for reason, values in grouped.items())
    hint = "ask for another version, or give an image of your own as a modak.nodes.Image"
    if no_compiler:
        names = {option.value for option in refused if option.why_not.startswith("it does not include ")}
        there = sorted({name for entry in draft.catalogue.entries if entry.name in names for name in entry.compilers})
        hint = f"compilers there: {', '.join(there)}" if there else "none of them has a graph compiler"
    return CannotPlan(about, f"no build of {application.framework} fits ({reasons})", hint)
