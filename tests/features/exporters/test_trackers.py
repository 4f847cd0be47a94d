"""Trials in MLflow and in Weights & Biases, both on this machine alone.

Each runs in a process of its own: the libraries warn, start threads and leave handlers behind.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from ...servers.raw_server import raw_server

HOSTILE_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{"experiment": 5}'
ROWS = """
import json, sys
from pathlib import Path
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.show.trial_rows import TrialRow
rows = [
    TrialRow(1, NodeId(f"1.{n}"), n, 1, Pool.ATTEMPT, "1", "rewrite", "a change", "kept", "better", "finished", "",
             1000.0 + n, 0.5, "f", {"lr": 0.1 * n}, {"score": float(n)})
    for n in (1, 2)
]
"""


def run(code: str, folder, **environment: str) -> object:
    """What the code prints as JSON in its last line."""
    done = subprocess.run(
        [sys.executable, "-c", ROWS + code],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not importlib.util.find_spec("mlflow"), reason="mlflow is not installed")
def test_mlflow_gets_each_trial_once(tmp_path):
    found = run(
        """
from loopty.features.exporters.trials import export_to_mlflow
sent = [export_to_mlflow(rows[:1], "sqlite:///m.db", "x"), export_to_mlflow(rows, "sqlite:///m.db", "x")]
from mlflow.tracking import MlflowClient
client = MlflowClient("sqlite:///m.db")
runs = client.search_runs([client.get_experiment_by_name("x").experiment_id])
print(json.dumps([sent, sorted((r.info.run_name, r.data.metrics, r.data.params, r.info.status) for r in runs)]))
""",
        tmp_path,
        MLFLOW_DISABLE_TELEMETRY="true",
    )
    assert found == [
        [1, 1],
        [
            ["1.1#1", {"score": 1.0}, {"lr": "0.1"}, "FINISHED"],
            ["1.2#1", {"score": 2.0}, {"lr": "0.2"}, "FINISHED"],
        ],
    ]


@pytest.mark.skipif(not importlib.util.find_spec("mlflow"), reason="mlflow is not installed")
def test_neither_hostile_names_nor_a_hostile_server_stop_the_export_with_a_traceback(tmp_path):
    with raw_server(HOSTILE_ANSWER) as (port, _):
        found = run(
            f"""
from loopty.domain.errors import Misuse
from loopty.features.exporters.trials import export_to_mlflow
from loopty.kit.records import replace
names = ["/../x", "a/../b", "", "a\\nb", "m" * 5_000, "\\ud800", "loss/train"]
params, metrics = dict.fromkeys(names, "\\ud800"), dict.fromkeys(names, 1.0)
bad = replace(rows[0], summary="\\ud800", params=params, metrics=metrics)
sent = export_to_mlflow([bad, rows[1]], "sqlite:///m.db", "x")
try:
    export_to_mlflow(rows, "http://127.0.0.1:{port}", "x")
except Misuse as error:
    print(json.dumps([sent, str(error)]))
""",
            tmp_path,
            MLFLOW_DISABLE_TELEMETRY="true",
        )
    assert found[0] == 2
    assert "refused: Failed to parse" in found[1]


@pytest.mark.skipif(not importlib.util.find_spec("wandb"), reason="wandb is not installed")
def test_weights_and_biases_keeps_an_offline_run(tmp_path):
    count = run(
        """
from loopty.features.exporters.trials import export_to_wandb
print(json.dumps(export_to_wandb(rows, "p", "n", Path.cwd(), True)))
""",
        tmp_path,
        WANDB_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert count == 2
    (log,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert log.stat().st_size > 0
