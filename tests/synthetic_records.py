"""SYNTHETIC records: invented numbers for tests of the report alone. Nothing here was measured."""

from __future__ import annotations

from typing import Any

from modak_ansible.model.measured.record import Measure, Record

PROCESSOR = "Synthetic Processor 9000"
ENTRIES = {
    "tensorflow-1.14-pip": ("tensorflow", "1.14.0", "pip"),
    "tensorflow-2.1-pip": ("tensorflow", "2.1.0", "pip"),
    "pytorch-1.4-pip": ("pytorch", "1.4.0", "pip"),
    "mxnet-1.6-pip": ("mxnet", "1.6.0", "pip"),
    "cntk-2.7-pip": ("cntk", "2.7", "pip"),
    "tensorflow-1.14-ngraph-pip": ("tensorflow", "1.14.0", "pip"),
    "pytorch-2.13-cpu": ("pytorch", "2.13.0", "pip"),
    "pytorch-2.13-cpu-opt": ("pytorch", "2.13.0", "opt-build"),
    "pytorch-2.13-cuda": ("pytorch", "2.13.0", "pip"),
    "tensorflow-2.21-cpu": ("tensorflow", "2.21.0", "pip"),
    "measuring-tools": ("native", "14", "pip"),
    "openmpi-mpi4py": ("mpi", "5.0", "pip"),
}
LOSSES = (2.30411, 2.25013, 2.19542, 2.10125, 2.02291)


def record(entry: str, group: str = "stock-images", **changes: Any) -> Record:
    """A record of an entry; what is not given is invented."""
    framework, version, origin = ENTRIES.get(entry, ("pytorch", "2.13.0", "pip"))
    settings = changes.pop("settings", {})
    number = changes.get("round", 1)
    image = {"digest": "0" * 64, "definition_digest": "1" * 64, "base": "debian-trixie"}
    values: dict[str, Any] = {
        "date": f"2026-11-2{number % 10}T10:00:00Z",
        "suite": "synthetic",
        "suite_digest": "2" * 64,
        "group": group,
        "variant": " ".join([entry, *settings.values()]),
        "round": 1,
        "position": 1,
        "outcome": "measured",
        "workload": "mnist_cnn",
        "entry": entry,
        "framework": framework,
        "version": version,
        "origin": origin,
        "settings": settings,
        "image": {**image, "container": settings.get("container") != "native"},
        "target": {
            "name": "synthetic-cluster",
            "scheduler": "slurm",
            "hostname": "node1",
            "processor": PROCESSOR,
            "architecture": "zen5",
            "cores": 2,
            "accelerator": "",
        },
        "allocation": {"nodes": 1, "threads": 2},
        "load": {"foreign_cores": 0.02 * number, "load_average": 0.1},
    }
    return Record.model_validate({**values, **changes})


def training(speed: float, epochs: int = 3, **changes: Any) -> dict[str, Any]:
    """What a training at so many images per second would have written."""
    images = changes.get("training_images", 10_000)
    several = [
        {
            "epoch": number,
            "seconds": images / speed + (2.0 if number == 1 else 0.0),
            "images_per_second": speed,
            "evaluation_seconds": 0.5,
            "training_loss": 0.3 / number,
            "test_loss": 0.1,
            "test_accuracy": 0.98,
        }
        for number in range(1, epochs + 1)
    ]
    seconds = {"import": 1.4, "load_data": 0.2, "to_first_step": 1.9, "first_step": 0.4, "compile": 0.0, "total": 20.0}
    values = {
        "parameters": 1_199_882,
        "dataset": "mnist",
        "training_images": images,
        "test_images": 2_000,
        "batch_size": 128,
        "seed": 1,
        "learning_rate": 1.0,
        "dropout": 1.0,
        "epochs": several,
        "first_losses": LOSSES,
        "seconds": seconds,
        "peak_memory_bytes": 700_000_000,
    }
    return {**values, **changes}


def rounds(entry: str, speed: float, group: str, position: int = 1, count: int = 5, **changes: Any) -> list[Record]:
    """Some rounds of a training, each a little faster or slower than the others."""
    trained = changes.pop("trained", {})
    wobble = (1.0, 0.97, 1.02, 0.99, 1.04)
    return [
        record(
            entry,
            group,
            round=number,
            position=position,
            training=training(speed * wobble[(number + position) % 5], **trained),
            **changes,
        )
        for number in range(1, count + 1)
    ]


def measured(entry: str, name: str, unit: str, samples: list[float], **about: str | int | float) -> Record:
    """A record of one quantity of the infrastructure."""
    return record(
        entry,
        "infrastructure",
        workload=name,
        measures=(Measure(name=name, unit=unit, samples=tuple(samples), about=about),),
    )


