"""The status of a run, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.trial import KNOWN_INPUTS, NOT_FROZEN, Ending, Pool
from loopty.kit.records import replace
from loopty.record.search_summary import FrozenPool
from loopty.show.agents import agents_lines
from loopty.show.comparisons import AgainstBaseline
from loopty.show.explanation import Explanation
from loopty.show.explanation_text import explanation_facts
from loopty.show.figures import deviation, dollars, duration, node_name, plural, rate, three_digits
from loopty.show.live import running_trial_text
from loopty.show.run_status import AwaitedModel, NoiseFloor, RunState, RunStatus
from loopty.show.running import ClusterRow, PoolCount, Remaining, WorkerRow, WorkerSlots
from loopty.show.score_text import ScoreText, gains_side_by_side
from loopty.show.stages import slice_text, stage_text
from loopty.show.tally import Tally, false_keeps_text, uplift_text, verdicts_text, verifier_text, withdrawn_text
from loopty.show.terminal import Fact, Terminal, cut, fact_lines, printable_line


def pool_text(pool: FrozenPool) -> str:
    """`4 nodes of run 1: @4 (0.62, the best node), @8 (0.6, 75 % unlike the members before it), …`."""
    members = (
        f"{node_name(one.node, one.handle)} ({three_digits(one.score)}, {one.reason})" for one in pool.members
    )
    return f"{plural(len(pool.members), 'node')} of run {pool.base}: {', '.join(members)}"


_MAX_WORKERS = 16
_COHORTS = {"present": "", "other": ", its own cohort", "closed": ", not ranked yet"}


def worker_lines(status: RunStatus) -> Iterator[str]:
    """Yield a line for each node of a cluster and each worker, then what was lost."""
    yield from map(_cluster_node_text, status.nodes[:_MAX_WORKERS])
    if len(status.nodes) > _MAX_WORKERS:
        yield f"{len(status.nodes) - _MAX_WORKERS:,} more nodes"
    rows = status.workers
    if status.worker_slots:
        yield _slots_text(status.worker_slots)
    yield from (_row_text(row) for row in rows[:_MAX_WORKERS])
    if len(rows) > _MAX_WORKERS:
        busy = sum(bool(row.trial) for row in rows[_MAX_WORKERS:])
        yield f"{len(rows) - _MAX_WORKERS:,} more, {busy:,} of them busy"
    if status.lost_leases:
        yield (
            f"{plural(status.lost_leases, 'trial')} lost by workers and given out again, the last because "
            f"{printable_line(status.last_loss)}"
        )


def _slots_text(slots: WorkerSlots) -> str:
    """`8 workers, 2 trials at once: width = 2 of loopty.toml lets 6 wait`."""
    text = f"{plural(slots.workers, 'worker')}, {plural(slots.trials, 'trial')} at once"
    if slots.bound == "width":
        return f"{text}: width = {slots.trials} of loopty.toml lets {slots.ranked - slots.trials:,} wait"
    return f"{text}: one on each that is ranked"


def _cluster_node_text(row: ClusterRow) -> str:
    name = f"{row.name} at {row.address}" if row.name != row.address else row.address
    has = ", ".join(f"{kind} {amount:g}" for kind, amount in row.resources.items()) or "no resources"
    text = (
        f"node {row.node[:12]} of {row.cluster}, {name}: {has}; {row.busy} of {plural(row.workers, 'worker')} busy"
    )
    return printable_line(text)


def _row_text(row: WorkerRow) -> str:
    doing = f"{row.trial} for {duration(row.lease_seconds)}" if row.trial else "waits"
    place = "" if row.host in row.name else f" at {row.host}"
    text = f"{row.name}{place}: {doing}; {plural(row.trials, 'trial')}, {row.sandbox}{_COHORTS[row.cohort]}"
    return printable_line(f"{text}; it has changed: {row.drift}" if row.drift else text)


_MAX_TRIALS = 8
_MAX_WITHDRAWN = 8
# Its verdict is `rejected`; a refused proposal, in contrast, gets no trial.
_ENDING_NAMES: dict[str, str] = {
    Ending.REFUSED: "rejected by a gate",
    Ending.STOPPED: "stopped by a stage",
}
_REMEDIES = {
    KNOWN_INPUTS: "let the benchmark draw other inputs for each measurement",
    NOT_FROZEN: "use a machine with cgroups of version 2",
}
"""What to do where integrity is weak although the benchmark is isolated."""


def status_text(
    status: RunStatus,
    columns: int = 80,
    terminal: Terminal | None = None,
    tally: Tally | None = None,
    explanation: Explanation | None = None,
    more: Sequence[Fact] = (),
) -> str:
    """Say where a run stands; `explanation` says why its baseline failed, `more` is about what surrounds it."""
    terminal = terminal or Terminal()
    lines = [
        _headline(status, columns, terminal),
        "",
        *fact_lines(_facts(status, tally, explanation, more), columns, terminal),
    ]
    return terminal.render("\n".join(lines))


def owner_text(owner: str) -> str:
    """Describe the owner of a trial or session: `process 4711 on host`."""
    host, *rest = owner.rsplit(":", 2)
    return printable_line(f"process {rest[0]} on {host}" if len(rest) == 2 else owner)


def endings_text(count: PoolCount) -> str:
    """`51 finished, 6 failed`; cancelled trials are counted apart, because the pool gets them back."""
    charged = ", ".join(
        f"{number:,} {_ENDING_NAMES.get(ending, ending)}"
        for ending, number in count.endings.items()
        if ending != Ending.CANCELLED
    )
    cancelled = count.endings.get(Ending.CANCELLED, 0)
    if not cancelled:
        return charged
    return f"{charged}; {cancelled:,} more cancelled" if charged else f"{cancelled:,} cancelled"


def time_text(status: RunStatus) -> str:
    """`3 min 12 s`; for trials run by hand, the time of the trials alone."""
    if not status.by_hand:
        return duration(status.elapsed_seconds)
    trials = f"{duration(status.busy_seconds)} of trials"
    return f"{duration(status.elapsed_seconds)} of sessions, {trials}" if status.elapsed_seconds else trials


def usage_text(status: RunStatus) -> str:
    """Format the models' tokens and money. Without a cost the money is left out: the price may be unknown."""
    money = f", {dollars(status.money_usd)}" if status.money_usd else ""
    return f"{plural(status.tokens, 'token')}{money}"


