"""A request's form in, the model's request out: everything that is looked up or added to what the user wrote."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from modak_ansible.catalogue import Catalogue
from modak_ansible.model.application import Application, Checkpoint, HpcApplication, Optimisation, Resources
from modak_ansible.model.dataset import Dataset
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.measured.work import Work
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.model.scaled import Scale
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.blueprint.forms.forms import Path as FieldPath
from modak_ansible.reading.blueprint.script.folder import ScriptFolders, work_of
from modak_ansible.reading.requests.application.code import Code, code_of
from modak_ansible.reading.requests.application.data import Data, program_data, samples_of, training_data
from modak_ansible.reading.requests.application.hpc import build_of, program_framework, program_of_form, with_library
from modak_ansible.reading.requests.application.shape import ShapeProblem, shape_of
from modak_ansible.reading.requests.checks import APPLICATION, HPC, OPTIMISATION, OPTIONS, TRAINING, Kind, kind_of
from modak_ansible.reading.requests.containers import given_image
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.form.optimisation import DataForm, DistributedForm
from modak_ansible.reading.requests.preferences import Preferences, fitting_build, version_of
from modak_ansible.reading.requests.targets import NamedTarget, with_traits
from modak_ansible.sources import SourceProblem

_HOUR = 3600


class Mapper:
    """Turns one job into the model's request; what cannot be done is noted."""

    def __init__(
        self, job: JobForm, name: str, file: Path, catalogue: Catalogue, notes: Notes, image: str = ""
    ) -> None:
        """
        Args:
            notes: get what is wrong, and the preferences that are not kept.
            image: the source of an image that the request asks for, and for nothing else.
        """
        self._job = job
        self._name = name
        self._file = file
        self._catalogue = catalogue
        self._notes = notes
        self._image = image
        self._kind: Kind = kind_of(job)
        optimisation = job.optimisation
        self._training = optimisation.ai_training if optimisation and self._kind == "ai_training" else None
        self._hpc = optimisation.hpc if optimisation and self._kind == "hpc" else None

    def request(self, named_target: NamedTarget) -> Request | None:
        """The request on a target, or None where something was noted."""
        before = len(self._notes.mistakes)
        target = with_traits(named_target, self._job, self._notes)
        image = given_image(self._image or self._job.runs.container_runtime, self._notes)
        if image and not self._takes(image, target):
            image = None
        if image and target.local and target.container_runtime == "none" and not self._job.runs.container_runtime:
            target = target.model_copy(update={"container_runtime": "any"})
        framework = self._framework(image)
        data = self._data()
        code = code_of(self._job, self._file, data, self._notes)
        shape = self._shape(target)
        preferences = Preferences(self._job, target, self._catalogue, self._notes)
        optimisation = preferences.read(
            self._training, has_data=bool(data.datasets), framework=framework, has_image=image is not None
        )
        walltime = self._walltime(target)
        work = self._work(code)
        if len(self._notes.mistakes) > before:
            return None
        if data.path and data.path.startswith("/"):
            binds = (*target.site.binds, data.path)
            target = target.model_copy(update={"site": target.site.model_copy(update={"binds": binds})})
        return Request(
            blueprint=self._name,
            training=self._job.runs.app_tag or ("training" if self._kind == "ai_training" else "program"),
            application=self._application(framework, image, code, data, work, shape),
            resources=Resources(walltime=walltime),
            optimisation=self._with_threads(optimisation, shape),
            target=target,
            dataset=data.datasets[0] if data.datasets else None,
            more_datasets=data.datasets[1:],
            image=image,
            job_options=self._job_options(shape),
            beside=code.beside,
            parallelism=code.parallelism,
            checkpoint=Checkpoint(**checkpoint.model_dump()) if (checkpoint := self._job.checkpoint) else None,
            scale=self._scale,
        )

    @property
    def _scale(self) -> Scale | None:
        """What is said of it in either way; scale says more."""
        scale, least = self._job.scale, self._job.runs.minimal_efficiency
        if scale is not None:
            return Scale(**scale.model_dump())
        return Scale(minimal_efficiency=least) if least is not None else None

    @property
    def _is_distributed(self) -> bool:
        """Whether a training says that its script is parallel: by that word, or by the number of its ranks."""
        flag = self._training.config.distributed_training if self._training else None
        return self._kind == "ai_training" and bool(flag or self._job.runs.mpi_ranks)

    @property
    def _distributed(self) -> DistributedForm | None:
        return self._training.config.distributed if self._training else None

    # --- parts

    def _framework(self, image: GivenImage | None) -> str:
        if self._kind == "hpc":
            return program_framework(self._job, self._hpc, image, self._notes)
        if self._training:
            return self._training.config.ai_framework
        if image is None and self._job.runs.app_type == "python":
            return "python"
        if image is None:
            hint = "optimisation.app_type-ai_training.config.ai_framework says so, or container_runtime names an image"
            problem = FieldProblem("missing-field", "nothing says which framework it needs", hint)
            self._notes.refuse(OPTIMISATION if self._job.optimisation else ("job",), problem)
        return ""

    def _data(self) -> Data:
        if self._training is None:
            return self._program_data()
        first, more_data = self._training.data, self._training.more_data or {}
        forms: list[tuple[FieldPath, DataForm, str]] = [((*TRAINING, "data"), first, "")] if first else []
        forms += [((*TRAINING, "more_data", name), form, name) for name, form in more_data.items()]
        datasets: tuple[Dataset, ...] = ()
        for path, form, name in forms:
            data = training_data(form, self._file.parent, partial(self._refuse_data, path), name)
            datasets += data.datasets
            if data.missing:
                reason = f"{data.missing} is not fetched: no address of it is known"
                hint = "location: a folder, a file or an address, or an absolute path that the target has"
                self._notes.cannot_keep((*path, "basedata"), reason, hint)
        return Data(datasets)

    def _refuse_data(self, path: FieldPath, field: str, number: int | None, problem: SourceProblem) -> None:  # noqa: ARG002 - every list of a request stands in one place
        self._notes.refuse((*path, field), FieldProblem(problem.rule, problem.reason, problem.hint))

    def _program_data(self) -> Data:
        data = Data()
        try:
            if self._hpc and self._hpc.data:
                data = program_data(self._hpc.data, self._file.parent)
        except FieldProblem as problem:
            self._notes.refuse((*HPC, "data", "location"), problem)
        if data.missing:
            reason = f"there is no {data.missing} next to the request, so nothing is copied"
            self._notes.cannot_keep((*HPC, "data", "location"), reason, "a path on the target is absolute")
        return data

    def _work(self, code: Code) -> Work:
        """What is known of the work: as the request says, else as the script's options or its workload.yaml say."""
        if self._training is None:
            return Work()
        count, sample_bytes = None, None
        if self._training.data:
            try:
                count, sample_bytes = samples_of(self._training.data)
            except FieldProblem as problem:
                self._notes.cannot_keep((*TRAINING, "data", "size"), problem.reason, problem.hint)
                count = self._training.data.count
        config = self._training.config
        stated = {
            "type": config.type, "parameters": config.parameters, "layers": config.layers, "samples": count,
            "sample_bytes": sample_bytes,
        }  # fmt: skip
        names_of = partial(ScriptFolders().names_of, self._file.parent / code.folder / code.script)
        return work_of(stated, code.workload, code.arguments, code.words, names_of)

    def _application(
        self, framework: str, image: GivenImage | None, code: Code, data: Data, work: Work, shape: ProcessLayout
    ) -> Application:
        runs = self._job.runs
        path = data.path
        return Application(
            name=self._name,
            framework=framework,
            version="" if image else version_of(self._training),
            folder=code.folder,
            script=code.script,
            command=code.command,
            files=code.files,
            arguments=code.arguments,
            words=code.words,
            environment=(("MODAK_DATASET", path),) if path else (),
            pre_execution=tuple(_with_path(line, path) for line in runs.pre_execution or ()),
            post_execution=tuple(_with_path(line, path) for line in runs.post_execution or ()),
            build=build_of(runs.build),
            hpc=self._program(image, shape),
            work=work,
            workload=code.workload,
            distributed_training=self._is_distributed,
            distributed=Distributed(**distributed.model_dump()) if (distributed := self._distributed) else None,
            prepares=code.prepares,
        )

    def _program(self, image: GivenImage | None, shape: ProcessLayout) -> HpcApplication | None:
        if self._kind != "hpc":
            return None
        program = program_of_form(self._job, self._hpc)
        if self._from_catalogue(image):
            program = with_library(program, self._job, self._catalogue, self._notes)
        ranks = min(program.ranks, shape.processes) if program.ranks else None
        threads = shape.threads if program.threads else None
        return program.model_copy(update={"ranks": ranks, "threads": threads})

    def _from_catalogue(self, image: GivenImage | None) -> bool:
        """Whether the catalogue has to have what the program runs in."""
        return image is None and self._job.runs.container_runtime != "none"

    def _takes(self, image: GivenImage, target: Target) -> bool:
        """Whether the image is taken that is named: not where a build is asked for, and the catalogue has one."""
        optimisation = self._job.optimisation
        if self._image or not (optimisation and optimisation.enable_opt_build):
            return True
        path = (*APPLICATION, "container_runtime")
        build = fitting_build(self._job, self._training, self._hpc, target, self._catalogue)
        if build:
            words = f"{image.source} is not taken, because enable_opt_build asks for a build: {build} is one"
            self._notes.warn(path, words, "leave it out, or enable_opt_build: false")
            return False
        reason = f"the catalogue has no build that fits, and {image.source} is used as it is"
        self._notes.cannot_keep((*OPTIMISATION, "enable_opt_build"), reason, "enable_opt_build: false")
        return True

    def _with_threads(self, preferences: Optimisation, shape: ProcessLayout) -> Optimisation:
        """The preferences with strictness, and the threads that each process can have."""
        openmp = self._hpc.openmp if self._hpc else None
        threads = shape.threads if preferences.threads or (openmp and openmp.number_of_threads) else None
        return preferences.model_copy(update={"threads": threads, "strict": self._notes.strict})

    # --- what the scheduler is asked for

    def _shape(self, target: Target) -> ProcessLayout:
        runs, training = self._job.runs, self._training
        openmp, mpi = (self._hpc.openmp, self._hpc.mpi) if self._hpc else (None, None)
        is_mpi = self._hpc is None or self._hpc.config.parallelisation == "mpi"
        distributed = training.config.distributed_training if training else None
        partition = target.partition(self._partition(target))
        try:
            shape = shape_of(
                self._job.options,
                ranks=runs.mpi_ranks,
                threads=runs.threads or (openmp.number_of_threads if openmp else None),
                parallel=bool(distributed or self._distributed) if self._kind == "ai_training" else is_mpi,
                subscription=(mpi.core_subscription if mpi else None) or 1,
                node_cores=target.cores_in(partition),
                warn=self._notes.warn,
                cannot_keep=self._notes.cannot_keep,
            )
        except ShapeProblem as refusal:
            self._notes.refuse(refusal.path, refusal.problem)
            return ProcessLayout()
        processes = shape.processes
        path = (*TRAINING, "config", "distributed_training")
        if distributed is False and processes > 1:
            self._notes.contradicts(path, f"{processes} processes are asked for", "write true, or ask for one")
        if distributed and processes == 1 and self._scale is None and self._job.application:
            hint = "process_count_per_node, node_count or mpi_ranks say how many"
            self._notes.cannot_keep(path, "one process alone trains", hint)
        return shape

    def _partition(self, target: Target) -> str | None:
        options = self._job.options
        return options.queue if target.scheduler is Scheduler.TORQUE else options.partition or options.queue

    def _walltime(self, target: Target) -> int:
        """Seconds; an hour where nothing is said, or what the partition permits."""
        limit = self._job.options.wall_time_limit
        if limit is not None:
            return limit
        partition = target.partition(self._partition(target))
        seconds = min(_HOUR, (partition.walltime if partition else None) or _HOUR)
        if self._job.application:
            words = f"no wall time is given: {seconds // 60} minutes are asked for"
            self._notes.warn(OPTIONS, words, 'wall_time_limit: "HH:MM:SS"')
        return seconds

    def _job_options(self, shape: ProcessLayout) -> JobOptions:
        """The options with the numbers that they come to; those that are left to the planner stay open."""
        options, runs = self._job.options, self._job.runs
        has_counts = bool(options.node_count or options.process_count_per_node or options.core_count)
        if self._counts_cores_only(shape):
            return options.model_copy(update={"job_name": self._name})
        numbers: dict[str, str | int | None] = {"job_name": self._name}
        if has_counts or (runs.mpi_ranks and self._kind == "ai_training"):
            numbers["node_count"], numbers["process_count_per_node"] = shape.nodes, shape.processes_per_node
            numbers["core_count_per_process"] = shape.cores
        if options.combine_stdout_stderr:
            numbers["standard_error_file"] = None  # a warning has said so
        if options.core_count:
            numbers["core_count"] = shape.processes
        return options.model_copy(update=numbers)

    def _counts_cores_only(self, shape: ProcessLayout) -> bool:
        """Whether a program asks for cores wherever they are, one to a process: Torque has words of its own for it."""
        options = self._job.options
        is_free = not options.node_count and not options.process_count_per_node
        return self._kind == "hpc" and is_free and options.core_count == shape.processes


def _with_path(line: str, path: str) -> str:
    """A shell line with a path on the target in place of ``{dataset}``; staged data is the job's own matter."""
    return re.sub(r"(?<!\$)\{dataset\}", lambda _: path, line) if path else line
