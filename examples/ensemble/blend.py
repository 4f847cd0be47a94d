"""The second stage: a weighted mean of the pool's predictions, in logits. An audit scores the held-out rows."""

import json
import math
from pathlib import Path

from classifiers import log_loss


def blend(members, weights):
    """The weighted mean of the members' logits, as probabilities."""
    total = sum(weights) or 1.0
    blended = []
    for column in zip(*members, strict=False):
        logit = sum(w * math.log(p / (1 - p)) for w, p in zip(weights, map(_safe, column), strict=False)) / total
        blended.append(1 / (1 + math.exp(-STRETCH * logit)))
    return blended


def _safe(probability):
    return min(max(probability, 1e-3), 1 - 1e-3)


STRETCH = 1.6
"""Members that see different features each know a part of the logit: their mean is too careful."""


def main():
    from loopty_sdk import Run

    with Run() as run:
        is_audit = run.mode == "audit"
        part, pool = "held_out" if is_audit else "out_of_fold", Path("loopty-pool")
        index = json.loads((pool / "pool.json").read_text())["members"]
        members = [json.loads((pool / one["folder"] / "predictions.json").read_text())[part] for one in index]
        data = json.loads(Path("held_out_labels.json" if is_audit else "rows.json").read_text())
        weights = [run.params.get(f"weight_{place}", 1.0) for place in range(len(members))]
        run.finish(-log_loss(blend(members, weights), data if is_audit else data["labels"]))


if __name__ == "__main__":
    main()
