"""Trials that no worker could run: nobody's failure, as with a model that is unavailable."""

from __future__ import annotations

from loopty.domain.model import Outage


class WorkerOutage(Outage):
    """No worker is left to run trials."""

    @property
    def message(self) -> str:
        """One sentence for the user who waits."""
        return str(self)


class TrialLosesWorkers(WorkerOutage):
    """One trial lost several workers in a row: perhaps it kills them."""
