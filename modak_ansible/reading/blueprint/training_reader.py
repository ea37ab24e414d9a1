"""A training node with its dataset and image in, a request of the model out."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from modak_ansible.catalogue.serving import accelerated
from modak_ansible.errors import nearest, visible
from modak_ansible.model.application import Application, Checkpoint, Optimisation, Resources, SourceFile
from modak_ansible.model.dataset import Dataset
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.quantities import parse_size, parse_walltime
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.model.scaled import Scale
from modak_ansible.model.target import Target
from modak_ansible.reading.blueprint.files import is_of_pattern
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.secret_rules import note_secret
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.script.accelerators import is_hidden, use_in
from modak_ansible.reading.blueprint.script.counting import counting
from modak_ansible.reading.blueprint.script.folder import ScriptFolders, work_of
from modak_ansible.reading.blueprint.search import read_search
from modak_ansible.reading.blueprint.sweep import point_name, points_of, read_axes, with_point
from modak_ansible.reading.blueprint.types.topology import Node, Topology
from modak_ansible.sources import SourceProblem
from modak_ansible.sources.local import brought_files
from modak_ansible.sources.reader import DatasetDescription, read_dataset
from modak_ansible.target.core.files import is_file

TRAINING = "modak.nodes.Training"
DATASET = "modak.nodes.Dataset"
IMAGE = "modak.nodes.Image"
# Properties of a dataset that are as they are written.
_AS_WRITTEN = ("format", "source", "urls", "on_target", "unpack", "mount_as", "pack")


class TrainingReader:
    """Reads one training; what is wrong is noted as a mistake, and what says nothing as a warning."""

    def __init__(
        self, topology: Topology, node: Node, folder: Path, mistakes: Mistakes, warnings: Mistakes,
        folders: ScriptFolders,
    ) -> None:  # fmt: skip
        self._topology = topology
        self._node = node
        self._folder = folder
        self._mistakes, self._warnings = mistakes, warnings
        self._folders = folders
        # the script's own files, as far as it tells them: whatever else travels says nothing of it
        self._own_code: Sequence[SourceFile] = ()

    def read(self, blueprint_name: str, target: Target | None) -> Request | None:
        """The request, or None when it is too broken to be planned."""
        before = len(self._mistakes)
        problem = rules.name_problem(blueprint_name)
        if problem:
            place = self._topology.root.get("metadata", "template_name") or self._topology.root
            self._mistakes.add(place.location, "unsafe-value", problem, "give metadata: { template_name: a-name }")
        datasets = [dataset for dataset in self._datasets() if dataset]
        application, beside = self._application(blueprint_name, datasets)
        resources = self._resources()
        job_options = self._job_options()
        image = self._image()
        if target is None or application is None or resources is None or len(self._mistakes) > before:
            return None
        return Request(
            blueprint=blueprint_name,
            training=self._node.name,
            application=application,
            resources=resources,
            optimisation=Optimisation(**optimisation.plain())
            if (optimisation := self._property("optimisation"))
            else Optimisation(),
            target=target,
            dataset=datasets[0] if datasets else None,
            more_datasets=tuple(datasets[1:]),
            image=image,
            job_options=job_options,
            checkpoint=Checkpoint(**checkpoint.plain()) if (checkpoint := self._property("checkpoint")) else None,
            scale=Scale(**scale.plain()) if (scale := self._property("scale")) else None,
            beside=beside,
            parallelism=self._folders.parallelism(self._folder / application.folder, self._own_code),
        )

    def points(self, request: Request, trials: Sequence[Mapping[str, str | bool]] = ()) -> list[Request]:
        """The training itself, or one for each point of its sweep; none where the sweep is wrong.

        Args:
            request: with the usual values.
            trials: of its search, those that are meant; without any the training stands for all.
        """
        before = len(self._mistakes)
        axes = read_axes(self._node, self._fit, self._mistakes)
        search = read_search(self._node, self._fit, self._mistakes)
        parallel = self._property("parallel")
        request = request.model_copy(update={"node": self._node.name, "parallel": parallel.value if parallel else None})
        if len(self._mistakes) > before:
            return []
        if parallel and not axes and not search:
            words = (
                f"parallel is set for {self._node.name}, which is a single training: it has neither a sweep nor a "
                "search"
            )
            self._warnings.add(parallel.location, "not-used", words, "leave it out, or add a sweep")
        self._warn_of_gpus(request)
        self._warn_of_accelerators(request)
        points = trials if search else list(points_of(axes)) if axes else ()
        requests = [self._request_at(request, point) for point in points] or [
            request.model_copy(update={"search": search})
        ]
        application = request.application
        script = self._folder / application.folder / application.script
        return list(map(_with_overrides, requests)) if self._folders.takes_overrides(script) else requests

    def _warn_of_gpus(self, request: Request) -> None:
        options = self._property("job_options")
        gres = options.get("gres") if options else None
        accelerators = request.resources.accelerators or request.job_options.request_gpus
        if gres and not accelerators and any(resource.startswith("gpu") for resource in request.job_options.gres):
            words = "gres asks for GPUs that the plan does not take into account: it would be made for processors only"
            self._warnings.add(gres.location, "contradiction", words, "give request_gpus a number instead")

    def _warn_of_accelerators(self, request: Request) -> None:
        """Where the target has some and the script uses one, and nobody says how many, be it none."""
        application, target = request.application, request.target
        is_told = request.resources.accelerators or request.job_options.request_gpus is not None
        stated = self._node.item.get("properties", "resources", "accelerators")
        if not target.has_accelerators or is_told or stated is not None or not self._has_build(request):
            return
        if is_hidden(application.environment):
            return
        arguments = [*application.arguments, *(("", word) for word in application.words)]
        use = use_in(self._folder / application.folder, self._own_code, application.framework, arguments)
        if use:
            words = f"{use}, and the job asks for no accelerator of {target.name}'s"
            hint = "resources: { accelerators: 1 }, or 0 where none is wanted"
            self._warnings.add(self._node.properties["script"].location, "not-used", words, hint)

    def _has_build(self, request: Request) -> bool:
        """Whether there is a build of the framework, or the one that is asked for, for the target's accelerators."""
        application, entry = request.application, request.optimisation.entry
        is_own = request.image is not None
        return is_own or bool(accelerated(application.framework, application.version, request.target, entry))

    def _request_at(self, request: Request, point: Mapping[str, str | bool]) -> Request:
        application, stated = request.application, self._property("work")
        arguments = with_point(application.arguments, point)
        names_of = partial(self._folders.names_of, self._folder / application.folder / application.script)
        work = work_of(stated.plain() if stated else {}, application.workload, arguments, application.words, names_of)
        application = application.model_copy(update={"arguments": arguments, "work": work})
        return request.model_copy(update={"training": point_name(self._node.name, point), "application": application})

    # --- helpers

    def _property(self, name: str) -> Item | None:
        return self._node.properties.get(name)

    def _note(self, item: Item, problem: str, hint: str = "", rule: str = "unsafe-value") -> bool:
        if problem:
            self._mistakes.add(item.location, rule, problem, hint)
        return not problem

    def _texts(self, name: str, rule: Callable[[str], str], rule_name: str = "unsafe-value") -> list[str]:
        section = self._property(name)
        elements = section.elements if section else []
        return [
            str(element.value) for element in elements if self._note(element, rule(str(element.value)), rule=rule_name)
        ]

    # --- the application

    def _application(self, name: str, datasets: Sequence[Dataset]) -> tuple[Application | None, tuple[SourceFile, ...]]:
        """The application, and the files beside it on which it does not depend."""
        script = self._script(datasets)
        version = self._property("version")
        if version and version.value:
            self._note(version, rules.version_problem(str(version.value)), rule="version")
        framework = self._property("framework")
        arguments = self._arguments()
        environment = self._environment()
        requirements = self._texts("requirements_txt", rules.requirement_problem, "requirement")
        outputs = self._texts("outputs", rules.pattern_problem)
        words = self._texts("words", rules.value_problem)
        if script is None or framework is None:
            return None, ()
        folder, code = script
        script_folder = self._folder / folder
        before, after = (self._texts(name, rules.line_problem) for name in ("pre_execution", "post_execution"))
        name_of_script = PurePosixPath(str(self._node.properties["script"].value)).name
        needed, beside = code, list[SourceFile]()
        if framework.value != "any":  # which has a script for each framework
            texts = [str(value) for _, value in (*arguments, *environment)] + words
            needed, beside = counting(
                script_folder, name_of_script, code, [*texts, *self._varied_values(), *before, *after]
            )
        self._own_code = needed
        code, beside = (code, []) if self._property("files") else (needed, beside)  # all that is named is asked for
        workload = self._folders.workload(script_folder, self._mistakes)
        work, names_of = self._property("work"), partial(self._folders.names_of, script_folder / name_of_script)
        application = Application(
            name=name,
            framework=str(framework.value),
            version=str(version.value) if version else "",
            folder=folder.as_posix() if folder != PurePosixPath(".") else "",
            script=name_of_script,
            files=tuple(code),
            requirements=tuple(requirements),
            arguments=tuple(arguments),
            words=tuple(words),
            environment=tuple(environment),
            pre_execution=tuple(before),
            post_execution=tuple(after),
            outputs=tuple(outputs),
            work=work_of(work.plain() if work else {}, workload, arguments, words, names_of),
            workload=workload,
            distributed_training=bool((flag := self._property("distributed_training")) and flag.value),
            distributed=self._distributed(),
            prepares=self._folders.prepares(script_folder, needed),
        )
        return application, tuple(beside)

    def _distributed(self) -> Distributed | None:
        section = self._property("distributed")
        if section is None:
            return None
        interface = section.get("interface")
        if interface is not None and interface.value:
            self._note(interface, rules.interface_problem(str(interface.value)))
        return Distributed(**section.plain())

    def _varied_values(self) -> list[str]:
        """The values that arguments take in a sweep, or among the choices of a search."""
        search = self._property("search")
        sections = [self._property("sweep"), search.get("over") if search else None]
        items = [item for section in sections if section for item in section.entries.values()]
        return [str(element.value) for item in items for element in item.elements]

    def _script(self, datasets: Sequence[Dataset]) -> tuple[PurePosixPath, list[SourceFile]] | None:
        item = self._property("script")
        if item is None:
            return None
        text = str(item.value)
        path = PurePosixPath(text)
        if path.is_absolute() or ".." in path.parts:
            hint = "copy or link its folder into the blueprint's"
            self._mistakes.add(item.location, "script-path", f"{text!r} is not below the blueprint's folder", hint)
            return None
        if problem := rules.script_problem(path):
            self._mistakes.add(item.location, "script-path", problem, "rename it")
            return None
        if not is_file(self._folder / path):
            candidates = self._folder.glob("**/*.py")
            hint = nearest(text, [file.relative_to(self._folder).as_posix() for file in candidates])
            self._mistakes.add(
                item.location, "file-not-found", f"there is no script {visible(text)} in {self._folder}", hint
            )
            return None
        patterns = self._texts("files", rules.pattern_problem) if self._property("files") else None
        if patterns is not None:
            patterns.append(glob.escape(path.name))
        try:
            script_folder = self._folder / path.parent
            data = brought_files(datasets, self._folder, script_folder)
            code = self._folders.files(script_folder, patterns, top=self._folder, data=data)
            self._warn_of_patterns(code)
        except (OSError, ValueError) as error:
            hint = "list those to copy under files, and declare data as a dataset"
            self._mistakes.add(item.location, "script-files", f"the files beside {text}: {error}", hint)
            return None
        return path.parent, code

    def _warn_of_patterns(self, code: list[SourceFile]) -> None:
        patterns = self._property("files")
        for item in patterns.elements if patterns else ():
            if not any(is_of_pattern(file.path, str(item.value)) for file in code):
                words = f"no file beside the script is named {rules.quote(str(item.value))}, so none is copied"
                self._warnings.add(item.location, "not-used", words, "correct the name, or leave it out")

    def _arguments(self) -> list[tuple[str, str | bool]]:
        section = self._property("arguments") or Item(self._node.item.location, {})
        arguments: list[tuple[str, str | bool]] = []
        for name, item in section.entries.items():
            place = Item(section.key_location(name), name)
            good = self._note(place, rules.option_problem(name))
            for value in item.elements or [item]:
                text = self._fit(value, f"the argument {name}")
                note_secret(value.location, name, text, self._mistakes)
                if text is not None and good:
                    arguments.append((name, text))
        return arguments

    def _environment(self) -> list[tuple[str, str]]:
        section = self._property("environment") or Item(self._node.item.location, {})
        variables: list[tuple[str, str]] = []
        for name, item in section.entries.items():
            place = Item(section.key_location(name), name)
            good = self._note(place, rules.variable_problem(name))
            text = self._scalar(item, f"the variable {name}")
            note_secret(item.location, name, text, self._mistakes)
            if text is not None and good and self._note(item, rules.value_problem(str(text))):
                variables.append((name, "1" if text is True else "0" if text is False else text))
        return variables

    def _scalar(self, item: Item, what: str) -> str | bool | None:
        """A value as it is written, or a truth value."""
        if item.is_map or item.is_list or item.value is None:
            self._mistakes.add(item.location, "wrong-type", f"{what} must be a single value")
            return None
        if isinstance(item.value, bool):
            if item.text.lower() not in ("true", "false"):
                hint = f'write "{item.text}" for the word, or true or false'
                self._mistakes.add(item.location, "wrong-type", f"{what}: {item.text} is read as {item.value}", hint)
            return item.value
        return item.text

    def _fit(self, item: Item, what: str) -> str | bool | None:
        """A value that may stand in a job's script."""
        text = self._scalar(item, what)
        return text if text is not None and self._note(item, rules.value_problem(str(text))) else None

    # --- resources

    def _resources(self) -> Resources | None:
        walltime = self._walltime()
        record = self._property("resources")
        values: dict[str, Any] = record.plain() if record else {}
        memory = record.get("memory") if record else None
        if memory is not None:
            values["memory"] = parse_size(memory.text)
            if not values["memory"]:
                self._mistakes.add(memory.location, "out-of-range", "memory: nothing is left to run in", "leave it out")
        partition = record.get("partition") if record else None
        if partition is not None:
            self._note(partition, rules.destination_problem(str(partition.value)))
        return Resources(walltime=walltime, **values) if walltime else None

    def _walltime(self) -> int | None:
        item = self._property("walltime")
        if item is None:
            return None
        try:
            return parse_walltime(item.text)
        except ValueError as error:
            self._mistakes.add(item.location, "walltime", str(error))
            return None

    def _job_options(self) -> JobOptions:
        record = self._property("job_options")
        if record is None:
            return JobOptions()
        from modak_ansible.reading.blueprint.forms.reader import FormReader  # noqa: PLC0415 - few blueprints need the form
        from modak_ansible.reading.blueprint.job_options import JobOptionsForm  # noqa: PLC0415

        form, _ = FormReader(self._mistakes, self._mistakes, root="job_options").read(record, JobOptionsForm)
        return form.to_model() if form else JobOptions()

    # --- the datasets and the image

    def _datasets(self) -> list[Dataset | None]:
        nodes = [self._topology.nodes.get(str(item.value)) for item in self._node.several.get("dataset", [])]
        return [self._dataset(node) for node in nodes if node and "name" in node.properties]

    def _dataset(self, node: Node) -> Dataset | None:
        properties = node.properties
        if not self._note(properties["name"], rules.name_problem(str(properties["name"].value))):
            return None

        def refuse(name: str, number: int | None, problem: SourceProblem) -> None:
            section = properties.get(name)
            if section is None and node.item.get("properties", name):
                return  # it is of another type, which is told
            item = (
                section.elements[number]
                if section and number is not None and number < len(section.elements)
                else section
            )
            place = item.location if item else node.item.location
            self._mistakes.add(place, problem.rule, problem.reason, problem.hint)

        before = len(self._mistakes)
        section, on_target, size = properties.get("source"), properties.get("on_target"), properties.get("size")
        if section and not section.elements:
            refuse("source", None, SourceProblem("no source is given", "[ published, digits ]"))
        if on_target:
            self._note(on_target, rules.path_problem(str(on_target.value)))
        checksums = self._checksums(node)
        if len(self._mistakes) > before:
            return None
        values: dict[str, Any] = {
            name: tuple(str(element.value) for element in item.elements) if item.is_list else item.value
            for name in _AS_WRITTEN
            if (item := properties.get(name)) and item.value is not None
        }
        size_bytes = parse_size(size.text) if size else None
        description = DatasetDescription(
            **values, name=str(properties["name"].value), checksum=checksums, size=size_bytes
        )
        return read_dataset(description, self._folder, refuse)

    def _checksums(self, node: Node) -> dict[str, str]:
        section = node.properties.get("checksum") or Item(node.item.location, {})
        checksums: dict[str, str] = {}
        for name, item in section.entries.items():
            place = Item(section.key_location(name), name)
            problem = rules.value_problem(name) or ("" if name else "a file needs a name")
            if self._note(place, problem) and self._note(
                item, rules.checksum_problem(str(item.value)), rule="checksum"
            ):
                checksums[name] = str(item.value).removeprefix("sha256:").lower()
        return checksums

    def _image(self) -> GivenImage | None:
        node = self._topology.nodes.get(self._node.requirements.get("image", ""))
        if node is None or "source" not in node.properties:
            return None
        source, python = node.properties["source"], node.properties["python"]
        self._note(source, rules.image_problem(str(source.value)), rule="image-source")
        self._note(python, rules.path_problem(str(python.value)))
        checksum = node.properties.get("checksum")
        if checksum and checksum.value:
            self._note(checksum, rules.checksum_problem(str(checksum.value)), rule="checksum")
        digest = str(checksum.value).removeprefix("sha256:").lower() if checksum and checksum.value else None
        return GivenImage(source=str(source.value), checksum=digest, python=str(python.value))


def inputs_as_text(values: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Values of inputs, such as Ansible or opera hand them over, in the form that the reader takes."""
    return tuple((name, json.dumps(value)) for name, value in sorted(values.items()))


def _with_overrides(request: Request) -> Request:
    """A training whose script has hydra: it takes NAME=VALUE, and no options."""
    application = request.application
    words = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in application.arguments
    ]
    changed = application.model_copy(update={"arguments": (), "words": (*words, *application.words)})
    return request.model_copy(update={"application": changed})