def stalls_text(status: RunStatus) -> str:
    """`a model was unavailable 3 times, 12 s in total; no attempt was charged for it`."""
    count = "once" if status.stalls == 1 else f"{status.stalls:,} times"
    lasted = f"{duration(status.stalled_seconds)} in total"
    return f"a model was unavailable {count}, {lasted}; no attempt was charged for it"


def awaited_text(awaited: AwaitedModel) -> str:
    """`waiting for MODEL, which has not answered for 2 min 10 s`."""
    return f"waiting for {printable_line(awaited.name)}, which has not answered for {duration(awaited.seconds)}"


def integrity_text(status: RunStatus) -> str:
    """Warn if the best node could have cheated; empty if only its parameters differ."""
    if status.best is None or not (status.best.edited and status.best.weakness):
        return ""
    weakness = status.best.weakness
    return f"weak: {weakness}; {_REMEDIES.get(weakness, 'set isolated = true to separate them')}"


def weak_words(status: RunStatus) -> str:
    """Say in the result itself that the best node could have cheated."""
    if not integrity_text(status):
        return ""
    has_own = status.best is not None and status.best.weakness in _REMEDIES
    return ", with weak integrity" if has_own else ", not isolated"


def _headline(status: RunStatus, columns: int, terminal: Terminal) -> str:
    state = status.word
    if status.state is RunState.RUNNING:
        state += f" ({owner_text(status.driver)})"
    elif status.state is RunState.LOST:
        state += f": {owner_text(status.driver)} died; `loopty run` resumes it"
    if status.awaited:
        state = f"{state}: {awaited_text(status.awaited)}"
    if status.is_paused:
        why = f": {printable_line(status.pause_reason)}" if status.pause_reason else ""
        more = "" if state == "paused" else f" ({state.removeprefix('paused ').strip('()')})"
        state = f"paused{why}; continue with `loopty resume`{more}"
    style = {RunState.RUNNING: "good", RunState.LOST: "warn"}.get(status.state, "")
    head = f"run {status.run}"
    return f"{terminal.paint(head, 'strong')}  {terminal.paint(cut(state, columns - len(head) - 2), style)}"


