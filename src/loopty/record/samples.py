"""What is known of a node after another trial of it or of its rival: samples, duels, reviews."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopty.domain.evidence import noise_floor
from loopty.domain.objective import Metric, Metrics
from loopty.domain.outcome import Ending, Outcome
from loopty.kit.replace import replace
from loopty.record.records import Pairing, Node, Result, Review

ENOUGH_TO_VARY = 3
"""From so many measurements on it is known how much a node varies."""


def sampled(outcome: Outcome, yardstick: Iterable[Metric]) -> tuple[Metrics, ...]:
    """The metrics that count, of one measurement; none when it gave no result."""
    if not outcome.is_finished:
        return ()
    names = (metric.name for metric in yardstick)
    return ({name: outcome.metrics[name] for name in names if name in outcome.metrics},)


def measured_again(node: Node, outcome: Outcome, sample: Metrics) -> Node:
    known = node.result(outcome.fingerprint)
    result = known.with_sample(sample) if known else Result(outcome, (sample,))
    if node.outcome and node.outcome.fingerprint == outcome.fingerprint:
        return replace(node, outcome=result.outcome, samples=result.samples)
    return replace(node, elsewhere={**node.other_fingerprints, outcome.fingerprint: result})


def duelling(node: Node, rival: Node, floors: Mapping[str, Mapping[str, float]]) -> Pairing:
    """The node's duel with this rival: the one under way, or a new one.

    The measurement that made it look better is its half of the first pair; against a later rival it is stale.
    """
    if node.pairing and node.pairing.rival == rival.id:
        return node.pairing
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    known = rival.result(fingerprint)
    noise = floors.get(fingerprint, {})
    if known and len(known.samples) >= ENOUGH_TO_VARY:
        noise = noise_floor(known.samples)
    return Pairing(rival.id, noise, () if node.pairing else node.samples[-1:])


def repeated(node: Node, outcome: Outcome, samples: tuple[Metrics, ...], own: bool) -> Node:
    """The node that is decided of, after a measurement of its own or of its rival."""
    same = node.outcome is not None and node.outcome.fingerprint == outcome.fingerprint
    if own and not same:
        # Its machine changed before its verdict: what was measured there is of no use here.
        fault = None if outcome.is_finished else outcome
        return replace(node, outcome=outcome, samples=samples, duel=None, fault=fault)
    if own and not samples:
        return replace(node, fault=outcome)
    if own:
        node = measured_again(node, outcome, samples[0])
    duel = node.pairing
    if duel and samples and same:
        duel = replace(duel, mine=duel.mine + samples) if own else replace(duel, theirs=duel.theirs + samples)
    elif duel:
        duel = replace(duel.whole(), faults=duel.faults + 1)
    return replace(node, duel=duel)


def at_rest(node: Node, cancelled: bool, lost: bool) -> Node:
    """The node that is decided of, when a trial that helped to is over."""
    in_row = node.losses_in_row + lost if cancelled else 0
    duel = node.pairing.whole() if node.pairing and cancelled else node.pairing
    return replace(node, running=False, losses=node.losses + lost, losses_in_row=in_row, duel=duel)


def reviewed(node: Node, outcome: Outcome) -> Node:
    """Nothing of the node was run: what is known of its measurements stays, and a loss says nothing of it."""
    if outcome.ending is Ending.CANCELLED:
        return replace(node, running=False)
    said = {Ending.FINISHED: True, Ending.REFUSED: False}.get(outcome.ending)
    return replace(node, running=False, review=Review(said, outcome.reason))
