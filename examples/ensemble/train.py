"""The search: out-of-fold log loss of one classifier, held-out in an audit. Its predictions are published."""

import json
import os
from pathlib import Path

from classifiers import log_loss, out_of_fold

from loopty_sdk import Run

with Run() as run:
    data = json.loads(Path("rows.json").read_text())
    defaults = {"kind": "line", "view": "all", "neighbours": 9, "penalty": 0.01, "parts": 2}
    found, held_out = out_of_fold({**defaults, **run.params}, data["rows"], data["labels"], data["held_out_rows"])
    if folder := os.environ.get("LOOPTY_ARTIFACTS_DIR"):
        (Path(folder) / "predictions.json").write_text(json.dumps({"out_of_fold": found, "held_out": held_out}))
    if run.mode == "audit":
        run.finish(-log_loss(held_out, json.loads(Path("held_out_labels.json").read_text())))
    else:
        run.finish(-log_loss(found, data["labels"]))
