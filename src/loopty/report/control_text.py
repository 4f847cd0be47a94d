"""What the control's result means beside that of the search, in words."""

from __future__ import annotations

from loopty.report.node_name import node_name
from loopty.report.score_text import ScoreText
from loopty.views.run_status import RunStatus


def control_text(status: RunStatus) -> str:
    """The best control node against the baseline and the best attempt; empty before a control trial has ended."""
    control, scores = status.control, ScoreText.of_run(status)
    if control is None:
        return ""
    if control.over_baseline is None:
        return "control: nothing better than the baseline"
    result = f"{node_name(control.node, control.handle)}: {scores.score(control.score)}"
    result += f", {scores.change_words(control.over_baseline, 'the baseline')}"
    if status.uplift is None:
        return f"control {result}"
    if status.best and status.best.over_baseline:
        result += f"; the best attempt is {scores.change_words(status.uplift, 'that')}"
    if not status.control_leads:
        return f"control {result}"
    return (
        f"but the control found {result}. Random changes did better than the proposer in this run: "
        "use the control's node, and try another proposer or more attempts"
    )


def control_hint(status: RunStatus) -> str:
    """One line for verbs that are about the best attempt; empty where the control did not do better."""
    control = status.control
    if control is None or not status.control_leads:
        return ""
    score = ScoreText.of_run(status).score(control.score)
    name = node_name(control.node, control.handle)
    return (
        f"random changes did better than the proposer: the control's node {name} has {status.metric} {score}. "
        f"Use it instead: loopty apply {name}; and try another proposer or more attempts"
    )
