"""Trials for other programs, from the saved record."""

from __future__ import annotations

from pathlib import Path

from loopty.campaign.saved_record import SavedRecord
from loopty.views.trial_rows import trial_rows


class TrialExport:
    """The trials of one run, and the places that they can go to. Each method returns how many went there."""

    def __init__(self, record: SavedRecord, run: int) -> None:
        self._record = record
        self._run = run
        self._repository = record.state.top.name

    def write_table(self, path: Path) -> int:
        """Write a table: CSV or Parquet, by the path's ending."""
        from loopty.exporters.trial_table import write_trial_table

        rows = list(trial_rows(self._record.history, self._record.events(), self._run))
        write_trial_table(rows, path)
        return len(rows)

    def send_to_mlflow(self, address: str) -> int:
        from loopty.exporters.mlflow_runs import export_to_mlflow

        rows = trial_rows(self._record.history, self._record.events(), self._run)
        return export_to_mlflow(rows, address, f"loopty {self._repository} run {self._run}")

    def send_to_wandb(self, project: str, offline: bool) -> int:
        """Log a run; its files lie in `.loopty/wandb/`, which git ignores."""
        from loopty.exporters.wandb_run import export_to_wandb

        rows = trial_rows(self._record.history, self._record.events(), self._run)
        self._record.state.prepare()
        folder = self._record.state.work_folder.shown_path
        return export_to_wandb(rows, project, f"{self._repository} run {self._run}", folder, offline)

    def send_spans(self, address: str) -> int:
        """Send trials and model calls to a collector of OpenTelemetry."""
        import itertools

        from loopty.exporters.otlp_spans import call_spans, send_spans, trial_spans

        rows = trial_rows(self._record.history, self._record.events(), self._run)
        spans = itertools.chain(trial_spans(rows), call_spans(self._record.call_events(), self._run))
        return send_spans(spans, address, self._repository, self._run)
