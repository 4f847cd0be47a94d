"""What `loopty init` says at its end: the score, the noise, and what the proposer can do."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.kit.own_installation import extra_command
from loopty.report.figures import figure

_MUCH_NOISE = 5.0
"""Percent from which advice is given: a gain of 5 % would then need some twenty pairs."""
_MOST_NAMES = 4
_PROPOSERS = {
    "mutate": "random edits, a control and a demonstration; on real code a model or an agent is wanted: "
    'kind = "llm-code" under [proposer] with a model under [roles.evolver], or kind = "agent"; or let '
    "your coding agent drive loopty: `loopty install HOST`",
    "random": "random values of the parameters; {samplers} adds samplers that learn, as tpe",
    "tpe": "a sampler that learns which values of the parameters are good; it edits no code",
}

TESTS_TEXT = (
    "no benchmark was found. Better: write a script that calls what should be faster, name it with --command, and "
    "keep the tests as a --gate"
)


def proposer_text(kind: str) -> str:
    """Which proposer will run, and what it can and cannot do."""
    words = _PROPOSERS[kind]
    return f"proposer {kind}: {words.format(samplers=extra_command('samplers')) if '{' in words else words}"


def agents_text(agents: Sequence[str]) -> str:
    """The coding agents that were found, as the recommended proposers."""
    first, *others = agents
    more = f" (also found: {', '.join(others)})" if others else ""
    return (
        f"recommended: {first}, which is on your PATH, can propose changes with your login{more}: under "
        f'[proposer], kind = "agent" and agent = "{first}"'
    )


def last_resort_text(measures: str) -> str:
    """That the benchmark measures something that few want to improve, and what to do about it."""
    return (
        f"a last resort: the score is only {measures}, and no test says whether a candidate still does the same. "
        "Better: write a script that calls what should be faster, and name it with --command, and a --gate"
    )


def score_text(name: str, value: float, direction: str, why: str, others: Sequence[str] = ()) -> str:
    """Which number is the score, which values are better, and why; without a reason, that it is assumed."""
    better, other, opposite = ("lower", "higher", "max") if direction == "min" else ("higher", "lower", "min")
    reason = (
        why or f"assumed, because {name} does not say it; if {other} is, start over with --direction {opposite}"
    )
    more = f"; other numbers: {_list(others)}" if others else ""
    return f"score: {name} {figure(value)}, {better} is better ({reason}){more}"


def editable_text(globs: Sequence[str]) -> str:
    """Which files candidates may change, as the end of a sentence; empty where they set parameters."""
    return f"; candidates may change {_list(globs)}" if globs else ""


def doubt_text(doubt: str) -> str:
    """That the direction may be the wrong one."""
    return f"{doubt}, as a time does: of a time lower is better, and of a score higher"


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def noise_text(metric: str, values: Sequence[float], percent: float, is_cpu_time: bool = False) -> str:
    """How much the score varied, with advice where it is much."""
    runs = f"{len(values)} checked runs"
    if min(values) == max(values):
        return f"noise: {runs} gave the same {metric}, {figure(values[0])}"
    spread = f"{figure(min(values))} to {figure(max(values))}"
    amount = round(percent) if percent >= 10 else f"{percent:.2g}"
    text = f"noise: {metric} varied by {amount} % over {runs} ({spread})"
    if percent < _MUCH_NOISE:
        return text
    advice = ["let one run do more work", "report the best of several rounds"]
    advice = advice if is_cpu_time else ["measure CPU time and not wall time", *advice]
    *first, last = advice
    words = f"{', '.join(first)}, or {last}"
    return f"{text}. That is much: small gains will need many repeats. {words[0].upper()}{words[1:]}"
