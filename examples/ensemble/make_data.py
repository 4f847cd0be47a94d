"""Makes the data of this example: two classes that depend on three pairs of features in three different ways."""

import json
import math
import random
import sys
from pathlib import Path

ROWS = 160


def make_data(seed):
    """Training rows with labels, and as many held-out ones."""
    rng = random.Random(f"ensemble {seed}")
    rows = [[round(rng.gauss(0, 1), 4) for _ in range(6)] for _ in range(2 * ROWS)]
    labels = [int(rng.random() < 1 / (1 + math.exp(-_logit(row)))) for row in rows]
    return rows[:ROWS], labels[:ROWS], rows[ROWS:], labels[ROWS:]


def _logit(row):
    linear = 1.2 * row[0] - 0.8 * row[1]
    corners = 1.5 if row[2] * row[3] > 0 else -1.5
    ring = 1.5 if row[4] ** 2 + row[5] ** 2 > 1.4 else -1.5
    return linear + corners + ring


if __name__ == "__main__":
    rows, labels, held_out_rows, held_out_labels = make_data(int(sys.argv[1]))
    data = {"rows": rows, "labels": labels, "held_out_rows": held_out_rows}
    Path("rows.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")
    Path("held_out_labels.json").write_text(json.dumps(held_out_labels, separators=(",", ":")) + "\n")
