"""The result of a ticket, in few words: an agent pays for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.trial import Effect, Verdict
from loopty.kit.foreign_text import one_line
from loopty.show.figures import figure, node_name, plural, sign
from loopty.show.node import NodeDetail
from loopty.show.running import Remaining
from loopty.show.search_context import remaining_text

MOST_WORDS = 80
_REASON_WORDS, _DIRECTIVE_WORDS, _LINE_WORDS, _MOST_LINES = 20, 16, 8, 10
_LONGEST_LINE = 120
_NEXT = {
    Verdict.KEPT: "open the next idea on it",
    Verdict.DISCARDED: "another idea; the same is not measured again",
    Verdict.INCONCLUSIVE: "another idea; the same is not measured again",
    Verdict.REJECTED: "correct it once in a new draft, or leave it",
    Verdict.QUARANTINED: "another idea",
    Verdict.HELD: "a person looks at it; go on with another idea",
}


def attempt_text(
    detail: NodeDetail, best: str, error_lines: Sequence[str], left: Remaining | None, directive: str
) -> str:
    """Describe a node in at most 80 words: verdict, effect over parent and incumbent, integrity, what is left."""
    node = detail.node
    reason = first_words(one_line(node.reason, 400), _REASON_WORDS)
    parts = [f"{node.name} {node.verdict}: {reason}.", *_effects(detail)]
    if best:
        parts.append(f"Best: {best}.")
    if node.outcome and node.outcome.integrity:
        parts.append(f"Integrity {node.outcome.integrity}.")
    if left:
        parts.append(f"Left: {remaining_text(left)}.")
    if node.verdict in _NEXT:
        parts.append(f"Next: {_NEXT[node.verdict]}.")
    text = " ".join(parts)
    order = f"\nDirective: {first_words(' '.join(directive.split()), _DIRECTIVE_WORDS)}" if directive else ""
    return text + error_excerpt(error_lines, MOST_WORDS - len((text + order).split())) + order


def _effects(detail: NodeDetail) -> Iterator[str]:
    node, over = detail.node, detail.over_parent
    is_same = node.against == node.id.parent
    if over and not (node.effect and is_same):
        share = f" ({sign(over.change.percent)}{abs(over.change.percent):.2g} %)" if over.change.percent else ""
        yield f"Over its parent {_signed(over.change.amount)}{share}."
    if node.effect and node.against:
        name = "its parent" if is_same else node_name(node.against, detail.against_handle)
        yield f"Over {name} {_effect(node.effect)}."


def _effect(effect: Effect) -> str:
    """`+0.21 (5 pairs)`."""
    return f"{_signed(effect.amount)} ({plural(effect.pairs, 'pair')})"


def _signed(amount: float) -> str:
    return f"{sign(amount)}{figure(abs(amount))}"


def error_excerpt(lines: Sequence[str], words: int) -> str:
    """Quote what a failed gate or benchmark printed: at most ten lines, as far as its words have room."""
    shown = []
    for line in lines[-_MOST_LINES:]:
        text = first_words(one_line(line, _LONGEST_LINE), _LINE_WORDS)
        words -= len(text.split()) + 1
        if words < 0:
            break
        shown.append(f"\n| {text}")
    return "".join(shown)


def first_words(text: str, most: int) -> str:
    words = text.split()
    return text if len(words) <= most else " ".join(words[:most]) + "…"
