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
    acts_on = "image"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        image = draft.request.image
        if image:
            _check_given_image(draft, image)
            return (Option(image.source, _why_given_image(image)),)
        if draft.request.runs_natively:
            return (Option("none", "the program runs with what is installed on the nodes"),)
        entry_name = self.requested(draft)
        if entry_name:
            _check_requested(draft, entry_name)
        candidates: list[Entry] = []
        refusals: list[Option] = []
        for entry in _candidates(draft):
            reason_to_ask = "" if entry.name == entry_name else _why_not_unasked(entry, draft)
            reason = _why_not(entry, draft) or reason_to_ask
            if reason:
                refusals.append(Option(entry.name, why_not=reason))
            else:
                candidates.append(entry)
        if not candidates:
            raise _nothing_fits_with(draft, refusals)
        candidates, collisions = _without_collisions(candidates, draft)
        refusals += collisions
        candidates.sort(key=lambda entry: _ORIGINS.index(entry.origin))  # stable: newest first
        return (*(_option(entry, candidates[0], draft) for entry in candidates), *refusals)

    def apply(self, draft: Draft, value: str) -> None:
        image = draft.request.image
        if image and image.seen and not image.seen.problem:
            draft.entry = _entry_of(image.seen, draft)
            draft.script = _script_of(draft, draft.entry) if draft.entry else None
            draft.own = _own_settings(draft)
        elif draft.request.image is None and not draft.request.runs_natively:
            draft.entry = draft.catalogue.entry(value)
            draft.environment.update(draft.entry.environment)
            draft.request = _with_script(draft, draft.entry)
            draft.script = _script_of(draft, draft.entry)
            draft.own = _own_settings(draft)

    def requested(self, draft: Draft) -> str:
        entry, image = draft.request.optimisation.entry, draft.request.image
        if image and entry:
            raise CannotPlan("optimisation.entry", f"{entry} is asked for, and the training has an image of its own")
        return entry

    def evidence(self, draft: Draft) -> str:
        return draft.entry.provenance if draft.entry else ""

    def why_other(self, other: str, taken: str, draft: Draft) -> str:
        return _why_other(draft.catalogue.entry(other), draft.catalogue.entry(taken))


def _why_given_image(image: GivenImage) -> str:
    reason = "the blueprint names this image"
    if image.seen is None:
        return f"{reason}; not inspected yet; modak deploy does that first"
    if image.seen.problem:
        return f"{reason}, which could not be inspected: {image.seen.problem}"
    frameworks = [f"{name} {version}" for name, version in image.seen.frameworks.items()]
    oci = f" as {image.seen.oci}" if image.seen.oci else ""
    return f"{reason}{oci}, which has {', '.join([*frameworks, *image.seen.preloads, *image.seen.libraries])}"


def _check_given_image(draft: Draft, image: GivenImage) -> None:
    """
    Raises:
        CannotPlan: an image that was looked into has not got the framework, or has another version of it.
    """
    inspection, application = image.seen, draft.request.application
    if inspection is None or inspection.problem or not application.is_training or application.framework == ANY:
        return
    version = inspection.frameworks.get(application.framework)
    if version is None and application.requirements:
        return  # they may bring it
    if version is None:
        frameworks = ", ".join(f"{name} {framework}" for name, framework in inspection.frameworks.items())
        hint = "name what it has, or give an image that has it"
        raise CannotPlan("framework", f"{image.source} has no {application.framework}: it has {frameworks}", hint)
    if not satisfies(version, application.version):
        message = f"{image.source} has {application.framework} {version}, not {application.version}"
        raise CannotPlan("version", message, "leave it out, or give another image")


def _entry_of(image: SeenImage, draft: Draft) -> Entry | None:
    """What was found in an image, in the form in which the catalogue knows a build."""
    framework = draft.request.application.framework
    builds = draft.catalogue.of_framework(framework)
    if framework not in image.frameworks:
        return None
    return Entry(
        name=f"image-{image.sha256[:12]}",
        framework=framework,
        version=image.frameworks[framework],
        origin="given",
        compilers=image.compilers if framework != "python" else (),
        architectures=builds[0].architectures if builds else (),
        allocators=tuple(image.preloads),
        preloads=image.preloads,
        thread_variables=builds[0].thread_variables if builds else ("OMP_NUM_THREADS",),
        python_version=image.version,
        glibc=image.glibc,
        probe="",
        provenance=f"{image.source}, as inspected ({image.sha256[:12]})",
        licence="",
    )


def _candidates(draft: Draft) -> list[Entry]:
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
    entries = [entry for framework in frameworks for entry in draft.catalogue.of_framework(framework)]
    return [entry for entry in entries if script_for(application.workload, entry)]


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
    arguments = {name.replace("-", "_"): str(value) for name, value in draft.request.application.arguments}
    return {name: arguments.get(name, values[0]) for name, values in switches.items()}


