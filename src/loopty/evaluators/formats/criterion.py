"""Reads the estimates that criterion (Rust) writes below $CRITERION_HOME, so the command stays as it is."""

from __future__ import annotations

from loopty.evaluators.formats.result_format import Environment, ResultFormat
from loopty.evaluators.formats.timings import SECONDS, Timings
from loopty.evaluators.result import ParsedResult, finite_number
from loopty.evaluators.trial_output import TrialOutput
from loopty.kit.untrusted_files import Unreadable, json_object

_FOLDER = "criterion"
_END = "/new/estimates.json"
_FIGURES = ("median", "mean", "slope")


def _environment(environment: Environment, _result: str, outbox: str) -> Environment:
    return {**environment, "CRITERION_HOME": f"{outbox}/{_FOLDER}"}


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    timings = Timings()
    for path, raw in output.files_below(_FOLDER, _END):
        estimates = json_object(raw)
        figures = {}
        for figure in _FIGURES:
            estimate = estimates.get(figure)
            if estimate is None:
                continue  # benchmarks with few iterations have no slope
            if not isinstance(estimate, dict):
                raise Unreadable(f"has a {figure} that is not an object")
            figures[figure] = (
                finite_number(estimate.get("point_estimate"), f"{figure}.point_estimate") * SECONDS["ns"]
            )
        if "median" not in figures:
            raise Unreadable("has a benchmark without a median")
        timings.add(path.removesuffix(_END), figures)
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "criterion wrote no estimates below $CRITERION_HOME: does `cargo bench` run a benchmark of criterion 0.3 or "
    "later?",
    _environment,
)