def whole_table() -> list[Record]:
    """Records for every part of the page."""
    gpu = {
        "target": {**record("pytorch-2.13-cuda").target.model_dump(), "name": "gpu", "accelerator": "Synthetic GPU 1"}
    }
    imports = {"import": 1.9, "load_data": 0.2, "to_first_step": 2.4, "first_step": 0.4, "compile": 0.0, "total": 20.0}
    resnet = {
        "workload": "resnet50",
        "trained": {"parameters": 25_557_032, "training_images": 256, "batch_size": 8, "dataset": "synthetic 224x224"},
    }
    same = {"trained": {"dropout": 0.0, "epochs": 1, "gradient_error": 3.1e-6}}
    return [
        *rounds("tensorflow-1.14-pip", 900, "stock-images"),
        *rounds("tensorflow-2.1-pip", 1250, "stock-images", 2),
        *rounds("pytorch-1.4-pip", 930, "stock-images", 3),
        *rounds("mxnet-1.6-pip", 850, "stock-images", 4),
        record("cntk-2.7-pip", position=5, outcome="refused", reason="its probe: Illegal instruction <script>"),
        *rounds("pytorch-2.13-cpu", 1800, "own-builds"),
        *rounds("pytorch-2.13-cpu-opt", 2400, "own-builds", 2),
        *rounds("tensorflow-2.1-pip", 1250, "compilers-2.1"),
        *rounds("tensorflow-2.1-pip", 900, "compilers-2.1", 2, settings={"compiler": "xla"}),
        *rounds("tensorflow-1.14-pip", 880, "compilers-1.14"),
        record(
            "tensorflow-1.14-ngraph-pip",
            "compilers-1.14",
            position=2,
            outcome="refused",
            reason="its probe: stops here",
        ),
        *rounds("tensorflow-2.21-cpu", 1500, "frameworks"),
        *rounds("tensorflow-2.21-cpu", 300, "frameworks", 2, settings={"compiler": "xla"}),
        *rounds("pytorch-2.13-cpu", 1800, "frameworks", 3),
        *rounds("pytorch-2.13-cpu", 3300, "frameworks", 4, settings={"precision": "bf16"}),
        record("pytorch-2.13-cpu", "frameworks", round=2, outcome="disturbed", reason="1.2 foreign cores"),
        *rounds("pytorch-2.13-cpu", 1790, "native", settings={"container": "native"}, trained={"seconds": imports}),
        *rounds("pytorch-2.13-cpu", 1800, "native", 2),
        *rounds("pytorch-2.13-cpu", 7.0, "resnet50", **resnet),
        *rounds("pytorch-2.13-cpu", 10.9, "resnet50", 2, settings={"memory_format": "channels_last"}, **resnet),
        *rounds("pytorch-2.13-cuda", 950, "gpu-resnet50", **gpu, **resnet),
        *rounds("pytorch-2.13-cuda", 1010, "gpu-resnet50", 2, settings={"compiler": "inductor"}, **gpu, **resnet),
        *rounds("pytorch-2.13-cpu", 1800, "numerics", count=1, **same),
        *rounds(
            "tensorflow-2.21-cpu",
            1500,
            "numerics",
            2,
            count=1,
            trained={**same["trained"], "first_losses": [loss * 1.000004 for loss in LOSSES], "gradient_error": None},
        ),
        measured("pytorch-2.13-cpu", "sgemm", "GFLOP/s", [218.0, 221.0, 225.0], library="mkl", precision="fp32"),
        measured("pytorch-2.13-cpu", "sgemm", "GFLOP/s", [410.0, 431.0, 428.0], library="onednn", precision="fp32"),
        measured(
            "pytorch-2.13-cpu",
            "convolution",
            "GFLOP/s",
            [510.0, 523.0],
            memory_format="channels_last",
            precision="fp32",
        ),
        measured("measuring-tools", "triad", "GB/s", [40.1, 41.0, 39.2], threads=2),
        *(
            measured("measuring-tools", "write", "MB/s", [speed, speed * 1.1], storage=name)
            for name, speed in (("home", 300.0), ("scratch", 900.0), ("memory", 2100.0))
        ),
        *(
            measured("measuring-tools", "small_files_read", "files/s", [speed], storage=name)
            for name, speed in (("home", 5000.0), ("scratch", 22000.0))
        ),
        measured("openmpi-mpi4py", "latency", "s", [2.1e-5, 2.0e-5, 2.4e-5], bytes=8),
        measured("openmpi-mpi4py", "bandwidth", "GB/s", [3.2, 3.4], bytes=1_048_576),
        measured("pytorch-2.13-cpu", "python_start", "s", [0.03, 0.031], cache="warm"),
    ]
