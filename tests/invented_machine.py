"""SYNTHETIC trainings whose truth is known: nothing here was measured."""

from __future__ import annotations

import math
import random

from synthetic_records import PROCESSOR, measured, record, training

from modak_ansible.model.measured.work import Work

ENTRY = "pytorch-2.13-cpu"
PEAK = 100.0
SWITCHES = {"allocator": "tcmalloc", "memory_format": "channels_last", "precision": "bf16", "matmul": "onednn"}
WORKS = {
    name: Work(workload=name, gflop_per_sample=gflop, parameters=parameters)
    for name, gflop, parameters in (("small", 0.01, 10_000), ("middle", 0.1, 1_000_000), ("large", 2.0, 20_000_000))
}


class Truth:
    """What the invented machine does: logarithms of factors on a step's seconds."""

    def __init__(self, seed: int, *, rounds: float = 0.05, noise: float = 0.04, of_workload: float = 0.05) -> None:
        self.random = random.Random(seed)
        self.base = 0.8
        self.workload = {name: self.random.gauss(0, 0.3) for name in WORKS}
        self.switch = {name: self.random.gauss(0, 0.3) for name in SWITCHES}
        self.of_workload = {(name, work): self.random.gauss(0, of_workload) for name in SWITCHES for work in WORKS}
        self.spread_of_rounds, self.noise = rounds, noise

    def effect(self, workload: str, settings) -> float:
        return sum(self.switch[name] + self.of_workload[name, workload] for name in settings)

    def records(self, count: int = 3, works=tuple(WORKS), sets=None):
        """The peak, and every set of switches in every workload, in so many rounds."""
        found = [
            measured(ENTRY, "sgemm", "GFLOP/s", [PEAK], precision="fp32", threads=2),
            measured("measuring-tools", "triad", "GB/s", [20.0], threads=2),
        ]
        for workload in works:
            for number in range(1, count + 1):
                slow = self.random.gauss(0, self.spread_of_rounds)
                for settings in sets or self.sets():
                    found.append(self.run(workload, settings, number, slow + self.random.gauss(0, self.noise)))
        return found

    def sets(self):
        names = list(SWITCHES)
        singles = [{}, *({name: SWITCHES[name]} for name in names)]
        return [*singles, {name: SWITCHES[name] for name in names[:2]}]

    def run(self, workload, settings, number, disturbed):
        work = WORKS[workload]
        seconds_of_sample = (
            work.gflop_per_sample
            / PEAK
            * math.exp(self.base + self.workload[workload] + self.effect(workload, settings) + disturbed)
        )
        result = training(1 / seconds_of_sample, training_images=1280, parameters=work.parameters)
        for epoch in result["epochs"]:
            epoch["evaluation_seconds"] = 500 * seconds_of_sample
        return record(ENTRY, workload, workload=workload, settings=settings, round=number, training=result)


PLACE = {
    "processor": PROCESSOR,
    "architecture": "zen5",
    "threads": 2,
    "entry": ENTRY,
    "framework": "pytorch",
    "version": "2.13.0",
}
