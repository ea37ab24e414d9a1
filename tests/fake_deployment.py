"""A deployment on a target whose scheduler does what a test tells it to."""

from __future__ import annotations

import io
import tarfile

from modak_ansible.schedulers.base import JobRecord, JobState, Scheduler, SchedulerSilent, SubmissionRefused
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.core.staging import Files


class FakeScheduler(Scheduler):
    """A scheduler that does what a test tells it to."""

    name = "fake"
    title = "Fake"

    def __init__(self):
        self.jobs = {}
        self.submitted = []
        self.trouble = None
        self.silent = False

    def submit(self, run, script, name, waits=None):
        if isinstance(self.trouble, SubmissionRefused):
            raise self.trouble
        job_id = str(len(self.submitted) + 1)
        self.submitted.append(name)
        self.jobs[job_id] = JobRecord(job_id, JobState.QUEUED, name=name)
        if self.trouble:
            raise self.trouble
        return job_id

    def find(self, run, name, folder):
        if self.silent:
            raise SchedulerSilent("hush")
        return [job.job_id for job in self.jobs.values() if job.name == name]

    def status(self, run, job_id):
        if self.silent:
            raise SchedulerSilent("hush")
        return self.jobs.get(job_id)

    def statuses(self, run, job_ids):
        return {job_id: record for job_id in job_ids if (record := self.status(run, job_id))}

    def cancel(self, run, job_id):
        self.jobs[job_id] = JobRecord(job_id, JobState.CANCELLED)


def plan_of(code):
    file = {"path": "train.py", "sha256": sha256_of(code), "size": code.stat().st_size, "executable": False}
    return {"application": {"files": [file]}, "job": {"script": "#!/bin/bash\necho hello\n"}}


def files_of(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name if name.startswith(("/", "runtime/")) else f"code/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return Files(buffer.getvalue())


def script_of(code):
    """A script alone, as a controller sends it."""
    return files_of(**{"train.py": code.read_bytes()})
