"""The result file of loopty's own contract: one JSON object at $EVO_RESULT_PATH."""

from __future__ import annotations

from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.result import ParsedResult, parse_result
from loopty.evaluators.trial_output import RESULT, TrialOutput
from loopty.kit.untrusted_files import Unreadable


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    try:
        raw = output.file(RESULT)
        return None if raw is None else parse_result(raw, score_key)
    except Unreadable as error:
        raise Unreadable(f"the result file {error}") from None


FORMAT = ResultFormat(
    _read,
    "the result file was not written, and neither was the metrics CSV ($EVO_RESULT_PATH, $LOOPTY_METRICS_CSV)",
)
