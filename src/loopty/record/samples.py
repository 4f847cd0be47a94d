"""How a measurement changes what is known about a node: samples, pairings, losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopty.domain.evidence import noise_floor
from loopty.domain.objective import WEIGHTED_SUM, Metric, Metrics
from loopty.domain.outcome import Outcome
from loopty.kit.records import replace
from loopty.record.node_record import Node, Pairing, Result

ENOUGH_TO_VARY = 3
"""From this many samples on, it is known how much a node varies."""


def counting_sample(outcome: Outcome, counting: Iterable[Metric]) -> tuple[Metrics, ...]:
    """The counting metrics of one measurement; empty when it gave no result."""
    if not outcome.is_finished:
        return ()
    names = (*(metric.name for metric in counting), WEIGHTED_SUM)
    return ({name: outcome.metrics[name] for name in names if name in outcome.metrics},)


def add_sample(node: Node, outcome: Outcome, sample: Metrics) -> Node:
    """The node with one more sample under the outcome's fingerprint."""
    node = replace(node, first_looks_lost=0, faults_in_row=0)
    known = node.result(outcome.fingerprint)
    result = known.with_sample(sample) if known else Result(outcome, (sample,))
    if node.outcome and node.outcome.fingerprint == outcome.fingerprint:
        return replace(node, outcome=result.outcome, samples=result.samples)
    return replace(node, other_fingerprints={**node.other_fingerprints, outcome.fingerprint: result})


def pairing_with(node: Node, incumbent: Node, noise_by_fingerprint: Mapping[str, Mapping[str, float]]) -> Pairing:
    """The node's pairing with this incumbent: the one under way, or a new one.

    The measurement that made the node look better is its half of the first pair, the one of the incumbent right
    after it the other half; against a later incumbent these are stale.
    """
    if node.pairing and node.pairing.incumbent == incumbent.id:
        return node.pairing
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    known = incumbent.result(fingerprint)
    noise = noise_by_fingerprint.get(fingerprint, {})
    if known and len(known.samples) >= ENOUGH_TO_VARY:
        noise = noise_floor(known.samples)
    if node.pairing:
        return Pairing(incumbent.id, noise)
    return Pairing(incumbent.id, noise, node.samples[-1:], node.fresh_rival[:1])


def add_repeat(node: Node, outcome: Outcome, samples: tuple[Metrics, ...], own: bool) -> Node:
    """The node under judgement after a repeated measurement of itself (`own`) or of its incumbent."""
    same = node.outcome is not None and node.outcome.fingerprint == outcome.fingerprint
    if own and not same:
        # The machine changed before the verdict: measurements from there do not help here.
        fault = None if outcome.is_finished else outcome
        return replace(node, outcome=outcome, samples=samples, pairing=None, fault=fault)
    if own and not samples:
        return replace(node, fault=outcome)
    if own:
        node = add_sample(node, outcome, samples[0])
    pairing = node.pairing
    if pairing is None and same and not own:
        node = replace(node, fresh_rival=node.fresh_rival + samples)
    if pairing and samples and same:
        mine, theirs = (samples, ()) if own else ((), samples)
        pairing = replace(pairing, mine=pairing.mine + mine, theirs=pairing.theirs + theirs)
    elif pairing:
        failures = pairing.failures + (not outcome.is_finished)
        pairing = replace(pairing.whole_pairs(), faults=pairing.faults + 1, failures=failures)
    return replace(node, pairing=pairing)


def stop_running(node: Node, cancelled: bool, lost: bool) -> Node:
    """The node under judgement after a trial that serves its verdict has ended."""
    in_row = node.losses_in_row + lost if cancelled else 0
    pairing = node.pairing.whole_pairs() if node.pairing and cancelled else node.pairing
    return replace(node, running=False, losses=node.losses + lost, losses_in_row=in_row, pairing=pairing)
