"""What evaluators of other tools return, as one result of the contract."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_LONGEST_TEXT = 20_000
_MOST_ARTIFACTS = 100


def result_of(returned: Any) -> dict[str, Any]:
    """The result in what an evaluator returned: a dictionary, or an object with metrics. Raises ValueError.

    The score is `combined_score`, else the mean of the numbers. Texts and artifacts go along, for the next prompt.
    """
    metrics = getattr(returned, "metrics", returned)
    if not isinstance(metrics, dict):
        raise ValueError(f"the evaluator returned {type(returned).__name__}, not a dictionary of metrics")
    numbers = {str(name): float(value) for name, value in metrics.items() if is_number(value)}
    if not numbers:
        raise ValueError(f"the evaluator returned no finite number: {metrics!r:.200}")
    score = numbers.get("combined_score", sum(numbers.values()) / len(numbers))
    others = {name: value for name, value in metrics.items() if str(name) not in numbers}
    artifacts = artifact_texts({**others, **(getattr(returned, "artifacts", None) or {})})
    return {"score": score, "metrics": numbers, **({"artifacts": artifacts} if artifacts else {})}


def artifact_texts(artifacts: Mapping[Any, Any]) -> dict[str, str]:
    """Each artifact as text, of a long one its end; nothing for what is empty."""
    texts = {str(name): _text(value) for name, value in [*artifacts.items()][:_MOST_ARTIFACTS]}
    return {name: text[-_LONGEST_TEXT:] for name, text in texts.items() if text}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def is_number(value: Any) -> bool:
    """Whether this is a finite number; booleans are none."""
    try:
        return not isinstance(value, (bool, str, bytes)) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def is_number_text(text: str) -> bool:
    """Whether this text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