def _facts(
    status: RunStatus, tally: Tally | None, explanation: Explanation | None, more: Sequence[Fact]
) -> Iterator[Fact]:
    """Yield the result, then what happens now, then what was spent, and last what to do next."""
    yield from _result_facts(status, tally, explanation)
    yield from _present_facts(status, tally)
    yield from _spent_facts(status)
    yield from more
    yield Fact("criteria", status.criteria)
    for number, step in enumerate(next_steps(status)):
        yield replace(step, name="" if number else "next")


def _result_facts(status: RunStatus, tally: Tally | None, explanation: Explanation | None) -> Iterator[Fact]:
    better, scores = "higher" if status.direction.sign > 0 else "lower", ScoreText.of_run(status)
    if status.best:
        than = "the baseline in runs side by side" if gains_side_by_side(status) else "the baseline"
        yield Fact("best", _node_text(status.best, status.metric, scores, than), "best")
    if weak := integrity_text(status):
        yield Fact("integrity", weak, "warn")
    if status.held:
        yield Fact("held", held_text(status), "warn")
    if status.audit:
        yield Fact("audit", status.audit, "warn")
    if status.versions:
        yield Fact("past", status.versions, "warn")
    if status.baseline:
        yield Fact("baseline", f"{status.metric} {scores.score(status.baseline.score)} ({better} is better)")
    else:
        yield Fact("baseline", f"no result: {why}" if (why := status.without_baseline) else "not measured yet")
    if explanation:
        yield from explanation_facts(explanation)
    if status.control:
        leads = "; more than the search found" if status.control_leads else ""
        text = _node_text(status.control, status.metric, scores) + leads
        yield Fact("control", text, "warn" if leads else "")
    if status.uplift:
        plain = f"the best attempt is {scores.change_words(status.uplift, 'the best control')}"
        yield Fact("vs random", uplift_text(tally.over_control) if tally and tally.over_control else plain)
    for other in status.other_fingerprints:
        yield Fact(
            "elsewhere", f"best {_node_text(other.best, status.metric, _text_alone(other.best))} ({other.machine})"
        )
    if status.noise:
        yield Fact("noise", _noise(status.noise, status.metric))


def _present_facts(status: RunStatus, tally: Tally | None) -> Iterator[Fact]:
    if status.state is RunState.STOPPED:
        yield Fact("because", status.reason)
    for trial in status.running[:_MAX_TRIALS]:
        yield Fact("running", running_trial_text(trial))
    if (more := len(status.running) - _MAX_TRIALS) > 0:
        yield Fact("", f"and {more} more")
    for line in worker_lines(status):
        yield Fact("workers", line)
    if tally and (verdicts := verdicts_text(tally)):
        yield Fact("verdicts", verdicts)
    for withdrawn in tally.withdrawn[:_MAX_WITHDRAWN] if tally else ():
        yield Fact("withdrawn", withdrawn_text(withdrawn), "warn")
    if tally and (more := len(tally.withdrawn) - _MAX_WITHDRAWN) > 0:
        yield Fact("", f"and {more} more")
    if tally and tally.reopened:
        yield Fact(
            "unjudged", f"{plural(len(tally.reopened), 'node')} lost only against those: loopty node recheck"
        )
    if tally and (kept := false_keeps_text(tally.false_keeps)):
        yield Fact("kept", kept)
    if status.rung:
        yield Fact("ladder", printable_line(status.rung))
    if status.combines:
        yield Fact("combines", pool_text(status.combines))
    for stage in status.cascade:
        yield Fact("cascade", stage_text(stage))
    if status.tuning:
        yield Fact("tuning", slice_text(status.tuning))
        if status.tuning.advice:
            yield Fact("", status.tuning.advice, "warn")
    if status.verified:
        yield Fact("verifier", verifier_text(status.verified))
    if status.refusals:
        yield Fact(
            "refused", f"{plural(status.refusals, 'proposal')} rejected before running; not counted as attempts"
        )
        if why := next((count.last_refusal for count in status.counts if count.last_refusal), ""):
            yield Fact("", f"the last one because: {printable_line(why)}")


