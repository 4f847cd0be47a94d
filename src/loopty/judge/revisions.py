"""Verdicts that change later: taken back, lost with a failing incumbent, or confirmed in fresh pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.counting import CLOCK_METRIC, is_counted
from loopty.domain.errors import Misuse
from loopty.domain.evidence import PairedEstimate, is_told, paired_estimate
from loopty.domain.ids import NodeId
from loopty.domain.objective import gain
from loopty.domain.task import Noise
from loopty.domain.trial import Pool, Verdict
from loopty.judge.pairs import MAX_FAULTS, coin, results_against_a_coin
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node, Pairing
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, TrialCounts, TrialStarted
from loopty.record.verdicts import Confirmation, Incumbents, NodeReopened, NodeRestored, VerdictWithdrawn


def discard_node(history: History, node: NodeId, why: str) -> Iterator[Event]:
    """Discard a node that is not wanted after all. Its result stays, and so do its descendants."""
    found = history[node]
    _require_change(history, node)
    if found.draft:
        raise Misuse(f"{found.name} is a draft without a verdict: `loopty draft drop {found.name}` removes it")
    if found.verdict in (Verdict.DISCARDED, Verdict.REJECTED):
        raise Misuse(f"{found.name} is {found.verdict} already: {found.reason}")
    yield from withdraw(history, [VerdictWithdrawn(node, Verdict.DISCARDED, why, by_hand=True)])


def invalidate_node(history: History, node: NodeId, why: str) -> Iterator[Event]:
    """Reject a node that cheats: nothing that it or a descendant of it measured counts."""
    _require_change(history, node)
    if history[node].is_invalidated:
        raise Misuse(f"{history.name(node)} is invalidated already: {history[node].reason}")
    below = (each for each in history.ids if each.is_within(node) and each != node)
    descendants = [each for each in below if not history[each].is_invalidated]
    withdrawals = [VerdictWithdrawn(node, Verdict.REJECTED, why, by_hand=True)]
    withdrawals += [
        VerdictWithdrawn(each, Verdict.REJECTED, f"{_descent(history[node])}{why}", node, by_hand=True)
        for each in descendants
    ]
    yield from withdraw(history, withdrawals)


def nodes_to_restore(history: History, node: NodeId) -> list[NodeId]:
    """List the node and the descendants invalidated with it; raises Misuse if nothing can be undone."""
    found = history[node]
    if found.withdrawn is None:
        raise Misuse(f"{found.name} is {found.verdict or 'open'}: no verdict was taken back, so none is restored")
    if not found.withdrawn.by_hand:
        raise Misuse(
            f"a measurement or a gate took the verdict about {found.name} back ({found.reason}): that stays"
        )
    for above in _ancestors(node):
        if history[above].is_invalidated:
            raise Misuse(
                f"{found.name} descends from {history.name(above)}, which is invalidated: restore that first"
            )
    below = (each for each in history.ids if each.is_within(node) and each != node)
    with_it = (each for each in below if _was_withdrawn_with(history, each, node))
    return [node, *with_it]


def restore_nodes(history: History, nodes: Sequence[NodeId], why: str) -> Iterator[Event]:
    """Take a person's withdrawals back. None of these nodes is kept by that: what was kept has to win again."""
    for node in nodes:
        if history[node].files_removed:
            raise Misuse(
                f"the files of {history.name(node)} were removed by `loopty system gc`: it cannot be measured again"
            )
        yield NodeRestored(node, why)


def _was_withdrawn_with(history: History, node: NodeId, above: NodeId) -> bool:
    withdrawn = history[node].withdrawn
    return withdrawn is not None and withdrawn.by_hand and withdrawn.why.startswith(_descent(history[above]))


def _descent(node: Node) -> str:
    return f"descends from {node.name}: "


def _ancestors(node: NodeId) -> Iterator[NodeId]:
    while parent := node.parent:
        yield parent
        node = parent


def reject_by_gate(history: History, refusals: Mapping[NodeId, str]) -> Iterator[Event]:
    """Reject nodes that fail a gate added after their verdict; each with the gate's reason."""
    yield from withdraw(
        history, [VerdictWithdrawn(node, Verdict.REJECTED, reason) for node, reason in refusals.items()]
    )


def withdraw(history: History, withdrawals: Sequence[VerdictWithdrawn]) -> Iterator[Event]:
    """Take these verdicts back: the best is elected anew, and what lost only against one of them is open again.

    All withdrawals come first, so that nothing comes back that is withdrawn itself.
    """
    yield from withdrawals
    for event in withdrawals:
        yield from _reopen_losers(history, event.node)


