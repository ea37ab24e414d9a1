"""The plan's image: its layers from the base upwards, each named by what it is made from."""

from __future__ import annotations

from typing import Any, Literal

import archspec.cpu

from modak_ansible.catalogue import Catalogue, Entry
from modak_ansible.errors import CannotPlan, ModakError
from modak_ansible.model.plan import Layer, LayerKind, PlannedImage, digest_of
from modak_ansible.model.request import GivenImage
from modak_ansible.model.target import Target
from modak_ansible.recipes import apptainer
from modak_ansible.recipes.libraries.place import PYTHON
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES, ContainerRuntime

_REGISTRY = "docker://"
_NO_IMAGE = PlannedImage(
    entry="none", container_runtime="none", digest="", definition="", path="", layers=(), python=""
)  # fmt: skip


def image_of(
    entry: Entry | None,
    image: GivenImage | None,
    requirements: tuple[str, ...],
    target: Target,
    catalogue: Catalogue,
    locked: tuple[str, ...] = (),
) -> PlannedImage:
    """The image that a training runs in on a target.

    Args:
        entry: the build that was chosen; None where the user gives an image, or where none is needed.
        image: the user's image.
        locked: what the plan needs besides the entry, as lines of a lock.

    Raises:
        CannotPlan: an image is given, and the target uses no containers; or one of the entry's libraries cannot be
            compiled for the target's processor.
    """
    # what nodes of Kubernetes pull a container host has pushed
    runtime = CONTAINER_RUNTIMES.get("podman" if target.pods else target.container_runtime)
    if image is not None:
        layers, python = _given_layers(image, requirements, locked, runtime)
        entry = None
    elif entry is None:
        return _NO_IMAGE
    elif runtime is None:
        layers, python = [_environment_layer(entry, requirements, catalogue, locked)], "bin/python"
    elif entry.source:
        layers, python = _image_layers(entry, requirements, runtime), entry.python
    else:
        layers, python = _built_layers(entry, requirements, target, catalogue, locked, runtime), PYTHON
    if target.pods:
        return _pulled_by_nodes(layers, entry.name if entry else "", python, target, locked)
    if runtime is not None and not runtime.builds and layers[-1].kind == "build":
        layers = [_published(layers, target, runtime, entry is not None, locked)]
    top = layers[-1]
    return PlannedImage(
        entry=entry.name if entry else top.source or layers[0].source,
        container_runtime=target.container_runtime,
        digest=top.digest,
        definition=top.definition,
        path=top.path,
        layers=tuple(layers),
        python=python,
        seen=image.seen.sha256 if image and image.seen else "",
    )


def _pulled_by_nodes(
    layers: list[Layer], entry: str, python: str, target: Target, locked: tuple[str, ...]
) -> PlannedImage:
    """An image that no layer makes on the target: the nodes of Kubernetes pull it from a registry by its address.

    Args:
        entry: of the catalogue; empty for the user's own.

    Raises:
        CannotPlan: nobody has pushed such an image, as far as the target says, or it is none that they could pull.
    """
    top = layers[-1]
    if top.kind != "build" and not top.source.startswith(_REGISTRY):
        raise CannotPlan("image", f"a cluster cannot pull an image such as {top.source}", "docker://HOST/IMAGE:TAG")
    address = _address_of(layers, target, bool(entry), locked) if top.kind == "build" else top.source
    return PlannedImage(
        entry=entry or address,
        container_runtime=target.container_runtime,
        digest=digest_of({"address": address}),
        definition="",
        path=address.removeprefix(_REGISTRY),
        layers=(),
        python=python,
    )


def _address_of(layers: list[Layer], target: Target, is_entry: bool, locked: tuple[str, ...]) -> str:
    """Where an image lies that a container host has made and pushed, by the digest of what it is made from.

    Raises:
        CannotPlan: nobody has pushed such an image, as far as the target says, or can.
    """
    top, place = layers[-1], next((source for source in target.site.image_sources if source.startswith(_REGISTRY)), "")
    has_packages = top.name == "requirements"
    if has_packages and not is_entry:
        message = (
            f"packages on top of {layers[0].source} would be a layer that is not in a registry from which "
            f"{target.name} pulls"
        )
        raise CannotPlan("requirements_txt", message, "include them in that image")
    if has_packages and locked:
        message = (
            f"a search needs more packages in a layer on top, which is not in a registry from which {target.name} pulls"
        )
        raise CannotPlan("optimisation.autotuning", message, "use an image of your own that has them, or no search")
    if not place:
        words = f"{layers[-2].name} --packages --blueprint BLUEPRINT" if has_packages else top.name
        message = f"nothing says where {target.name} pulls {top.name} from"
        hint = (
            f"modak catalogue push {words} {_REGISTRY}HOST/REPOSITORY --on a container host, and for the site of "
            f"{target.name} image_sources: [ {_REGISTRY}HOST/REPOSITORY ]; or an image of your own: docker://..."
        )
        raise CannotPlan("host", message, hint)
    return f"{place.rstrip('/')}:{top.digest}"


def _published(
    layers: list[Layer], target: Target, runtime: ContainerRuntime, is_entry: bool, locked: tuple[str, ...]
) -> Layer:
    """The layer of an image that the target pulls, for it makes none itself.

    Raises:
        CannotPlan: nobody has pushed such an image, as far as the target says.
    """
    top, address = layers[-1], _address_of(layers, target, is_entry, locked)
    definition = apptainer.pulled_definition(address)
    return _layer(top.name, definition, None, runtime.ending, "pull", source=address, probe=top.probe)


