"""The optimisation section of a request as users write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from modak_ansible.model.dataset import FORMATS, PACKS, PROPERTIES, Kind
from modak_ansible.model.distributed import Strategy
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import CANNOT_BE_DONE, NOT_PLANNED, FieldProblem, Form, refused, text
from modak_ansible.reading.blueprint.job_options import Count, Size

_Version = Annotated[str, text(rules.version_problem, "version")]
_Share = Annotated[float, Field(gt=0, le=1)]
_Location = Annotated[str, text(rules.value_problem)]
_SizeOrBytes = Annotated[int, Field(ge=1, le=10**18)] | Size
_Buffer = bool | Annotated[int, Field(ge=0, le=10**9)]
_OWN_READING = "a program reads its data by itself, and nothing is chosen by it"
_UNKEPT_READING = "Not used: a program reads its data by itself, and no choice depends on it."
_NO_MESSAGES = "nothing was measured of messages of several lengths, and nothing is chosen by it"
_NO_COMPILER = "the compiler is the one that build.build_command calls"
_NO_TUNER = "no external tuner is run"
_OWN_TUNER = "leave the section out: enable_autotuning: true tunes with MODAK's own"


def lines(value: Any) -> Any:
    """Shell lines: a list of them, or one text, of which a backslash at the end of a line joins it to the next."""
    texts = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(text, str) for text in texts):
        return value
    shell_lines = [line.rstrip() for text in texts for line in text.replace("\\\n", " ").splitlines()]
    for line in shell_lines:
        problem = rules.line_problem(line)
        if problem:
            raise FieldProblem("unsafe-value", problem)
    return tuple(line for line in shell_lines if line.strip())


def _word_of(rule: str, word: str, reason: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value == word:
            raise FieldProblem(rule, reason)
        return value

    return BeforeValidator(check)


class OptBuildForm(Form):
    """The processor and the accelerator that the image is for."""

    cpu_type: Literal["x86", "arm", "amd", "power", "none"] | None = Field(
        None, description="The processor; it must be the target's. none leaves it to the target."
    )
    acc_type: (
        Annotated[
            Literal["nvidia", "amd", "fpga", "none"],
            _word_of(CANNOT_BE_DONE, "fpga", "the catalogue has no build for FPGAs"),
        ]
        | None
    ) = Field(None, description="The accelerator; request_gpus says how many. none rules accelerators out.")


class AutotuningForm(Form):
    """An external tuner."""

    tuner: refused(_NO_TUNER, _OWN_TUNER) = Field(None, description="Not used: no external tuner is run.")  # type: ignore[valid-type]
    input: refused(_NO_TUNER, _OWN_TUNER) = Field(None, description="Not used: it belongs to an external tuner.")  # type: ignore[valid-type]


class EtlForm(Form):
    """How samples reach the training."""

    prefetch: _Buffer | None = Field(None, description="Whether a process of its own reads samples ahead.")
    cache: _Buffer | None = Field(None, description="Whether samples stay in memory after the first epoch.")


# --- a dataset, whose properties are those of a blueprint's


def _addresses(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _checksums(value: dict[str, str]) -> dict[str, str]:
    for name, digest in value.items():
        problem = rules.value_problem(name) or rules.checksum_problem(digest)
        if problem:
            raise FieldProblem("checksum", f"{rules.quote(name)}: {problem}")
    return {name: digest.removeprefix("sha256:").lower() for name, digest in value.items()}


# Each kind of property as it is written, and read; without Any, mypy takes them for types.
_READ: dict[Kind, Any] = {
    "name": Annotated[str, text(rules.name_problem)],
    "format": Literal[FORMATS],
    "pack": Literal[PACKS],
    "addresses": Annotated[
        tuple[Annotated[str, text(rules.value_problem)], ...],
        BeforeValidator(_addresses, json_schema_input_type=str | list[str]),
    ],
    "path": Annotated[str, text(rules.path_problem)],
    "mount": Annotated[str, text(rules.value_problem)],
    "truth": bool,
    "checksums": Annotated[dict[str, str], AfterValidator(_checksums)],
    "size": Annotated[int, Field(ge=1, le=10**18)] | Size,
}
_FIELDS: dict[str, Any] = {
    name: (_READ[spec.kind] | None, Field(None, description=spec.meaning)) for name, spec in PROPERTIES.items()
}
DatasetForm = create_model("DatasetForm", __base__=Form, __doc__="What a training reads.", **_FIELDS)


class DataForm(DatasetForm):  # type: ignore[valid-type, misc]
    """The data."""

    location: _Location | None = Field(
        None, description="The only source; or a path on the target, if it is absolute and not on this machine."
    )
    basedata: Literal["Imagenet", "CIFAR", "MNIST"] | None = Field(
        None, description="The dataset; without a location, MNIST is downloaded from where it is published."
    )
    size: _SizeOrBytes | None = Field(None, description="Of all samples: bytes, or a size with its unit.")
    count: Count | None = Field(None, description="Samples.")
    etl: EtlForm | None = Field(None, description="The input pipeline.")


class HpcDataForm(Form):
    """The data of a program."""

    location: _Location | None = Field(None, description="A file below the request's folder, or a path on the target.")
    basedata: refused(_OWN_READING, words=("image", "restart", "checkpoint")) = Field(None, description=_UNKEPT_READING)  # type: ignore[valid-type]
    size: refused(_OWN_READING) = Field(None, description=_UNKEPT_READING)  # type: ignore[valid-type]
    count: refused(_OWN_READING) = Field(None, description=_UNKEPT_READING)  # type: ignore[valid-type]
    etl: refused(_OWN_READING) = Field(None, description=_UNKEPT_READING)  # type: ignore[valid-type]


class DistributedForm(Form):
    """How one training runs in several processes: docs/many-nodes.md."""

    strategy: Strategy = Field(
        "auto",
        description="ddp, fsdp, tensor and pipeline by modak_runtime.prepare, mpi, none for unrelated processes; "
        "auto: by its source.",
    )
    degree: Annotated[int, Field(ge=2, le=10**6)] | None = Field(
        None, description="Of tensor, pipeline or fsdp: processes with one copy of the model; others are data parallel."
    )
    interface: Annotated[str, text(rules.interface_problem)] = Field(
        "", description="The network interface of the nodes for their communication."
    )
    timeout: Count = Field(300, description="Seconds that a process waits for the others.")


class TrainingConfigForm(Form):
    """What is trained, with what."""

    ai_framework: Literal["tensorflow", "pytorch", "keras", "jax", "mxnet", "cntk", "python"] = Field(
        description="The framework; python for a script of any other kind, such as scikit-learn's."
    )
    type: (
        Literal["image_classification", "object_detection", "translation", "recommendation", "reinforcement_learning"]
        | None
    ) = Field(None, description="The kind of task, for the performance model.")
    distributed_training: bool | None = Field(None, description="Whether each process is part of one training.")
    distributed: DistributedForm | None = Field(None, description="How its processes form one training.")
    layers: Count | None = Field(None, description="Of the network, for the performance model.")
    parameters: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        None, description="Trainable ones, for the performance model."
    )


class TensorflowForm(Form):
    """TensorFlow."""

    version: _Version | None = Field(None, description='A version such as "2.1" or a range such as ">=2.10,<3".')
    # preferences of tensorflow; make generate
    xla: bool | None = Field(None, description="Whether the graph compiler XLA is used.")
    ngraph: bool | None = Field(None, description="Whether nGraph is used.")
    # /preferences of tensorflow


class PytorchForm(Form):
    """PyTorch."""

    version: _Version | None = Field(None, description='A version such as "2.13" or a range such as ">=2,<3".')
    # preferences of pytorch; make generate
    inductor: bool | None = Field(None, description="Whether torch.compile is used.")
    glow: bool | None = Field(None, description="Whether GLOW is used.")
    xla: bool | None = Field(None, description="Whether XLA is used, which no build of the catalogue has.")
    # /preferences of pytorch


class KerasForm(Form):
    """Keras."""

    version: _Version | None = Field(None, description="A version or a range.")
    backend: Literal["tensorflow", "pytorch", "jax", "cntk", "mxnet"] | None = Field(
        None, description="What computes; the catalogue has builds for tensorflow, pytorch and jax."
    )


class OtherFrameworkForm(Form):
    """JAX, MXNet, CNTK or plain Python."""

    version: _Version | None = Field(None, description="A version or a range.")


class TrainingForm(Form):
    """A training."""

    config: TrainingConfigForm = Field(description="What is trained.")
    data: DataForm | None = Field(None, description="On what data.")
    more_data: dict[str, DataForm] | None = Field(None, description="Further datasets by name, each like data.")
    tensorflow: TensorflowForm | None = Field(None, alias="ai_framework-tensorflow", description="TensorFlow.")
    pytorch: PytorchForm | None = Field(None, alias="ai_framework-pytorch", description="PyTorch.")
    keras: KerasForm | None = Field(None, alias="ai_framework-keras", description="Keras.")
    jax: OtherFrameworkForm | None = Field(None, alias="ai_framework-jax", description="JAX.")
    mxnet: OtherFrameworkForm | None = Field(None, alias="ai_framework-mxnet", description="MXNet.")
    cntk: OtherFrameworkForm | None = Field(None, alias="ai_framework-cntk", description="CNTK.")
    python: OtherFrameworkForm | None = Field(None, alias="ai_framework-python", description="Plain Python.")


class HpcConfigForm(Form):
    """How a program is parallel."""

    parallelisation: Literal["mpi", "openmp", "openacc", "opencl"] = Field(description="How it is parallel.")


class MpiForm(Form):
    """MPI."""

    library: Literal["mpich", "openmpi", "mvapich"] | None = Field(None, description="The library it is linked with.")
    version: _Version | None = Field(None, description="The library's version, which the catalogue's must match.")
    scaling_efficiency: _Share | None = Field(
        None, description="Parallel efficiency observed with these processes, for the scaler; over 0 up to 1."
    )
    core_subscription: Annotated[int, Field(ge=1, le=64)] | None = Field(None, description="Ranks that share a core.")
    message_size: refused(_NO_MESSAGES, words=("small", "medium", "large")) = Field(  # type: ignore[valid-type]
        None, description="Not used: nothing was measured for messages of different lengths."
    )


class OpenmpForm(Form):
    """OpenMP."""

    number_of_threads: Count | None = Field(None, description="Of each process; the same as application.threads.")
    scaling_efficiency: _Share | None = Field(
        None, description="Parallel efficiency observed with these processes, for the scaler; over 0 up to 1."
    )
    affinity: Literal["none", "close", "spread", "primary"] | None = Field(None, description="Where threads stay.")


class AcceleratorForm(Form):
    """OpenACC or OpenCL."""

    compiler: refused(_NO_COMPILER, words=("pgi", "cray", "gnu", "gcc", "nvhpc")) = Field(  # type: ignore[valid-type]
        None, description="Not used: the compiler is the one that build.build_command calls."
    )
    version: refused(_NO_COMPILER) = Field(  # type: ignore[valid-type]
        None, description="Not used: the compiler is the one that build.build_command calls."
    )
    number_of_acc: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="Accelerators per node; the same as request_gpus."
    )


class HpcForm(Form):
    """A program that is no training."""

    config: HpcConfigForm = Field(description="How it is parallel.")
    data: HpcDataForm | None = Field(None, description="On what data.")
    mpi: MpiForm | None = Field(None, alias="parallelisation-mpi", description="MPI.")
    openmp: OpenmpForm | None = Field(None, alias="parallelisation-openmp", description="OpenMP.")
    openacc: AcceleratorForm | None = Field(None, alias="parallelisation-openacc", description="OpenACC.")
    opencl: AcceleratorForm | None = Field(None, alias="parallelisation-opencl", description="OpenCL.")


class AppBuildForm(Form):
    """What is known of an application that has no section of its own."""

    version: _Version | None = Field(None, description="A version or a range.")


class NothingForm(Form):
    """A section that has no fields."""


class OptimisationForm(Form):
    """How it may be made faster."""

    enable_opt_build: bool | None = Field(None, description="true: a build for the target; false: the stock one.")
    enable_autotuning: bool | None = Field(None, description="Whether to try candidates for a few steps first.")
    app_type: (
        Annotated[
            Literal["ai_training", "hpc", "ai_inference", "big_data"],
            _word_of(NOT_PLANNED, "ai_inference", "inference is not planned, only trainings and programs"),
            _word_of(NOT_PLANNED, "big_data", "big data is not planned, only trainings and programs"),
        ]
        | None
    ) = Field(None, description="Which of the sections below applies; by default the one that is present.")
    opt_build: OptBuildForm | None = Field(None, description="What the image is for.")
    app_name: Annotated[str, text(rules.name_problem)] | None = Field(
        None, description="Instead of a section: its MPI library, such as openmpi, or its framework."
    )
    app_build: AppBuildForm | None = Field(None, description="Of app_name.")
    autotuning: AutotuningForm | None = Field(None, description="An external tuner.")
    ai_training: TrainingForm | None = Field(None, alias="app_type-ai_training", description="A training.")
    hpc: HpcForm | None = Field(None, alias="app_type-hpc", description="A program.")
    ai_inference: NothingForm | None = Field(None, alias="app_type-ai_inference", description="Holds nothing.")
    big_data: NothingForm | None = Field(None, alias="app_type-big_data", description="Holds nothing.")
    strict: bool | None = Field(None, description="The same as strict of the job.")