def _spent_facts(status: RunStatus) -> Iterator[Fact]:
    for count in status.counts:
        text = f"{count.started:,}" + ("" if count.limit is None else f" of {count.limit:,}")
        text += f": {endings_text(count)}" if count.endings else ""
        if count.pool is Pool.ATTEMPT and status.since_best:
            text += f"; {status.since_best:,} since the best"
        yield Fact(f"{count.pool}s", text)
    pace = f", {rate(status.trials_per_second)}" if status.trials_per_second else ""
    yield Fact("time", time_text(status) + pace)
    if status.tokens or status.money_usd:
        yield Fact("models", usage_text(status))
    if status.stalls:
        yield Fact("stalls", stalls_text(status), "warn")
    for words, style in agents_lines(status.agents):
        yield Fact("agents", words, style)
    if status.left:
        yield Fact("remaining", _remaining_text(status.left))


def held_text(status: RunStatus) -> str:
    """`@12 (9100) waits for you: its gain is suspiciously large, …`."""
    scores = ScoreText.of([node.score for node in status.held if node.score is not None])
    named = [
        node_name(node.node, node.handle) + (f" ({scores.score(node.score)})" if node.score is not None else "")
        for node in status.held
    ]
    if len(named) == 1:
        words = "waits for you: its gain is suspiciously large, and it could reach the code that scored it"
        return f"{named[0]} {words}; until you accept, it counts for nothing"
    words = "wait for you: their gains are suspiciously large, and they could reach the code that scored them"
    return f"{', '.join(named)} {words}; until you accept, they count for nothing"


def next_steps(status: RunStatus) -> Iterator[Fact]:
    """Yield the commands that come next."""
    for node in status.held[:1]:
        name = node_name(node.node, node.handle)
        yield Fact("look at it", f"loopty show {name}", "dim")
        yield Fact("accept it", f"loopty node approve {name} --why TEXT", "dim")
    leader = status.control if status.control_leads else status.best
    has_gain = leader is not None and leader.over_baseline is not None
    if status.is_paused:
        yield Fact("continue", "loopty resume", "dim")
    elif status.state is RunState.LOST or (status.state is RunState.IDLE and not has_gain):
        yield Fact("continue", "loopty run", "dim")
    if leader is None or not has_gain:
        if status.baseline:
            yield Fact("see what was tried", "loopty tree", "dim")
        return
    name = node_name(leader.node, leader.handle) if status.control_leads else "best"
    yield Fact("see it", f"loopty diff {name} --baseline" if leader.edited else f"loopty show {name}", "dim")
    yield Fact("use it", f"loopty apply {name}", "dim")


def _node_text(node: AgainstBaseline, metric: str, text: ScoreText, than: str = "the baseline") -> str:
    gain = text.change_words(node.over_baseline, than) if node.over_baseline else "the baseline itself"
    return f"{node_name(node.node, node.handle)}: {gain}; {metric} {text.score(node.score)}"


def _text_alone(node: AgainstBaseline) -> ScoreText:
    """Return the text for a result of another machine, which is not compared with the others."""
    return ScoreText.of([node.score], [node.over_baseline])


def _noise(noise: NoiseFloor, metric: str) -> str:
    if not noise.sigma:
        return f"none seen in {plural(noise.measurements, 'measurement')}"
    return f"{metric} {deviation(noise.sigma, noise.percent)} (newest {noise.measurements} of {noise.node})"


def _remaining_text(left: Remaining) -> str:
    parts = [plural(left.attempts, "attempt")]
    if left.wall_seconds is not None:
        parts.append(duration(left.wall_seconds))
    if left.tokens is not None:
        parts.append(plural(left.tokens, "token"))
    if left.money_usd is not None:
        parts.append(f"${left.money_usd:.2f}")
    return ", ".join(parts)