def _layer(
    name: str, definition: str, below: Layer | None, ending: str, kind: LayerKind = "build", **details: Any
) -> Layer:
    """A layer that is named by its definition, by what lies below it, and by what else is given of it."""
    digest = digest_of({"definition": definition, "below": below.digest if below else "", "kind": kind, **details})
    fields = {"path": f"images/{digest}{ending}", **details}
    return Layer(name=name, kind=kind, digest=digest, definition=definition, **fields)


def _built_layers(
    entry: Entry,
    requirements: tuple[str, ...],
    target: Target,
    catalogue: Catalogue,
    locked: tuple[str, ...],
    runtime: ContainerRuntime,
) -> list[Layer]:
    # what is not compiled for a processor is the same image on all of its family
    microarchitecture = archspec.cpu.TARGETS.get(target.processor.architecture)
    family = microarchitecture.family.name if microarchitecture else target.processor.architecture
    architecture = target.processor.architecture if entry.libraries else family
    base = catalogue.bases[entry.base]
    form = _form(runtime)
    definition = apptainer.base_definition(base, target.image_base, family, form)
    bottom = _layer(base.name, definition, None, runtime.ending, **_probe(runtime, *apptainer.BASE_PROBE))
    try:
        definition = apptainer.framework_definition(entry, architecture, bottom.digest, form)
    except ModakError as error:
        raise CannotPlan("host", f"{entry.name}: {error.message}", error.hint) from error
    framework = _layer(entry.name, definition, bottom, runtime.ending, **_probe(runtime, PYTHON, "-c", entry.probe))
    requirements_layers = _requirements_layers(requirements, framework, runtime, PYTHON, entry, locked)
    return [bottom, framework, *requirements_layers]


def _form(runtime: ContainerRuntime) -> Literal["docker", "singularity"]:
    return "docker" if runtime.reads_containerfiles else "singularity"


def _probe(runtime: ContainerRuntime, *words: str) -> dict[str, Any]:
    """What tries a layer, where its image has no test of its own."""
    return {"probe": words} if runtime.reads_containerfiles else {}


def _image_layers(entry: Entry, requirements: tuple[str, ...], runtime: ContainerRuntime) -> list[Layer]:
    definition = apptainer.pulled_definition(entry.source)
    fields: dict[str, Any] = {"source": entry.source}
    if "://" in entry.source:
        probe = (entry.python, "-c", entry.probe)
        layer = _layer(entry.name, definition, None, runtime.ending, "pull", **fields, probe=probe)
    else:
        fields |= {"checksum": entry.checksum, "path": entry.source}
        layer = _file_layer(entry.name, definition, runtime, fields)
    return [layer, *_requirements_layers(requirements, layer, runtime, entry.python, entry)]


def _file_layer(name: str, definition: str, runtime: ContainerRuntime, fields: dict[str, Any]) -> Layer:
    """
    Raises:
        CannotPlan: the target's runtime reads no such files.
    """
    # Apptainer reads files of more than one ending
    is_its = fields["path"].endswith(runtime.ending) or not (
        runtime.reads_containerfiles or fields["path"].endswith(".tar")
    )
    if not is_its:
        hint = f"a {runtime.ending} file, or the image's address"
        raise CannotPlan("image", f"{runtime.programs[0]} cannot run an image such as {fields['path']}", hint)
    return _layer(name, definition, None, runtime.ending, "file", **fields)


def _given_layers(
    image: GivenImage, requirements: tuple[str, ...], locked: tuple[str, ...], runtime: ContainerRuntime | None
) -> tuple[list[Layer], str]:
    if runtime is None:
        raise CannotPlan("image", f"{image.source} needs a container runtime, and the target is set to use none")
    definition = apptainer.pulled_definition(image.source)
    fields = {"source": image.source, "checksum": image.checksum or ""}
    if "://" in image.source:
        layer = _layer(image.source, definition, None, runtime.ending, "pull", **fields)
    else:
        layer = _file_layer(image.source, definition, runtime, {"path": image.source, **fields})
    return [layer, *_requirements_layers(requirements, layer, runtime, image.python, locked=locked)], image.python


def _requirements_layers(
    requirements: tuple[str, ...],
    below: Layer,
    runtime: ContainerRuntime,
    python: str,
    entry: Entry | None = None,
    locked: tuple[str, ...] = (),
) -> list[Layer]:
    if not requirements and not locked:
        return []
    form = _form(runtime)
    definition = apptainer.requirements_definition(requirements, below.digest, python, entry, locked, form)
    test = "\n".join(apptainer.requirements_test(requirements, python, entry))
    return [_layer("requirements", definition, below, runtime.ending, **_probe(runtime, "sh", "-c", test))]


def _environment_layer(
    entry: Entry, requirements: tuple[str, ...], catalogue: Catalogue, locked: tuple[str, ...]
) -> Layer:
    from modak_ansible.recipes.environment import environment_script  # noqa: PLC0415 - slow to import, and seldom needed

    script = environment_script(entry, requirements, catalogue.bases[entry.base].python, locked)
    return _layer(entry.name, script, None, ".venv", "venv")
