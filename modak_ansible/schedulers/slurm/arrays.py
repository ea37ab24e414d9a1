"""Job arrays of Slurm, each of whose tasks is the job of a deployment with a folder of its own.

Source: the manual pages of sbatch and slurm.conf 24.11, and https://slurm.schedmd.com/job_array.html.
"""

from __future__ import annotations

import re

_DIRECTIVE = "#SBATCH "
_OUTPUT = "--output=scheduler.log"
_SCRIPT = """\
#!/bin/bash
{directives}
# Points of a sweep, written by modak: a task's number is a link to the folder of its point, whose job it is.
cd -P "$SLURM_SUBMIT_DIR/$SLURM_ARRAY_TASK_ID" || exit 1
export SLURM_SUBMIT_DIR=$PWD
exec bash job.sh "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
"""


def array_script(script: str) -> str:
    """The script of an array of jobs with the directives of a script.

    It is empty where a user's file gets their output, and of heterogeneous jobs, of which Slurm makes no arrays.
    """
    lines = [line for line in script.splitlines() if line.startswith(_DIRECTIVE)]
    words = [line[len(_DIRECTIVE) :] for line in lines]
    if _OUTPUT not in words or "hetjob" in words or any(word.startswith("--error=") for word in words):
        return ""
    return _SCRIPT.format(directives="".join(f"{line}\n" for line in lines if line[len(_DIRECTIVE) :] != _OUTPUT))


def options(count: int, parallel: int | None) -> list[str]:
    """What sbatch is told of an array: its tasks, how many run at once, and where each writes."""
    limit = f"%{parallel}" if parallel else ""
    return [f"--array=0-{count - 1}{limit}", f"--output=%a/{_OUTPUT.partition('=')[2]}"]


def limit_of(config: str) -> int:
    """How many tasks an array may have, by what scontrol shows of the configuration; 0 where there are no arrays."""
    sizes = re.findall(r"(?m)^MaxArraySize\s*=\s*(\d+)|^SchedulerParameters\s*=.*\bmax_array_tasks=(\d+)", config)
    return min((int(size or tasks) for size, tasks in sizes), default=0)


def tasks(job_id: str) -> list[str]:
    """The ids of the tasks that an id like ``12_[0-2,7%4]`` stands for; of a list that Slurm cut off those it shows."""
    array, bracket, task_list = job_id.partition("_[")
    if not bracket:
        return [job_id]
    ranges = re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", task_list.partition("%")[0])
    ranges_of_tasks = [range(int(first), int(last or first) + 1, int(step or 1)) for first, last, step in ranges]
    return [f"{array}_{number}" for task_range in ranges_of_tasks for number in task_range]
