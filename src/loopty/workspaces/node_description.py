"""What people read about a node: what it is, its verdict with the reason, its metrics beside those of others."""

from __future__ import annotations

import json

from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents


def description_files(node: Node) -> dict[str, bytes]:
    """What the node is, for people. The text is last: where they are plain files, it says that all are there."""
    text = f"# {node.name} ({node.id})\n\n{node.operator}: {node.summary}\n\ncommit {node.commit}\n"
    params = {"params.json": f"{json.dumps(dict(node.params), indent=2)}\n".encode()} if node.params else {}
    return {**params, "description.md": text.encode(errors="replace")}


def analysis_files(node: Node, history: History) -> dict[str, bytes]:
    """The analysis of a node that was measured, as a file: it is made when the node's folder is laid out."""
    if node.verdict is None and node.outcome is None:
        return {}
    return {"analysis.md": _analysis_text(node, history).encode(errors="replace")}


def _analysis_text(node: Node, history: History) -> str:
    """Markdown with a table of metrics: the node, the baseline, the node before it and the best one."""
    lines = [f"# {node.name}: {node.verdict or 'no verdict'}", "", node.reason, ""]
    best = Incumbents.of(history.runs[node.id.run], node.pool).best
    compared = {"baseline": history.runs[node.id.run].root, "before": node.against, "best": best}
    columns = {name: history[other] for name, other in compared.items() if other}
    if node.outcome and node.outcome.metrics:
        lines += [f"| metric | {node.name} | {' | '.join(f'{k} {n.name}' for k, n in columns.items())} |"]
        lines += ["|---" * (2 + len(columns)) + "|"]
        for name, value in node.outcome.metrics.items():
            others = (n.outcome.metrics.get(name) if n.outcome else None for n in columns.values())
            cells = " | ".join("–" if other is None else f"{other:g}" for other in others)
            lines.append(f"| {name} | {value:g} | {cells} |")
    return "\n".join((*lines, ""))
