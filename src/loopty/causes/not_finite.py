"""Cause: a benchmark that prints NaN or an infinity as its score."""

from __future__ import annotations

import re

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts
from loopty.kit.not_finite import not_finite_text, printed_not_finite


def score_is_not_finite(failure: Failure, _facts: HostFacts) -> Cause | None:
    """A result without a finite score."""
    said = re.search(
        r"has an? .+ that is (?P<value>NaN|-?Infinity)|\((?P<constant>NaN|-?Infinity) is", failure.reason
    )
    printed = printed_not_finite(failure.lines[-1]) if failure.lines else None
    if said:
        value = said["value"] or said["constant"]
    elif printed and "result file was not written" in failure.reason:
        value = not_finite_text(printed[1])
    else:
        return None
    return Cause(
        "score-not-finite",
        f"{failure.subject} computed {value}, which is no score",
        advice="find out where it comes from, as a division by zero or a loss that diverged",
    )
