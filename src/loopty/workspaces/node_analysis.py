"""The analysis of a node, as text: its verdict, the reason, and its metrics beside those it is compared with."""

from __future__ import annotations

from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents


def analysis_files(node: Node, history: History) -> dict[str, bytes]:
    """The analysis of a node that has a verdict, as a file: it is made when the node's folder is laid out."""
    return {"analysis.md": _analysis_text(node, history).encode(errors="replace")} if node.verdict else {}


def _analysis_text(node: Node, history: History) -> str:
    """Markdown with a table of metrics: the node, the baseline, the node before it and the best one."""
    lines = [f"# {node.id}: {node.verdict}", "", node.reason, ""]
    best = Incumbents.of(history.runs[node.id.run], node.pool).best
    compared = {"baseline": history.runs[node.id.run].root, "before": node.against, "best": best}
    columns = {name: history[other] for name, other in compared.items() if other}
    if node.outcome and node.outcome.metrics:
        lines += [f"| metric | {node.id} | {' | '.join(f'{k} {n.id}' for k, n in columns.items())} |"]
        lines += ["|---" * (2 + len(columns)) + "|"]
        for name, value in node.outcome.metrics.items():
            others = (n.outcome.metrics.get(name) if n.outcome else None for n in columns.values())
            cells = " | ".join("–" if other is None else f"{other:g}" for other in others)
            lines.append(f"| {name} | {value:g} | {cells} |")
    return "\n".join((*lines, ""))
