"""The first view: five questions about a run, answered from the status, the columns and the sums of calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from loopty.domain.counting import CLOCK_METRIC
from loopty.domain.ids import NodeId
from loopty.domain.task import Audit, Task
from loopty.domain.trial import SEARCH_POOLS, Ending
from loopty.record.calls import Spend
from loopty.record.directives import AuditAnchors, Directive, refuted_top
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.sessions import LIMITS, pools_in_force
from loopty.record.trials import TrialCounts
from loopty.record.workers import Workers
from loopty.show.audits import AuditRow
from loopty.show.comparisons import over_parent, run_metric
from loopty.show.goodput import TrialCost, goodput_of
from loopty.show.run_status import RunState, RunStatus
from loopty.show.score_text import ScoreText
from loopty.web import run_checks
from loopty.web.answers import (
    brief_number,
    change_name,
    combination_answer,
    combining_runs,
    direction_factor,
    short_name,
    slots_answer,
    version_lead_answer,
)
from loopty.web.charts import metric_answer
from loopty.web.columns import BRANCHES, CONTROL, HELD, MARKS, OPEN
from loopty.web.record import RunFold
from loopty.web.run_checks import reality_checks, run_alerts

_MOST_STEPS = 160
_STEP_FIELDS = ("handle", "order", "at", "cost", "score", "gain_percent")
"""What the chart draws of a step; who it was is asked for when somebody points at it."""
_JUST_ENDED = 3
_WORKED = 10
_JUDGED = tuple(MARKS.index(name) for name in ("discarded", "inconclusive"))


class Overview:
    """Makes the overview of one run."""

    def __init__(
        self,
        history: History,
        fold: RunFold,
        status: RunStatus,
        task: Task | None,
        audits: Sequence[AuditRow] | None,
        now: float,
    ) -> None:
        self.history, self.fold, self.status, self.task = history, fold, status, task
        self.audits, self.now = audits, now
        self.run = history.runs[fold.run_number]
        self.metric = run_metric(history, self.run)
        self.columns = fold.columns
        self.kept = [place for place in fold.kept_places() if self.columns.is_attempt(place)]

    def answer(self, name: str, running: list[dict[str, Any]]) -> dict[str, Any]:
        status, run, task = self.status, self.run, self.task
        steps = self._steps()
        is_spending = status.state is RunState.RUNNING and not status.is_paused
        pools = run_checks.pool_answers(
            run, task.pools if task else None, status.elapsed_seconds, self.now, is_spending
        )
        has_split = task is not None and task.audit != Audit()
        held = [self._ended(place) for place in self.columns.places_with(HELD)[-3:]]
        limits = pools_in_force(run, task.pools) if task else None
        return {
            "run": run.number,
            "event": self.fold.number,
            "now": self.now,
            "state": status.word,
            "reason": status.reason,
            "task": name,
            "metric": metric_answer(self.history, self.fold),
            "started_at": run.started_at,
            "elapsed_seconds": status.elapsed_seconds,
            "directive": Directive.of(run).text,
            "criteria": run.criteria,
            "integrity": status.best.integrity if status.best else None,
            "driver": status.driver,
            "alerts": run_alerts(self.history, status, held, pools),
            "gain": self._gain(steps),
            "version_lead": version_lead_answer(self.history, run, status.versions),
            "real": reality_checks(status, self.audits, has_split),
            "uplift": status.uplift,
            "cost": self._cost(pools),
            "counts": self.fold.counts(),
            "nodes": len(self.columns),
            "since_best": status.since_best,
            "steps": [{key: step[key] for key in _STEP_FIELDS} for step in steps],
            "control_steps": self._control_steps(),
            "now_running": running,
            "slots": slots_answer(status, task.width if task else None),
            "just_ended": self._just_ended(),
            "worked": self._worked(steps),
            "goodput": self._goodput(),
            "tuning": status.tuning,
            "combines": combination_answer(self.history, status.combines),
            "combined_by": combining_runs(self.history, run.number),
            "phase": status.phase,
            "budget": {key: getattr(limits, key) for key in LIMITS} if limits else {},
        }

    def _steps(self) -> list[dict[str, Any]]:
        places = self.kept[-_MOST_STEPS:]
        ids = self.columns.ids(self.history, places)
        rows = []
        for place in places:
            score = self.columns.score(place)
            if score is None or place not in ids:
                continue
            node = self.history[ids[place]]
            if AuditAnchors.of(self.run).steers and refuted_top(self.run, node.id):
                continue
            above = over_parent(self.history, node)
            rows.append(
                {
                    "order": place + 1,
                    "at": round(node.added_at, 2),
                    "cost": self.fold.calls.cost_at(node.added_at),
                    "handle": node.handle,
                    "node": self._name(node),
                    "score": score,
                    "gain_percent": brief_number(above.change.percent if above else None),
                    "operator": node.operator,
                }
            )
        return rows

    def _name(self, node: Node) -> dict[str, Any]:
        return short_name({"id": node.id, "handle": node.handle, "summary": change_name(self.history, node)})

    def _control_steps(self) -> list[dict[str, Any]]:
        sign, best, rows = self.metric.direction.sign, -math.inf, []
        for place in self.columns.places_with(CONTROL):
            score = self.columns.scores[place]
            if sign * score > best:
                best, at = sign * score, self.columns.times[place]
                rows.append({"order": place + 1, "at": at, "cost": self.fold.calls.cost_at(at), "score": score})
        return rows[-_MOST_STEPS:]

    def _gain(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        status, sign = self.status, self.metric.direction.sign
        base = status.baseline
        change = shown = status.best.over_baseline if status.best else None
        if change and change.by_clock:  # where the count and the clock disagree, the clock is right
            shown, sign = change.by_clock, CLOCK_METRIC.direction.sign
        share = shown.percent / shown.amount if shown and shown.percent and shown.amount else 0.0
        ends = [None if end is None else end * share for end in (shown.low, shown.high)] if share and shown else []
        before = steps[-2] if len(steps) > 1 else None
        has_factor = shown is not None and base is not None and base.score > 0  # -28 is not 1.28 times -39
        return {
            "best": status.best,
            "baseline": base,
            "control": status.control,
            "before": {"node": before["node"]["id"], "score": before["score"]} if before else None,
            "factor": direction_factor(shown.percent, sign) if shown and has_factor else None,
            "factor_low": direction_factor(ends[0], sign) if ends and has_factor else None,
            "factor_high": direction_factor(ends[1], sign) if ends and has_factor else None,
            "words": ScoreText.of_run(status).change_words(change, "the baseline") if change else "",
            "noise": status.noise,
        }

    def _cost(self, pools: list[dict[str, Any]]) -> dict[str, Any]:
        spend, calls, task = Spend.of(self.run), self.fold.calls, self.task
        kept = max(len(self.kept) - 1, 0)
        roles = []
        for role in sorted({*spend.tokens, *calls.by_role}):
            found, caps = calls.by_role.get(role), task.roles.of(role) if task else None
            roles.append(
                {
                    "role": role,
                    "model": found.model if found else "",
                    "calls": found.calls if found else 0,
                    "tokens": spend.tokens.get(role, 0),
                    "money_usd": spend.money_usd.get(role, 0.0),
                    "seconds": spend.seconds.get(role, 0.0),
                    "cap_usd": caps.money_usd if caps else None,
                    "cap_tokens": caps.tokens if caps else None,
                }
            )
        return {
            "money_usd": spend.total_money_usd,
            "tokens": spend.total_tokens,
            "unpriced_calls": sum(each.unpriced for each in calls.by_role.values()),
            "ends_first": run_checks.ends_first(pools, self.now),
            "pools": pools,
            "roles": roles,
            "per_kept_usd": spend.total_money_usd / kept if kept and spend.total_money_usd else None,
            "burn": run_checks.burn_samples(self.fold),
        }

    def _ended(self, place: int) -> dict[str, Any]:
        node = self.history[NodeId(self.history.node_of_handle(self.columns.handles[place]))]
        score, above = self.columns.score(place), over_parent(self.history, node)
        return {
            "node": self._name(node),
            "mark": MARKS[self.columns.marks[place]],
            "gain_percent": above.change.percent if above else None,
            "score": score,
            "operator": node.operator,
            "at": node.added_at,
            "reason": node.reason[:300],
        }

    def _just_ended(self) -> list[dict[str, Any]]:
        marks, found = self.columns.marks, []
        for place in range(len(marks) - 1, -1, -1):
            if marks[place] != OPEN:
                found.append(self._ended(place))
            if len(found) == _JUST_ENDED:
                break
        return found

    def _worked(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {key: step[key] for key in ("node", "gain_percent", "at", "operator")}
            for step in reversed(steps)
            if step["gain_percent"] is not None
        ][:_WORKED]

    def _goodput(self) -> dict[str, Any]:
        """Say what the time gave: gains, trials without one, repeats, and what was wasted."""
        task, workers = self.task, Workers.of(self.run).most
        results = sum(self.columns.counts[mark] for mark in (*BRANCHES, *_JUDGED, CONTROL)) - 1
        questions = task.questions if task else 1
        found = goodput_of(
            self.run,
            max(results, 0),
            self.status.work_seconds,
            trial_slots=workers or (task.width if task else 1),
            model_slots=min(questions, workers or questions),
        )
        searched = [TrialCounts.of(self.run, pool) for pool in SEARCH_POOLS]
        trials = sum(count.endings.get(Ending.FINISHED, 0) for count in searched)
        seconds = sum(count.seconds.get(Ending.FINISHED, 0.0) for count in searched)
        gains = min(sum(self.columns.seconds[place] for place in self.kept), seconds)
        time = (
            TrialCost("gains", len(self.kept), gains),
            TrialCost("no gain", max(trials - len(self.kept), 0), seconds - gains),
            found.repeats,
            *found.waste,
        )
        return {**asdict(found), "time": [row for row in time if row.trials or row.seconds]}
