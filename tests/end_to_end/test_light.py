"""Reading verbs start fast: they do not import what only model calls need."""

import re
import subprocess
import sys

HEAVY = {"asyncio", "genai_prices", "h11", "httpx", "httpx2", "keyring", "optuna", "pydantic_ai", "xllamacpp"}
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


NOT_OF_NEW = {
    *("asyncio", "click", "ctypes", "logging", "loopty.engine.budget", "loopty.kit.fence"),
    *("loopty.campaign.hand_decisions", "loopty.campaign.run_start", "loopty.domain.rig", "loopty.judge"),
    *("loopty.ledgers.postgres_address", "loopty.ledgers.row_check", "loopty.record.nodes_in_memory"),
    *("loopty.record.directives", "loopty.record.notes", "loopty.record.tickets", "loopty.record.tunings"),
    *("loopty.record.reviews", "loopty.record.role_shares", "loopty.record.workers", "loopty.views"),
    *(
        "loopty.workspaces.benchmark_imports",
        "loopty.workspaces.rebuildable_folders",
        "loopty.workspaces.three_way",
    ),
}
NOT_OF_RUN = {
    *("click", "inspect", "ssl", "loopty.judge.confirmation", "loopty.kit.fence", "loopty.ledgers.row_check"),
    *("loopty.record.directives", "loopty.record.notes", "loopty.record.tickets", "loopty.record.nodes_in_memory"),
    *("loopty.views.pool_choice", "loopty.workspaces.three_way"),
}
PRINT_MODULES = """
import atexit, sys
def imported():
    return (name for name, module in sys.modules.items() if type(module).__name__ != "_LaterModule")
atexit.register(lambda: print("modules:", *imported()))
from loopty.cli.main import main
main()
"""


def modules_of(place, *words):
    """The modules that are imported when this verb ends."""
    command = [sys.executable, "-c", PRINT_MODULES, *words]
    done = subprocess.run(command, cwd=place.top, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("modules:")[2].split())


def test_verbs_by_hand_import_nothing_of_other_verbs(parameter_place):
    parameter_place.loopty("run", "1")
    of_new = modules_of(parameter_place, "new", "--parent", "1", "--param", "x=0.25")
    assert "loopty.campaign.new_drafts" in of_new
    assert not NOT_OF_NEW & of_new
    of_run = modules_of(parameter_place, "run", "1.1")
    assert "loopty.campaign.by_hand" in of_run
    assert not NOT_OF_RUN & of_run


def test_a_session_folds_its_write_ahead_log_into_the_ledger(parameter_place):
    command = [sys.executable, "-m", "loopty.cli.main", "optimize", "--quiet"]
    subprocess.run(command, cwd=parameter_place.top, check=True)
    assert [path.name for path in (parameter_place.top / ".git/loopty").glob("ledger*")] == ["ledger.sqlite"]
