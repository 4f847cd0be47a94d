"""The family of confirmations: fresh pairs of the best node and the baseline, on which a run's headline rests."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.kit.records import replace
from loopty.record import samples
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.node_record import Pairing
from loopty.record.run_record import RunPart
from loopty.record.trials import TrialEnded, Trials, trial_name


class Confirmation(RunPart):
    """The newest confirmation of a run. Its pairs serve no verdict, so nothing selected them."""

    node: NodeId | None = None
    """The node that was measured beside the baseline."""
    fingerprint: str = ""
    pairing: Pairing | None = None

    def pairing_of(self, node: NodeId, fingerprint: str) -> Pairing | None:
        """The pairs of this node and the baseline under this fingerprint."""
        return self.pairing if self.node == node and self.fingerprint == fingerprint else None


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    run, outcome = state.runs[event.node.run], event.outcome
    trial = Trials.of(run).running[trial_name(event.node, event.number)]
    if trial.pool is not Pool.CONFIRM or trial.subject is None:
        return
    known = Confirmation.of(run).pairing_of(trial.subject, outcome.fingerprint or Confirmation.of(run).fingerprint)
    pairing = known or Pairing(run.root)
    sample = samples.counting_sample(outcome, state.counting_metrics(run.number))
    if sample and event.node == trial.subject:
        pairing = replace(pairing, mine=pairing.mine + sample)
    elif sample:
        pairing = replace(pairing, theirs=pairing.theirs + sample)
    elif outcome.ending is Ending.CANCELLED:
        pairing = pairing.whole_pairs()
    else:
        failures = pairing.failures + (event.node == trial.subject)
        pairing = replace(pairing.whole_pairs(), faults=pairing.faults + 1, failures=failures)
    fingerprint = outcome.fingerprint or Confirmation.of(run).fingerprint
    state.put_run(run.with_part(Confirmation(trial.subject, fingerprint, pairing)))


FAMILY = Family((), {TrialEnded: _end})
