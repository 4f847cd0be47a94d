"""What a run costs, before it is spent: seconds, tokens and money of a proposal, how many the budget allows, and
the smallest gain that measurements can show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from loopty.domain.model import Role, Usage
from loopty.domain.objective import score_metric
from loopty.domain.task import Task
from loopty.domain.trial import Pool
from loopty.kit.records import Record, replace
from loopty.models.prices import Rates
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.nodes import Proposals
from loopty.record.run_record import Run
from loopty.record.search_learning import Paces
from loopty.record.sessions import pools_in_force
from loopty.record.trials import Cohorts, TrialCounts
from loopty.show.figures import dollars, duration, plural

SURE = 2.5
"""Standard errors: a change that is better is then kept four times out of five, at an error rate of 5 %."""
FEW_LOOKS = 10
_CONTEXT_TOKENS, _REPLY_TOKENS = 3_000, 1_500
"""A guess before the first call: the prompt beside the program, and the reply."""


def smallest_gain(noise_percent: float, pairs: int) -> float:
    """Return the smallest gain, in percent, that so many pairs tell from luck."""
    return SURE * noise_percent * math.sqrt(2 / pairs)


class Estimate(Record):
    """What is known or guessed of a run's cost. None stands for what nobody has measured."""

    trial_seconds: float | None
    width: int
    model: str = ""
    """The model that is asked; empty without one."""
    call_seconds: float | None = None
    tokens: float = 0.0
    """Of one proposal, refused ones included."""
    money_usd: float | None = None
    answers: int = 0
    """Proposals that the figures of the model are the mean of; 0: they are a guess from the files."""
    proposals: int | None = None
    """How many the budget allows from here on."""
    scarcest: str = ""
    """The limit that ends them."""
    pairs: int = 0
    smallest_gain_percent: float | None = None

    @property
    def per_hour(self) -> float | None:
        """Return the trials in an hour; a call that takes longer than a trial is waited for."""
        if not self.trial_seconds:
            return None
        call = self.call_seconds or 0.0
        return self.width * 3600 / (self.trial_seconds + (call if call > self.trial_seconds else 0.0))

    def lines(self) -> Iterator[str]:
        """Yield the estimate as sentences, the warning last."""
        return _lines(self)


def estimate(
    task: Task, history: History, run: Run | None, model: str, rates: Rates | None, program_tokens: int
) -> Estimate:
    """Estimate from what the run has measured, else from the task's profile and files; `model` may be empty."""
    spend = Spend.of(run) if run else Spend()
    answers = Proposals.of(run, Pool.ATTEMPT).answer_count if run else 0
    used, money = spend.tokens.get(Role.EVOLVER, 0), spend.money_usd.get(Role.EVOLVER, 0.0)
    is_measured = bool(answers and used)
    guess = Usage(program_tokens + _CONTEXT_TOKENS, _REPLY_TOKENS)
    tokens = used / answers if is_measured else float(guess.tokens)
    cost = money / answers if is_measured else (rates.cost(guess) if rates else None)
    paces = Paces.of(run, Pool.ATTEMPT) if run else None
    found = Estimate(
        trial_seconds=_trial_seconds(task, history, run),
        width=task.width,
        model=model,
        call_seconds=paces.call_seconds if paces and model else None,
        tokens=tokens if model else 0.0,
        money_usd=cost if model else None,
        answers=answers if is_measured else 0,
        pairs=task.noise.pairs if task.noise.repeat == "auto" else 1,
    )
    proposals, scarcest = _allowed(task, run, spend, found)
    noise = _noise_percent(history, run) if run else None
    gain = None if noise is None else smallest_gain(noise, found.pairs)
    return replace(found, proposals=proposals, scarcest=scarcest, smallest_gain_percent=gain)


def _trial_seconds(task: Task, history: History, run: Run | None) -> float | None:
    if run:
        counts = TrialCounts.of(run, Pool.ATTEMPT)
        if ended := sum(counts.endings.values()):
            return counts.busy_seconds / ended
        if outcome := history[run.root].outcome:
            return outcome.seconds
    return task.profile.seconds or None


def _allowed(task: Task, run: Run | None, spend: Spend, known: Estimate) -> tuple[int | None, str]:
    """Return how many proposals the limits leave, and the name of the limit that ends them."""
    pools = pools_in_force(run, task.pools) if run else task.pools
    role = task.roles.evolver
    started = TrialCounts.of(run, Pool.ATTEMPT).started if run else 0
    left = {"attempts": float(max(pools.attempts - started, 0))}
    own = spend.tokens.get(Role.EVOLVER, 0), spend.money_usd.get(Role.EVOLVER, 0.0)
    caps = (
        (pools.tokens, spend.total_tokens, pools.money_usd, spend.total_money_usd),
        (role.tokens, own[0], role.money_usd, own[1]),
    )
    for tokens, of_tokens, money, of_money in caps if known.model else ():
        if tokens is not None and known.tokens:
            left["tokens"] = min(left.get("tokens", math.inf), max(tokens - of_tokens, 0) / known.tokens)
        if money is not None and known.money_usd:
            left["money"] = min(left.get("money", math.inf), max(money - of_money, 0.0) / known.money_usd)
    if pools.wall_seconds is not None and known.per_hour:
        left["time"] = pools.wall_seconds * known.per_hour / 3600
    scarcest = min(left, key=lambda name: left[name])
    return math.floor(left[scarcest]), scarcest


def _noise_percent(history: History, run: Run) -> float | None:
    """Return the noise of one measurement as a share of the baseline's score; None before it is known."""
    root, cohorts = history[run.root], Cohorts.of(run)
    metrics = history.counting_metrics(run.number)
    if not metrics or root.outcome is None or len(root.samples) < 2:
        return None
    name = score_metric(metrics).name
    noise, score = cohorts.noise.get(cohorts.fingerprint, {}).get(name), root.outcome.metrics.get(name)
    return None if noise is None or not score else 100 * noise / abs(score)


def _lines(found: Estimate) -> Iterator[str]:
    if found.trial_seconds and found.per_hour:
        slots = plural(found.width, "slot")
        waits = " with its call" if (found.call_seconds or 0.0) > found.trial_seconds else ""
        yield (
            f"a trial takes {duration(found.trial_seconds)}: about {found.per_hour:,.0f} an hour{waits}, "
            f"in {slots}"
        )
    if found.model:
        how = f"measured in {found.answers:,}" if found.answers else "a guess from the files"
        money = "at an unknown price" if found.money_usd is None else dollars(found.money_usd)
        call = f", {duration(found.call_seconds)}" if found.call_seconds else ""
        yield f"a proposal of {found.model}: about {found.tokens:,.0f} tokens, {money}{call} ({how})"
    if found.proposals is not None:
        yield f"the budget allows about {found.proposals:,} more proposals: {found.scarcest} is what ends first"
    if found.smallest_gain_percent is not None:
        gain = found.smallest_gain_percent
        shown = f"gains from {gain:.2g} % on" if gain else "any gain"
        yield f"{plural(found.pairs, 'pair')} of measurements show {shown}"
    if found.proposals is not None and found.proposals < FEW_LOOKS:
        yield (
            f"warning: fewer than {FEW_LOOKS} proposals are hardly a search: raise the limit of {found.scarcest} "
            "under [budget] or [roles.evolver]"
        )
