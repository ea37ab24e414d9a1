"""How requests were written before: each spelling is read, with a warning that names the one of today."""

from __future__ import annotations

from modak_ansible.reading.blueprint.forms.reader import Older

_TRAINING = "job.optimisation.app_type-ai_training"
_HPC = "job.optimisation.app_type-hpc"

OLDER = (
    # names
    Older("", "optimization", "optimisation"),
    Older("job", "optimization", "optimisation"),
    Older("job.target", "queue_type", "job_scheduler_type"),
    Older("job.application", "pre_execution", "pre-execution"),
    Older("job.application", "post_execution", "post-execution"),
    Older("job.optimisation", "enable_opt-build", "enable_opt_build"),
    Older("job.optimisation", "arch_build", "opt_build"),
    Older(_HPC, "parallelisation-opencc", "parallelisation-openacc"),
    Older(f"{_TRAINING}.ai_framework-pytorch", "torch_compile", "inductor"),
    # values
    Older(f"{_HPC}.config", "opencc", "openacc", "parallelisation"),
    Older(f"{_HPC}.parallelisation-mpi", "mvapch", "mvapich", "library"),
    Older(f"{_HPC}.parallelisation-mpi", "opnmpi", "openmpi", "library"),
    Older(f"{_HPC}.parallelisation-openmp", "block", "close", "affinity"),
    Older(f"{_HPC}.parallelisation-openmp", "scatter", "spread", "affinity"),
    Older(f"{_HPC}.parallelisation-openmp", "master", "primary", "affinity"),
    Older(f"{_TRAINING}.config", "reinforncement_learning", "reinforcement_learning", "type"),
    Older(f"{_TRAINING}.ai_framework-keras", "torch", "pytorch", "backend"),
    Older("job.target", "pbs", "torque", "job_scheduler_type"),
)
