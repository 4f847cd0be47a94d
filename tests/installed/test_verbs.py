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
        sys.argv = ["loopty", verb, "--help"]
        main()
    if os.wait()[1]:
        sys.exit(f"loopty {verb} --help fails")
"""


def test_every_verb_has_help(installed: Installed) -> None:
    python = installed.venv / "bin/python"
    done = subprocess.run([python, "-c", HELP], env=installed.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^Usage: loopty ([a-z]+)", done.stdout, re.MULTILINE) == list(VERBS)


USED = {
    "a run": "init evolve trust optimize status tree show diff report best context spend direct budget pause "
    "resume stop",
    "by hand": "new try run drop merge accept discard invalidate restore remeasure rebaseline audit gate abort",
    "the results": "replay export apply branch pr gc ledger ab",
    "agents and machines": "doctor models notify mode install uninstall hook tool mcp worker dashboard",
}
"""The verbs that each test below calls."""


def test_each_verb_is_used_below() -> None:
    assert sorted(" ".join(USED.values()).split()) == sorted(VERBS)


def assert_used(place: UserPlace, name: str) -> None:
    assert not set(USED[name].split()) - place.called


def test_a_run_from_init_to_its_report(place: UserPlace) -> None:
    place.loopty("init", "--yes", "--command", "python3 bench.py", "--write", "program.py", "--attempts", "2")
    assert "has neither evaluate(program_path)" in place.loopty("evolve", "program.py", "bench.py", code=2)
    assert "nothing beyond the default" in place.loopty("trust")
    assert "2 attempts" in place.loopty("optimize", "--quiet")
    assert "score 6" in place.loopty("status")
    assert "baseline" in place.loopty("tree")
    assert "@2" in place.loopty("show", "@2")
    assert "program.py" in place.loopty("diff", "@2")
    assert "score" in place.loopty("report")
    assert json.loads(place.loopty("best", "--json"))
    assert "TASK" in place.loopty("context")
    assert "no model was called" in place.loopty("spend")
    place.loopty("direct", "try larger rates")
    assert "attempts      3" in place.loopty("budget", "attempts=3")
    assert "paused" in place.loopty("pause")
    place.loopty("resume")
    assert "nothing to stop" in place.loopty("stop", code=2)
    assert_used(place, "a run")


def test_nodes_by_hand(place: UserPlace) -> None:
    (place.top / "held_out.txt").write_text("1\n")
    benchmark = '[benchmark]\nfiles = ["bench.py"]\n'
    audit = '[audit]\nfiles = ["held_out.txt"]\ncommand = "python3 bench.py held_out.txt"\n'
    (place.top / "loopty.toml").write_text(TASK.replace("[benchmark]\n", benchmark) + audit)
    assert "check passed" in place.loopty("run", "1", "--check")
    place.loopty("run", "1")
    node = place.edited_draft(5)
    place.loopty("try", node, "--", "python3", "-c", "import program; assert program.value() == 8")
    place.loopty("gate", "add", node, "--name", "imports", "--command", "python3 -c 'import program'")
    assert "kept" in place.loopty("run", node)
    assert "equals the search's exactly (8)" in " ".join(place.loopty("audit", node, code=1).split())
    assert "withdrawn" in place.loopty("discard", node, "--why", "a test")
    place.loopty("remeasure")
    place.loopty("restore", node, "--why", "a test")
    assert "withdrawn" in place.loopty("invalidate", node, "--why", "a test")
    place.loopty("restore", node, "--why", "a test")
    assert "is not held" in place.loopty("accept", node, "--why", "a test", code=2)
    place.loopty("rebaseline")
    place.loopty("drop", place.edited_draft(6))
    place.loopty("run", (other := place.edited_draft(6)))
    assert "conflict: program.py" in place.loopty("merge", node, other)
    assert "no open ticket" in place.loopty("abort", node, code=2)
    assert_used(place, "by hand")


def test_what_becomes_of_a_result(place: UserPlace) -> None:
    (place.top / "loopty.toml").write_text(TASK)
    place.loopty("run", "1")
    place.loopty("run", place.edited_draft(5))
    assert "reproduced" in place.loopty("replay", "best")
    assert "digest" in place.loopty("export", "best")
    assert "3 trials" in place.loopty("export", "--trials", "trials.csv")
    assert "branch" in place.loopty("branch", "best")
    assert "branch" in place.loopty("apply", "best")
    assert "RATE" in place.loopty("pr", "best", "--branch", "for-review")
    place.loopty("gc")
    assert "sqlite:" in place.loopty("ledger")
    for name in ("a", "b"):
        (place.top / f"{name}.toml").write_text(f'statement = "{name}"\n')
    told = place.loopty("ab", "--arm", "a.toml", "--arm", "b.toml", "--seeds", "1", "--budget", "1 attempts")
    assert "a" in told
    assert_used(place, "the results")


def test_agents_and_other_machines(place: UserPlace) -> None:
    (place.top / "loopty.toml").write_text(TASK)
    assert "sandbox" in place.loopty("doctor")
    assert "no model is configured" in place.loopty("models")
    assert "notices go nowhere" in place.loopty("notify")
    assert "autonomous" in place.loopty("mode")
    place.loopty("install", "generic")
    place.loopty("uninstall", "generic")
    place.loopty("hook", "Stop")
    assert "TASK" in json.loads(place.loopty("tool", "context"))["text"]
    assert "name the URL" in place.loopty("worker", code=2)
    assert_mcp_serves(place)
    assert_dashboard_answers(place)
    assert_used(place, "agents and machines")


def assert_mcp_serves(place: UserPlace) -> None:
    with place.start("mcp") as server:
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