def _option(entry: Entry, first_entry: Entry, draft: Draft) -> Option:
    reason = f"{entry.framework} {entry.version} fits the request and {draft.request.target.processor.architecture}"
    is_requested = draft.request.optimisation.build != "any" or draft.request.optimisation.entry == entry.name
    # operators of ours are a matter of their own, which says what they do to results
    other_libraries = entry.origin != first_entry.origin and not is_requested and entry.libraries != ("operators",)
    return Option(entry.name, reason, numerics="reassociation" if other_libraries else "same")


def _check_requested(draft: Draft, entry_name: str) -> None:
    """Refuses an entry that is asked for and cannot be had."""
    entry, framework = draft.catalogue.find(entry_name), draft.request.application.framework
    if entry is None:
        raise CannotPlan("optimisation.entry", *draft.catalogue.why_none(entry_name))
    if entry not in _candidates(draft):
        raise CannotPlan(
            "optimisation.entry", f"{entry_name} is a build of {entry.framework}, not of {framework}",
            f"framework: {entry.framework}, or another entry",
        )  # fmt: skip
    reason = _why_not(entry, draft)
    if reason:
        raise CannotPlan(
            "optimisation.entry", f"{entry_name} cannot be taken: {reason}", "take another entry", optional=True
        )


def _why_not(entry: Entry, draft: Draft) -> str:
    """Why a build cannot serve; empty when it can."""
    request = draft.request
    requested = request.optimisation
    if not satisfies(entry.version, request.application.version):
        return f"version {entry.version} is not {request.application.version}"
    if requested.build not in ("any", entry.origin):
        return f"its build is {entry.origin}, and {requested.build} is asked for"
    if requested.compiler not in ("any", "none", "default", *entry.compilers):
        return f"it does not include {requested.compiler}"
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
    if not named or any(fits(script, entry) for script in named):
        return ""
    right_script = script_for(application.workload, entry)
    return f"workload.yaml has {right_script.script if right_script else 'no script'} for it, not {application.script}"


def _why_no_library(entry: Entry, draft: Draft) -> str:
    """Why a program with MPI cannot be made, or cannot run, with a build."""
    application, base = draft.request.application, draft.catalogue.bases.get(entry.base)
    library = application.hpc.library if application.hpc and application.hpc.parallelisation == "mpi" else ""
    if library and base and base.mpi and library not in base.provides:
        return f"it has {', '.join(base.provides)}, and {library} is asked for"
    if application.hpc and application.build and base and base.mpi and not entry.tools:
        return "it has no compiler, and the program is built"
    return ""


def _used_packages(draft: Draft) -> frozenset[str]:
    """What is used of the packages that some build brings."""
    request = draft.request
    module = request.parallelism.name.partition(".")[0] if request.parallelism else ""
    return _packages_in_use(draft.catalogue.brought, module, request.application.requirements)


@lru_cache(maxsize=64)  # every entry asks, of every training
def _packages_in_use(packages: frozenset[str], module: str, requirements: tuple[str, ...]) -> frozenset[str]:
    return packages & {module, *map(package_of, requirements)}


def _why_no_package(entry: Entry, draft: Draft) -> str:
    missing_packages = _used_packages(draft).difference(entry.brings)
    is_own = entry.source and entry.name == draft.request.optimisation.entry  # an image whose user knows what is in it
    if not missing_packages or is_own or missing_packages <= {*map(package_of, entry.requirements)}:
        return ""
    names = [build.name for build in draft.catalogue.entries if missing_packages <= {*build.brings}]
    return f"it lacks {', '.join(sorted(missing_packages))}, which {' and '.join(names) or 'no entry'} has"


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
    is_off = _lacks_accelerator(entry, draft)
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
    extras = sorted(set(entry.brings) - _used_packages(draft))
    if extras and not draft.request.application.version:
        return f"it has {', '.join(extras)}, which nothing here uses; its version, or optimisation.entry, selects it"
    is_old = base is not None and base.python.startswith("2.")
    if is_old and not draft.request.application.version and _has_present_build(draft, entry.framework):
        return f"its Python is {base.python if base else ''}; its version, or optimisation.entry, selects it"
    newer = None if draft.request.application.version else _newer_of_its_kind(entry, draft)
    return f"{newer.name} is newer; its version, or optimisation.entry, selects this one" if newer else ""


def _newer_of_its_kind(entry: Entry, draft: Draft) -> Entry | None:
    """A later release of the same kind of build that serves, so that both need not be weighed."""

    def kind(build: Entry) -> tuple[object, ...]:
        return build.origin, build.accelerator, build.libraries, sorted(build.environment.items()), build.tools

    later = draft.catalogue.of_framework(entry.framework)  # the newest first
    later = later[: later.index(entry)]
    return next(
        (
            build
            for build in later
            if kind(build) == kind(entry)
            and (not build.untried or _lacks_accelerator(build, draft))
            and not _why_not(build, draft)
            and not collision_of(build, draft)
        ),
        None,
    )


def _lacks_accelerator(entry: Entry, draft: Draft) -> bool:
    """Whether a build would run without the accelerator that it was made for."""
    return bool(entry.accelerator) and not draft.request.resources.accelerators