def _reopen_losers(history: History, node: NodeId) -> Iterator[Event]:
    """Reopen what lost only against this node: one more judgement each, at most one per cause."""
    reason = f"lost only against {history.name(node)}, whose verdict was withdrawn"
    lost = (Verdict.DISCARDED, Verdict.INCONCLUSIVE)
    for other in list(history.nodes(node.run, history[node].pool)):
        has_result = other.outcome and other.outcome.is_finished and not other.fault
        may_return = has_result and not (other.withdrawn or other.files_removed) and node not in other.reopened_for
        if other.against == node and other.verdict in lost and may_return:
            yield NodeReopened(other.id, reason, node)


def undecided_nodes(history: History, run: int) -> list[NodeId]:
    """List what could not be told apart and still measures better than the best, the most promising first.

    The run itself asks once about each: another bet is another chance to keep something that is no better.
    """
    best = Incumbents.of(history.runs[run], Pool.ATTEMPT).best
    result = history[best].result(Cohorts.of(history.runs[run]).fingerprint) if best else None
    if result is None:
        return []
    metrics, gains = history.counting_metrics(run), dict[NodeId, float]()
    for node in history.nodes(run, Pool.ATTEMPT):
        here = node.outcome and node.outcome.fingerprint == result.outcome.fingerprint and not node.fault
        if may_ask_again(node) and here and node.outcome and node.id not in node.reopened_for:
            gains[node.id] = gain(node.outcome.metrics, result.outcome.metrics, metrics).amount
    return sorted((node for node in gains if gains[node] > 0), key=lambda node: -gains[node])


def may_ask_again(node: Node) -> bool:
    """Say whether the node is undecided, and can be measured again."""
    is_open = node.verdict is Verdict.INCONCLUSIVE and not (node.withdrawn or node.files_removed)
    return is_open and node.outcome is not None and node.outcome.is_finished


def ask_again(history: History, node: NodeId) -> Iterator[Event]:
    """Let an undecided node wait for a verdict again, by a new bet; nothing if it has one by now."""
    if may_ask_again(history[node]):
        yield NodeReopened(node, "undecided: it is measured again", node)


def _require_change(history: History, node: NodeId) -> None:
    if history[node].id.parent is None:
        name = history.name(node)
        raise Misuse(f"{name} is the baseline: if it is wrong, start a new run with `loopty run --new-run`")


def unseat_failing_incumbent(history: History, subject: NodeId) -> Iterator[Event]:
    """Discard an incumbent that fails the repeats for this subject, and reopen what lost to it.

    Otherwise an incumbent that crashes whenever it is measured beside a rival could never be beaten.
    """
    node, run = history[subject], history.runs[subject.run]
    incumbent = Incumbents.of(run, node.pool).by_fingerprint.get(node.outcome.fingerprint if node.outcome else "")
    if incumbent is None or incumbent in (run.root, subject):
        return
    rival = history[incumbent]
    pairing = node.pairing if node.pairing and node.pairing.incumbent == incumbent else None
    if max(rival.faults_in_row, pairing.failures if pairing else 0) < MAX_FAULTS:
        return
    why = f"failed {MAX_FAULTS} measurements as the incumbent, the last beside {node.name}"
    yield from withdraw(history, [VerdictWithdrawn(incumbent, Verdict.DISCARDED, why)])


def unseat_lucky_incumbent(history: History, subject: NodeId) -> Iterator[Event]:
    """Discard an incumbent that was kept for equal results, and whose newest is no better than what it beat."""
    outcome = history[subject].outcome
    incumbents = Incumbents.of(history.runs[subject.run], history[subject].pool)
    incumbent = incumbents.by_fingerprint.get(outcome.fingerprint if outcome else "")
    if incumbent and incumbent != subject and (why := _lost_luck(history, incumbent)):
        yield from withdraw(history, [VerdictWithdrawn(incumbent, Verdict.DISCARDED, why)])


def _lost_luck(history: History, node: NodeId) -> str:
    """Tell why equal results were luck; empty if they were not, or the node was kept by pairs."""
    found = history[node]
    if found.against is None or found.effect or found.outcome is None or len(found.samples) < 2:
        return ""
    beaten = history[found.against].result(found.outcome.fingerprint)
    if beaten is None or is_counted(beaten.outcome.metrics):
        return ""
    if gain(found.samples[-1], beaten.outcome.metrics, history.metrics(found)).amount > 0:
        return ""
    return f"was kept for equal results, and its newest is no better than {history.name(found.against)}"


