"""Every verb works where loopty is installed without an extra: its help, and a use of it on a small task."""

import json
import re
import subprocess
import urllib.request

from loopty.cli.verbs import VERBS

from ..clean_environment import Installed
from .conftest import TASK, UserPlace

HELP = """
import os, sys
from loopty.cli.main import main
from loopty.cli.verbs import VERBS
for verb in VERBS:
    if not os.fork():
        sys.argv = ["loopty", *verb.split(), "--help"]
        main()
    if os.wait()[1]:
        sys.exit(f"loopty {verb} --help fails")
"""


def test_every_verb_has_help(installed: Installed) -> None:
    python = installed.venv / "bin/python"
    done = subprocess.run([python, "-c", HELP], env=installed.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^Usage: loopty ([a-z ]+)", done.stdout, re.MULTILINE) == [f"{verb} " for verb in VERBS]


USED = {
    "a run": (
        "init, config trust, run, status, tree, show, diff, report, best, agent context, model cost, "
        "model direct, config budget, pause, resume, stop"
    ),
    "another tool": "evolve",
    "by hand": (
        "draft new, draft try, draft submit, draft drop, draft merge, node approve, node discard, node reject, "
        "node undo, node recheck, measure rebaseline, measure audit, gate add, gate list, gate check, agent abort"
    ),
    "the results": (
        "measure replay, measure compare, export node, export trials, export branch, export pr, export mlflow, "
        "export wandb, export otlp, apply, system gc, config ledger"
    ),
    "agents and machines": (
        "doctor, model list, model ask, config notify, agent mode, agent install, agent uninstall, hook, "
        "agent tool, agent mcp, system worker, dashboard"
    ),
}
"""The verbs that each test below calls."""


def test_each_verb_is_used_below() -> None:
    assert sorted(", ".join(USED.values()).split(", ")) == sorted(VERBS)


def assert_used(place: UserPlace, name: str) -> None:
    assert not set(USED[name].split(", ")) - place.called


def test_a_run_from_init_to_its_report(place: UserPlace) -> None:
    place.loopty("init", "--yes", "--command", "python3 bench.py", "--write", "program.py", "--attempts", "2")
    assert "nothing beyond the default" in place.loopty("config", "trust")
    assert "2 attempts" in place.loopty("run", "--quiet")
    assert "score 6" in place.loopty("status")
    assert "baseline" in place.loopty("tree")
    assert "@2" in place.loopty("show", "@2")
    assert "program.py" in place.loopty("diff", "@2")
    assert "score" in place.loopty("report")
    assert json.loads(place.loopty("best", "--json"))
    assert "TASK" in place.loopty("agent", "context")
    assert "no model was called" in place.loopty("model", "cost")
    place.loopty("model", "direct", "try larger rates")
    assert "attempts      3" in place.loopty("config", "budget", "attempts=3")
    assert "paused" in place.loopty("pause")
    place.loopty("resume")
    assert "nothing to stop" in place.loopty("stop", code=2)
    assert_used(place, "a run")


def test_a_program_and_an_evaluator_of_another_tool(place: UserPlace) -> None:
    lines = (
        "import importlib.util as u",
        "",
        "",
        "def evaluate(path):",
        "    spec = u.spec_from_file_location('p', path)",
    )
    more = (
        "    p = u.module_from_spec(spec)",
        "    spec.loader.exec_module(p)",
        "    return {'combined_score': p.value()}",
        "",
    )
    (place.top / "evaluator.py").write_text("\n".join((*lines, *more)))
    told = place.loopty("evolve", "program.py", "evaluator.py", "--iterations", "2", "--quiet")
    assert "2 attempts" in told
    assert_used(place, "another tool")


def test_nodes_by_hand(place: UserPlace) -> None:
    (place.top / "held_out.txt").write_text("1\n")
    benchmark = '[benchmark]\nfiles = ["bench.py"]\n'
    audit = '[audit]\nfiles = ["held_out.txt"]\ncommand = "python3 bench.py held_out.txt"\n'
    (place.top / "loopty.toml").write_text(TASK.replace("[benchmark]\n", benchmark) + audit)
    assert "check passed" in place.loopty("run", "1", "--check")
    place.loopty("run", "1")
    assert "no gates" in place.loopty("gate", "list")
    node = place.edited_draft(5)
    place.loopty("draft", "try", node, "--", "python3", "-c", "import program; assert program.value() == 8")
    place.loopty("gate", "add", node, "--name", "imports", "--command", "python3 -c 'import program'")
    assert "imports" in place.loopty("gate", "check", node)
    assert "kept" in place.loopty("draft", "submit", node)
    assert "equals the search's exactly (8)" in " ".join(place.loopty("measure", "audit", node, code=1).split())
    assert "withdrawn" in place.loopty("node", "discard", node, "--why", "a test")
    place.loopty("node", "recheck")
    place.loopty("node", "undo", node, "--why", "a test")
    assert "withdrawn" in place.loopty("node", "reject", node, "--why", "a test")
    place.loopty("node", "undo", node, "--why", "a test")
    assert "is not held" in place.loopty("node", "approve", node, "--why", "a test", code=2)
    place.loopty("measure", "rebaseline")
    place.loopty("draft", "drop", place.edited_draft(6))
    place.loopty("draft", "submit", (other := place.edited_draft(6)))
    assert "conflict: program.py" in place.loopty("draft", "merge", node, other)
    assert "no open ticket" in place.loopty("agent", "abort", node, code=2)
    assert_used(place, "by hand")


def test_what_becomes_of_a_result(place: UserPlace) -> None:
    (place.top / "loopty.toml").write_text(TASK)
    place.loopty("run", "1")
    place.loopty("run", place.edited_draft(5))
    assert "reproduced" in place.loopty("measure", "replay", "best")
    assert "digest" in place.loopty("export", "node", "best")
    assert "3 trials" in place.loopty("export", "trials", "trials.csv")
    assert "mlflow-skinny" in place.loopty("export", "mlflow", "sqlite:///m.db", code=2)
    place.loopty("export", "wandb", "p", code=2)
    place.loopty("export", "otlp", "http://127.0.0.1:1", code=2)
    assert "branch" in place.loopty("export", "branch", "best")
    assert "branch" in place.loopty("apply", "best")
    assert "RATE" in place.loopty("export", "pr", "best", "--branch", "for-review")
    place.loopty("system", "gc")
    assert "sqlite:" in place.loopty("config", "ledger")
    for name in ("a", "b"):
        (place.top / f"{name}.toml").write_text(f'statement = "{name}"\n')
    told = place.loopty(
        "measure", "compare", "--arm", "a.toml", "--arm", "b.toml", "--seeds", "1", "--budget", "1 attempts"
    )
    assert "a" in told
    assert_used(place, "the results")


def test_agents_and_other_machines(place: UserPlace) -> None:
    (place.top / "loopty.toml").write_text(TASK)
    assert "sandbox" in place.loopty("doctor")
    assert "no model is configured" in place.loopty("model", "list")
    assert "nobody" in place.loopty("model", "ask", "nobody", code=2)
    assert "notices go nowhere" in place.loopty("config", "notify")
    assert "autonomous" in place.loopty("agent", "mode")
    place.loopty("agent", "install", "generic")
    place.loopty("agent", "uninstall", "generic")
    place.loopty("hook", "Stop")
    assert "TASK" in place.loopty("agent", "tool", "context")
    assert "name the URL" in place.loopty("system", "worker", code=2)
    assert_mcp_serves(place)
    assert_dashboard_answers(place)
    assert_used(place, "agents and machines")


def assert_mcp_serves(place: UserPlace) -> None:
    with place.start("agent", "mcp") as server:
        assert server.stdin
        assert server.stdout

        def ask(number: int, method: str, **params: object) -> dict:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            assert answer["id"] == number
            return answer["result"]

        host = {"name": "test", "version": "1"}
        answer = ask(1, "initialize", protocolVersion="2025-06-18", clientInfo=host, capabilities={})
        assert answer["serverInfo"]["name"] == "loopty"
        assert "submit" in {tool["name"] for tool in ask(2, "tools/list")["tools"]}
        called = ask(3, "tools/call", name="open", arguments={"hypothesis": "a larger rate"})
        assert not called["isError"], called
        assert "Opened @2" in called["content"][0]["text"]
        server.stdin.close()
        assert server.wait(60) == 0


def assert_dashboard_answers(place: UserPlace) -> None:
    with place.start("dashboard", "--json", "--ends-with-input") as server:
        assert server.stdin
        assert server.stdout
        url = json.loads(server.stdout.readline())["url"]
        page, _, token = url.partition("#token=")
        question = urllib.request.Request(f"{page}api/overview", headers={"X-Loopty-Token": token})
        with urllib.request.urlopen(question, timeout=60) as answer:
            assert json.load(answer)["run"] == 1
        server.stdin.close()
        assert server.wait(60) == 0