def _has_smaller_wheels(draft: Draft, entry: Entry) -> bool:
    """Whether the framework's own wheels for processors alone serve, in a release of today where none is asked for."""
    builds = (build for build in draft.catalogue.of_framework(entry.framework) if build.origin == entry.origin)
    collides = collision_of(entry, draft)  # the other's collision is no reason for this one then
    return any(
        not (build.accelerator or _why_not(build, draft) or _why_not_unasked(build, draft))
        and (collides or not collision_of(build, draft))
        for build in builds
    )


def collision_of(entry: Entry, draft: Draft) -> tuple[int, Collision] | None:
    """The first package that is asked for and does not go with a build, by its number, and why."""
    lines = draft.request.application.requirements
    if not lines:
        return None
    from modak_ansible.catalogue.companions import collision  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    base = draft.catalogue.bases.get(entry.base)
    problems = ((number, collision(entry, line, base.python if base else "")) for number, line in enumerate(lines))
    return next(((number, problem) for number, problem in problems if problem), None)


def _without_collisions(candidates: list[Entry], draft: Draft) -> tuple[list[Entry], list[Option]]:
    """The builds that the packages go with, and why not the others; all of them where they go with none."""
    reasons = {entry.name: collision_of(entry, draft) for entry in candidates}
    if all(reasons.values()):
        return candidates, []
    collisions = [Option(name, why_not=collision[1].message) for name, collision in reasons.items() if collision]
    return [entry for entry in candidates if not reasons[entry.name]], collisions


def _has_smaller(draft: Draft, entry: Entry) -> bool:
    """Whether another build has the same MPI library, and no compilers."""
    builds = (build for build in draft.catalogue.of_framework(entry.framework) if build.base == entry.base)
    return any(not build.tools for build in builds)


def _has_present_build(draft: Draft, framework: str) -> bool:
    bases = (draft.catalogue.bases.get(entry.base) for entry in draft.catalogue.of_framework(framework))
    return any(base is not None and not base.python.startswith("2.") for base in bases)


def _why_other(other: Entry, taken: Entry) -> str:
    if other.origin != taken.origin:
        return f"{taken.name} is a build of {taken.origin}; build: {other.origin} selects this one"
    if other.version == taken.version:
        return f"{taken.name} is as new; optimisation.entry selects this one"
    return f"{taken.name} is newer"


def _nothing_fits_with(draft: Draft, refusals: list[Option]) -> CannotPlan:
    """What stands against every build; a preference, where some would fit without it."""
    problem, preferences = _nothing_fits(draft, refusals), draft.request.optimisation
    requested_fields = [name for name in ("build", "compiler") if getattr(preferences, name) != "any"]
    for names in (*([name] for name in requested_fields), requested_fields):
        weaker = preferences.model_copy(update=dict.fromkeys(names, "any"))
        weaker_draft = replace(draft, request=draft.request.model_copy(update={"optimisation": weaker}))
        fits = (
            entry
            for entry in _candidates(weaker_draft)
            if not (_why_not(entry, weaker_draft) or _why_not_unasked(entry, weaker_draft))
        )
        if names and any(fits):
            return CannotPlan(f"optimisation.{names[0]}", problem.message, problem.hint, optional=True)
    return problem


def _nothing_fits(draft: Draft, refusals: list[Option]) -> CannotPlan:
    application = draft.request.application
    if not refusals:
        frameworks = sorted({entry.framework for entry in draft.catalogue.entries})
        return CannotPlan(
            "framework", f"the catalogue has no {application.framework}", f"it has {', '.join(frameworks)}"
        )
    architecture = draft.request.target.processor.architecture
    if architecture not in archspec.cpu.TARGETS:
        hint = nearest(architecture, archspec.cpu.TARGETS) or "leave architecture out, or take x86_64 or aarch64"
        return CannotPlan("host", f"{visible(architecture)} is not a processor that archspec knows", hint)
    other_reasons = [option.why_not for option in refusals if not option.why_not.startswith("version ")]
    no_compiler = bool(other_reasons) and all(reason.startswith("it does not include ") for reason in other_reasons)
    field = "optimisation.compiler" if no_compiler else "framework" if other_reasons else "version"
    grouped_reasons = by_reason(Rejected(value=option.value, reason=option.why_not) for option in refusals)
    reasons = "; ".join(f"{', '.join(values)}: {reason}" for reason, values in grouped_reasons.items())
    hint = "ask for another version, or give an image of your own as a modak.nodes.Image"
    if no_compiler:
        names = {option.value for option in refusals if option.why_not.startswith("it does not include ")}
        compilers = sorted(
            {name for entry in draft.catalogue.entries if entry.name in names for name in entry.compilers}
        )
        hint = f"compilers there: {', '.join(compilers)}" if compilers else "none of them has a graph compiler"
    return CannotPlan(field, f"no build of {application.framework} fits ({reasons})", hint)
