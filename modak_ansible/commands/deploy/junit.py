"""How deployments went, as the XML that CI servers read: a test suite a deployment, a test case a stage."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from modak_ansible.errors import JOB_FAILED
from modak_ansible.model.plan import Plan
from modak_ansible.store.record import NOT_RUN, STAGES, JobNote, RecordData
from modak_ansible.target.jobs.situation import LIVING

# What XML 1.0 has no way to hold.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(deployments: list[tuple[Plan, RecordData]], error: BaseException | None, seconds: float) -> str:
    """The report of a command.

    Args:
        error: what ended the command; None where all went well.
    """
    suites = [_suite(plan, record, error) for plan, record in deployments]
    if error is not None and not any(_count(suite, "failure") + _count(suite, "error") for suite in suites):
        suites.append(_unfinished(error))
    root = Xml.Element("testsuites", name="modak deploy", time=f"{seconds:.1f}")
    for suite in suites:
        suite.set("tests", str(len(suite.findall("testcase"))))
        for name, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(attribute, str(_count(suite, name)))
        root.append(suite)
    Xml.indent(root)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(plan: Plan, record: RecordData, error: BaseException | None) -> Xml.Element:
    stages = record.get("stages") or {}
    suite = Xml.Element("testsuite", name=plan.deployment)
    properties = Xml.SubElement(suite, "properties")
    job: JobNote = record.get("job") or {}
    facts = {
        "digest": plan.digest,
        "target": plan.target.name,
        "job_id": job.get("job_id"),
        "job_state": job.get("state"),
    }
    for name, value in facts.items():
        Xml.SubElement(properties, "property", name=name, value=_text(value or ""))
    is_over = False  # what a record says of the stages behind the one that failed is of an earlier run
    total = 0.0
    for name in STAGES:
        stage = {} if is_over else stages.get(name) or {}
        case = _case(plan, name, float(stage.get("seconds") or 0.0))
        message = str(stage.get("message") or "")
        is_over = is_over or (error is not None and stage.get("state") == "failed" and message == str(error))
        if name == STAGES[-1] and not is_over and (ended := _bad_end(job, error)):
            message = ended
            is_over = not ended.startswith(NOT_RUN)
            stage = stage if is_over else {}
        if is_over and message:
            first = message.partition("\n")[0]
            Xml.SubElement(case, "failure", message=_text(first), type=type(error).__name__).text = _text(message)
        elif not stage:
            skipped = Xml.SubElement(case, "skipped")
            if message:
                skipped.set("message", _text(message))
        else:
            Xml.SubElement(case, "system-out").text = _text(message)
        total += float(stage.get("seconds") or 0.0)
        suite.append(case)
    suite.set("time", f"{total:.2f}")
    return suite


def _bad_end(job: JobNote, error: BaseException | None) -> str:
    """How a job ended that did not complete, where that is what ended the command; empty elsewhere.

    The error of several trainings tells of all of them, and each has its own suite.
    """
    state = job.get("state", "NONE")
    if getattr(error, "exit_code", 0) != JOB_FAILED or state in ("NONE", "COMPLETED", *LIVING):
        return ""
    words = job.get("explanation") or "no reason given"
    if words.startswith(NOT_RUN):
        return words
    return "\n".join([f"job {job.get('job_id')} ended as {state}: {words}", *job.get("error_tail", ())])


def _case(plan: Plan, stage: str, seconds: float) -> Xml.Element:
    return Xml.Element("testcase", classname=_text(f"modak.{plan.training}"), name=stage, time=f"{seconds:.2f}")


def _unfinished(error: BaseException) -> Xml.Element:
    """What ended the command, where no stage did: a mistake in the blueprint, the end of its time, Ctrl-C."""
    suite = Xml.Element("testsuite", name="modak deploy")
    case = Xml.SubElement(suite, "testcase", classname="modak", name="deploy")
    words = str(error) or "interrupted"
    Xml.SubElement(case, "error", message=_text(words.partition("\n")[0]), type=type(error).__name__).text = _text(
        words
    )
    return suite


def _count(suite: Xml.Element, name: str) -> int:
    return len(suite.findall(f"testcase/{name}"))


def _text(value: object) -> str:
    return _UNSPEAKABLE.sub("\ufffd", str(value))
