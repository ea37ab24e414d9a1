"""A search carried out: its trials are deployed as any training is, watched together, and pruned."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from modak_ansible.deployment.comparison import run_of
from modak_ansible.deployment.fetching import fetch_results
from modak_ansible.deployment.job_control import act
from modak_ansible.deployment.playbook import Enough, Listener
from modak_ansible.deployment.run import Deployed, deploy
from modak_ansible.deployment.searches.search_store import FOLDER as SEARCHES
from modak_ansible.deployment.searches.search_store import Best, SearchState, SearchStore
from modak_ansible.deployment.searches.study import (
    TRIAL_DEPLOYMENT,
    TRIAL_PRUNED,
    TRIAL_TRAINING,
    Study,
    Trial,
    behind_median,
)
from modak_ansible.deployment.status import StatusEntry, may_live
from modak_ansible.deployment.status_query import ask_targets
from modak_ansible.errors import JobFailed, ModakError, TargetUnreachable, TimeIsOver, UsageError, nearest
from modak_ansible.planning.service import Planned, plan_trials, planned_from_file
from modak_ansible.store.deployment import FOLDER, DeploymentStore
from modak_ansible.store.deployments import known_deployments
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.jobs.situation import LIVING
from modak_ansible.target.metrics.curves import Curve

_EVERY = 2.0  # seconds between two looks at the trials that run, less often while nothing changes


def deploy_all(
    planned: Sequence[Planned],
    *,
    wait: bool = True,
    deadline: float | None = None,
    listener: Listener | None = None,
) -> Deployed:
    """As :func:`modak_ansible.deployment.run.deploy`, also of searches, which follow all others one by one.

    Raises:
        UsageError: nobody stays to choose a search's trials.
        JobFailed: no trial of a search came to a value.
    """
    searches, trainings = (
        [training for training in planned if training.search],
        [training for training in planned if not training.search],
    )
    if searches and not wait:
        hint = "leave --detach out; after Ctrl-C the same command continues the search"
        raise UsageError(
            f"{searches[0].node} is a search: its trials are chosen one after another while the command runs", hint=hint
        )
    deployed = deploy(trainings, deadline=deadline, listener=listener, wait=wait) if trainings else Deployed(0, ())
    changed, stores = deployed.changed, deployed.stores
    for search in searches:
        trials, is_changed = carry_out_search(search, deadline=deadline, listener=listener)
        changed, stores = changed + is_changed, (*stores, *trials)
    return Deployed(changed, stores)


def carry_out_search(
    planned: Planned, *, deadline: float | None = None, listener: Listener | None = None
) -> tuple[tuple[DeploymentStore, ...], bool]:
    """Has all trials of a search run; what was done before is not done again, wherever that was broken off.

    Args:
        planned: a training with a search.
        deadline: when it is to end, by time.monotonic(); None for when all have ended.
        listener: is told about the progress.

    Returns:
        What this machine keeps of each trial, in their order, and whether anything had to be done.

    Raises:
        JobFailed: no trial came to a value.
        TimeIsOver: the deadline came first; what runs on the target goes on.
        ModakError: a stage failed; run again, it goes on.
    """
    with _store_of(planned) as store:
        return _Searching(planned, store, deadline, listener).run()


def trials_of(planned: Planned) -> list[DeploymentStore]:
    """What this machine keeps of a search's trials."""
    name = _store_of(planned).folder.name
    return [
        deployment
        for deployment in known_deployments(planned.state)
        if deployment.record.get("trial", {}).get("search") == name
    ]


def _store_of(planned: Planned) -> SearchStore:
    return SearchStore(planned.state / SEARCHES / f"{planned.plan.name}-{planned.node}-{planned.study}")


