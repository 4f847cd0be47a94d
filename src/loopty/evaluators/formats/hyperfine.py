"""Reads the JSON of hyperfine: `hyperfine --export-json $EVO_RESULT_PATH …`."""

from __future__ import annotations

from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.formats.timings import Timings, seconds_of
from loopty.evaluators.result import ParsedResult
from loopty.evaluators.trial_output import RESULT, TrialOutput
from loopty.kit.untrusted_files import Unreadable, json_object


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT)
    if raw is None:
        return None
    timings = Timings()
    for command in json_object(raw).get("results") or []:
        if not isinstance(command, dict):
            raise Unreadable("has a command that is not an object")
        timings.add(command.get("command"), seconds_of(command, ("median", "mean", "min", "user", "system")))
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "hyperfine exported no command: add `--export-json $EVO_RESULT_PATH` to its options in benchmark.command",
)