def start_confirmation(history: History, run: int, owner: str, noise: Noise, pairs: int) -> Iterator[Event]:
    """Start the next measurement for the headline, until it rests on this many fresh pairs, or is told by fewer.

    A best node that fails here, or proves worse than the baseline, loses its place to the one before it.
    """
    while best := _best_to_confirm(history, history.runs[run], noise, pairs):
        pairing = _fresh_pairs(history.runs[run], best)
        if refutation := _lost_luck(history, best) or _refutation(history, pairing):
            yield from withdraw(history, [VerdictWithdrawn(best, Verdict.DISCARDED, refutation)])
            continue
        if pairing.faults >= MAX_FAULTS:
            return
        if _varies(history, history.runs[run], best):
            # Whoever asks for more than the task does gets them.
            is_enough = pairs <= noise.confirm and is_told(_fresh_estimate(history, pairing))
            if is_enough or (len(pairing.mine) >= pairs and len(pairing.theirs) >= pairs):
                return
            node = _next_to_measure(history.runs[run], best, pairing)
        elif len(history[best].samples) < results_against_a_coin(noise.rate):
            node = best
        else:
            return
        yield TrialStarted(node, history[node].trials + 1, Pool.CONFIRM, owner, best)
        return


def seconds_to_confirm(history: History, run: Run, noise: Noise) -> float:
    """Estimate the time that the confirmation at the end of the run will take."""
    best = _best_to_confirm(history, run, noise, noise.confirm)
    if best is None or not _varies(history, run, best):
        return 0.0
    missing = max(noise.confirm - len(_fresh_pairs(run, best).pairs_so_far), 0)
    return missing * seconds_of_pair(run)


def seconds_of_pair(run: Run) -> float:
    """Estimate the time of two measurements."""
    counts = [TrialCounts.of(run, pool) for pool in (Pool.ATTEMPT, Pool.REPEAT, Pool.CONFIRM)]
    ended = sum(sum(count.endings.values()) for count in counts)
    return 2 * sum(count.busy_seconds for count in counts) / max(ended, 1)


def _best_to_confirm(history: History, run: Run, noise: Noise, pairs: int) -> NodeId | None:
    """Find the best node, if its gain over the baseline is to be confirmed."""
    best, fingerprint = Incumbents.of(run, Pool.ATTEMPT).best, Cohorts.of(run).fingerprint
    if noise.repeat == "never" or not pairs or best is None or best == run.root:
        return None
    return best if all(history[node].result(fingerprint) for node in (best, run.root)) else None


def _varies(history: History, run: Run, best: NodeId) -> bool:
    """Say whether the gain of the best node varies. Counts do not, and the clock that confirms them does."""
    fingerprint = Cohorts.of(run).fingerprint
    mine, theirs = (history[node].result(fingerprint) for node in (best, run.root))
    assert mine is not None
    assert theirs is not None
    if is_counted(theirs.outcome.metrics):
        return True
    metrics = history.counting_metrics(run.number)
    deciding = gain(mine.outcome.metrics, theirs.outcome.metrics, metrics).metric
    names = [metric.name for metric in ((deciding,) if deciding else metrics)]
    return any(is_varying(history, best, fingerprint, name) for name in names)


def is_varying(history: History, node: NodeId, fingerprint: str, metric: str) -> bool:
    """Say whether measurements of the node or of the baseline vary in this metric."""
    run = history.runs[node.run]
    if Cohorts.of(run).noise.get(fingerprint, {}).get(metric):
        return True
    results = (history[other].result(fingerprint) for other in (node, run.root))
    return any(len({sample.get(metric) for sample in result.samples}) > 1 for result in results if result)


def _fresh_pairs(run: Run, best: NodeId) -> Pairing:
    return Confirmation.of(run).pairing_of(best, Cohorts.of(run).fingerprint) or Pairing(run.root)


def _refutation(history: History, pairing: Pairing) -> str:
    """Tell why the best node is not what it was kept for; empty if it may be."""
    if pairing.failures >= MAX_FAULTS:
        return f"failed {MAX_FAULTS} measurements beside the baseline"
    by_clock, found = _is_by_clock(pairing), _fresh_estimate(history, pairing)
    if not (found and found.high < 0):
        return ""
    if by_clock:
        remedy = 'set measure = "clock" under [benchmark]'
        return (
            f"executes less, and by the clock is slower than the baseline in {found.pairs} fresh pairs: {remedy}"
        )
    return f"is worse than the baseline in {found.pairs} fresh pairs"


def _is_by_clock(pairing: Pairing) -> bool:
    return any(CLOCK_METRIC.name in sample for sample in pairing.mine)


def _fresh_estimate(history: History, pairing: Pairing) -> PairedEstimate | None:
    metrics = (CLOCK_METRIC,) if _is_by_clock(pairing) else history.counting_metrics(pairing.incumbent.run)
    return paired_estimate([gain(mine, theirs, metrics).amount for mine, theirs in pairing.pairs_so_far])


def _next_to_measure(run: Run, best: NodeId, pairing: Pairing) -> NodeId:
    mine, theirs = len(pairing.mine), len(pairing.theirs)
    if mine != theirs:
        return best if mine < theirs else run.root
    return best if coin(run.secret or str(run.seed), "confirm", best, mine) else run.root