class _Searching:
    def __init__(self, planned: Planned, store: SearchStore, deadline: float | None, listener: Listener | None) -> None:
        assert planned.search is not None  # noqa: S101 - for mypy: whoever calls has looked
        self._planned, self._search, self._store = planned, planned.search, store
        self._deadline, self._listener, self._quiet = deadline, listener, listener
        self._study = Study(planned.search, store.journal)
        if self._was_undeployed():
            store.begin_anew()
            self._study = Study(planned.search, store.journal)
        self._curves: dict[str, Curve | None] = {}
        self._gone: set[int] = set()  # trials whose folders on the target are
        self._cancelled: set[int] = set()

    def _was_undeployed(self) -> bool:
        """Whether nothing of it is there any more: as any training, it is then begun anew."""
        stores = [self._deployment(trial) for trial in self._study.trials if trial.deployment]
        return bool(stores) and all(store.record_now().get("undeployed") or not store.is_there for store in stores)

    def _deployment(self, trial: Trial) -> DeploymentStore:
        return DeploymentStore(self._planned.state / FOLDER / trial.deployment)

    @property
    def _running(self) -> list[Trial]:
        return [trial for trial in self._study.trials if not trial.is_over]

    @property
    def _over(self) -> int:
        return sum(trial.is_over for trial in self._study.trials)

    def run(self) -> tuple[tuple[DeploymentStore, ...], bool]:
        over = self._over
        self._take_up()
        while True:
            self._begin()
            self._note()
            if not self._running:
                break
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise TimeIsOver("the time limit is over")
            self._cancel()
            self._watch()
            self._end()
        trials = self._study.trials
        if self._study.best is None:
            why = [trial.why for trial in trials if trial.why]
            raise JobFailed(
                f"no trial of {self._planned.node} produced a value of {self._search.objective}",
                hint=why[-1] if why else "",
            )
        names = dict.fromkeys(trial.deployment for trial in trials if trial.deployment)
        stores = tuple(DeploymentStore(self._planned.state / FOLDER / name) for name in names)
        return stores, self._over > over

    def _say(self, text: str) -> None:
        if self._listener:
            self._listener.progress("job", text)

    def _note(self) -> None:
        best, search = self._study.best, self._search
        self._store.note(
            SearchState(
                training=self._planned.node,
                trials=search.trials,
                objective=search.objective,
                rising=search.rising,
                state="running",
                states=self._study.states(),
                running=[trial.deployment for trial in self._running],
                best=Best(training=best.training, deployment=best.deployment, value=best.value or 0.0)
                if best
                else None,
            )
        )

    # --- what is submitted

    def _take_up(self) -> None:
        """Has trials that were begun go on, as far as their targets know them; what they do not know is submitted."""
        trials = self._running
        if not trials:
            return
        self._say(f"{len(trials)} of {len(self._study.trials)} trials had not ended; continuing with them")
        entries = [StatusEntry(self._deployment(trial)) for trial in trials]
        self._ask([entry for entry in entries if entry.store.is_there and may_live(entry.store)])
        unsubmitted: list[Planned] = []
        for trial in trials:
            store = self._deployment(trial)
            if store.job.get("job_id") or store.record_now().get("undeployed"):
                continue
            if store.plan_file.exists():
                unsubmitted.append(planned_from_file(store.plan_file))
            else:
                unsubmitted += plan_trials(self._planned, [trial.point])
                self._study.keep(trial, TRIAL_DEPLOYMENT, unsubmitted[-1].plan.deployment)
        self._submit(unsubmitted)

    def _begin(self) -> None:
        """Submits as many more as may run at once."""
        new = []
        while len(self._running) < (self._planned.parallel or 1) and len(self._study.trials) < self._search.trials:
            chosen = self._choose()
            if chosen:
                new.append(chosen)
        if new:
            self._note()
        self._submit(new)

    def _choose(self) -> Planned | None:
        """Another trial; None where nothing is to be submitted for it."""
        trial = self._study.ask()
        point = ", ".join(f"{name}={value}" for name, value in trial.point.items())
        try:
            (planned,) = plan_trials(self._planned, [trial.point])
        except ModakError as error:
            self._study.keep(trial, TRIAL_TRAINING, point)
            self._fail(trial, str(error))
            return None
        twin = self._twin_of(planned.plan.deployment)
        # noted before it is submitted: whoever goes on after a kill asks the target for it by this name
        self._study.keep(trial, TRIAL_DEPLOYMENT, planned.plan.deployment)
        self._study.keep(trial, TRIAL_TRAINING, planned.plan.training)
        self._say(f"trial {trial.number}: {point}{f', as trial {twin.number}' if twin else ''}")
        if twin is None:
            return planned
        if twin.is_over:
            self._study.tell(trial, twin.state, twin.value, twin.why)
        return None

    def _twin_of(self, deployment: str) -> Trial | None:
        """An earlier trial with the same values: of few choices some come again."""
        return next((trial for trial in self._study.trials if trial.deployment == deployment), None)

    def _submit(self, planned: Sequence[Planned]) -> None:
        if not planned:
            return
        for training in planned:
            DeploymentRecord(training.save()).update(trial={"search": self._store.folder.name, "pruned": ""})
        for part in [planned] if planned[0].plan.target.scheduler.keeps_order else [[training] for training in planned]:
            deploy(part, wait=False, deadline=self._deadline, listener=self._quiet)
        self._quiet = None  # how the first was built and staged is told; the others find it done

    # --- what runs

    def _ask(self, entries: Sequence[StatusEntry], every: float = 0.0, heard: Any = None) -> None:
        """
        Raises:
            TargetUnreachable: the target does not answer.
        """
        if entries:
            ask_targets(entries, every, heard)
        problem = next((entry.problem for entry in entries if entry.problem), "")
        if problem:
            raise TargetUnreachable(problem, hint="the trials continue; the same command picks them up again")

    def _watch(self) -> None:
        """Looks at what runs until something has ended or falls behind."""
        trials = self._running
        entries = {trial.number: StatusEntry(self._deployment(trial)) for trial in trials}

        def heard() -> None:
            late = self._deadline is not None and time.monotonic() > self._deadline
            ended = False
            for trial in self._running:
                entry = entries[trial.number]
                if entry.answer and entry.answer["situation"]["state"] not in LIVING:
                    ended = True
                    self._gone |= set() if entry.answer["there"] else {trial.number}
                elif entry.answer and not entry.problem:
                    ended = self._report(trial, entry.answer["progress"]) or ended
            if ended or late:
                raise Enough

        try:
            self._ask(list(entries.values()), _EVERY, heard)
        except Enough:
            return

    def _cancel(self) -> None:
        """Cancels what has fallen behind, also where whoever saw that was killed before."""
        behind = [trial for trial in self._running if trial.pruned and trial.number not in self._cancelled]
        if behind:
            act([self._deployment(trial) for trial in behind], "cancelled")
        self._cancelled |= {trial.number for trial in behind}

    def _report(self, trial: Trial, progress: Mapping[str, Any]) -> bool:
        """Takes what a trial has come to; tells whether it is to be cancelled for that."""
        value = {**progress, **(progress.get("numbers") or {})}.get(self._search.objective)
        curves = [curve for trial in self._study.trials if trial.is_over and (curve := self._curve(trial))]
        if not curves:  # what the others' places are, steps or epochs, is known once one has ended
            return False
        by = curves[0].by
        place = progress.get(by)
        if value is None or place is None or trial.pruned:
            return False
        self._study.report(trial, int(place), float(value))
        if self._search.prune == "none":
            return False
        own_values = {**trial.reported, int(place): float(value)}
        median = behind_median(own_values, [curve.points for curve in curves], rising=self._search.rising)
        if median is None:
            return False
        why = f"{self._search.objective} {value:.4g} at {by} {place:g}, where half of the others had {median:.4g}"
        self._study.keep(trial, TRIAL_PRUNED, why)
        DeploymentRecord(self._deployment(trial).folder).update(
            trial={"search": self._store.folder.name, "pruned": why}
        )
        return True

    def _curve(self, trial: Trial) -> Curve | None:
        """What a trial that has ended came to on its way."""
        if trial.training not in self._curves:
            has_results = trial.deployment and self._deployment(trial).results.is_dir()
            self._curves[trial.training] = (
                run_of(self._deployment(trial)).curve(self._search.objective) if has_results else None
            )
        return self._curves[trial.training]

    # --- what has ended

    def _end(self) -> None:
        """Takes over what has ended, with its results."""
        ended = [trial for trial in self._running if trial.number in self._gone or self._deployment(trial).has_ended]
        stores = [self._deployment(trial) for trial in ended if trial.number not in self._gone]
        deployed_stores = [store for store in stores if not store.record_now().get("undeployed")]
        if deployed_stores:
            fetch_results(*deployed_stores)
        for trial in ended:
            self._judge(trial)

    def _judge(self, trial: Trial) -> None:
        store, search = self._deployment(trial), self._search
        job = store.job
        state = job.get("state", "NONE")
        if trial.number in self._gone:
            self._fail(trial, "its folder on the target is gone")
            return
        if trial.pruned and state == "CANCELLED":
            self._study.tell(trial, "pruned")
            self._say(f"trial {trial.number} is pruned: {trial.pruned}")
            return
        if store.record_now().get("undeployed") or state != "COMPLETED":
            self._fail(trial, job.get("explanation") or state.lower())
            return
        run = run_of(store)
        best = run.best(search.objective, rising=search.rising)
        if best is None:
            names = sorted({*run.curves.by_name, *run.numbers})
            available = f"it has {', '.join(names[:8])}" if names else "it has written no numbers"
            near = nearest(search.objective, names) if names else ""
            self._fail(
                trial, f"no {search.objective} that is a number: {near if near.startswith('did') else available}"
            )
            return
        before = self._study.best
        self._study.tell(trial, "complete", best[1])
        is_best = self._study.best is not None and (before is None or self._study.best.number != before.number)
        self._say(f"trial {trial.number}: {search.objective} {best[1]:.4g}{', the best so far' if is_best else ''}")

    def _fail(self, trial: Trial, why: str) -> None:
        self._study.tell(trial, "fail", why=why)
        self._say(f"trial {trial.number} failed: {why}")
