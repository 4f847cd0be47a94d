"""Reading verbs start fast: they do not import what only model calls need."""

import re
import subprocess
import sys

HEAVY = {"asyncio", "genai_prices", "h11", "httpx", "httpx2", "keyring", "optuna", "pydantic_ai"}
MODELS = """
[models.mini]
provider = "openai"
model = "gpt-5-mini"
[roles.evolver]
model = "mini"
[proposer]
kind = "ladder"
[[proposer.rungs]]
kind = "tpe"
[[proposer.rungs]]
kind = "llm-parameters"
"""


def test_reading_verbs_import_nothing_that_only_models_need(parameter_place):
    parameter_place.loopty("optimize", "--quiet")
    text = (parameter_place.top / "loopty.toml").read_text()
    parameter_place.write("loopty.toml", text + MODELS)
    for verb in (["--version"], ["status"], ["tree"], ["show", "1"], ["spend"], ["direct"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "loopty.cli.main", *verb],
            cwd=parameter_place.top,
            capture_output=True,
            text=True,
            check=True,
        )
        imported = set(re.findall(r"^import time:.*\| +([\w.]+)$", done.stderr, re.MULTILINE))
        assert "loopty.version" in imported
        assert not HEAVY & imported, verb
        assert "click" not in imported or verb != ["--version"]


def test_a_session_folds_its_write_ahead_log_into_the_ledger(parameter_place):
    command = [sys.executable, "-m", "loopty.cli.main", "optimize", "--quiet"]
    subprocess.run(command, cwd=parameter_place.top, check=True)
    assert [path.name for path in (parameter_place.top / ".git/loopty").glob("ledger*")] == ["ledger.sqlite"]
