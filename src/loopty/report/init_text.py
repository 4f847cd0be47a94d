"""What `loopty init` says at its end: the score, the noise, and what the proposer can do."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.kit.own_installation import extra_command
from loopty.report.columns import wrap
from loopty.report.figures import figure

_MUCH_NOISE = 5.0
"""Percent from which advice is given: a gain of 5 % would then need some twenty pairs."""
_PROPOSERS = {
    "mutate": "random edits, a control and a demonstration; on real code a model or an agent is wanted: "
    'kind = "llm-code" under [proposer] with a model under [roles.evolver], or kind = "agent"; or let '
    "your coding agent drive loopty: `loopty install HOST`",
    "random": "random values of the parameters; {samplers} adds samplers that learn, as tpe",
    "tpe": "a sampler that learns which values of the parameters are good; it edits no code",
}

TESTS_TEXT = (
    "the score is the CPU time of the tests: no benchmark was found that works. Better: write a script that calls "
    "what should be faster, name it with --command, and keep the tests as a --gate"
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


def last_resort_text(measures: str, is_only_one: bool) -> str:
    """That the benchmark measures something that few want to improve, and what to do about it."""
    why = "there is neither a benchmark nor a test" if is_only_one else "nothing else can be measured here"
    better = (
        "write a script that calls what should be faster, and name it with --command"
        if is_only_one
        else "do what is said above and start over with `loopty init --yes --force`, or name your own command"
    )
    return (
        f"a last resort: {why}, so the score is only {measures}, and no test says whether a candidate still "
        f"does the same. Better: {better}, and a --gate"
    )


def direction_text(direction: str, is_known: bool) -> str:
    """Which scores are better; where nobody said so, what to write if it is the other way round."""
    better, other, opposite = ("lower", "higher", "max") if direction == "min" else ("higher", "lower", "min")
    if is_known:
        return f"{better} is better"
    return f'assumed: {better} is better; if {other} is, write direction = "{opposite}" under [objective]'


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


def paragraph(text: str, columns: int) -> str:
    return "\n".join(wrap(text, columns))
