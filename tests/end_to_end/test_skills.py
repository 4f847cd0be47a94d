"""The skills, followed to the letter: a scripted agent reaches a confirmed gain, and their commands run."""

import json
import re
import shlex
import time
from pathlib import Path

import pytest

from loopty.domain.trial import Verdict
from loopty.features.agents.hosts.installation import shipped_skills

NOISY_TASK = """
statement = "Raise the number."
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
[access]
write = ["src/**"]
[pools]
attempts = 8
[[gates]]
name = "whole"
command = "grep -qx '[0-9]*' src/x.txt || { echo the number must be whole; exit 1; }"
"""
NOISY_BENCH = """
noise=$(($(od -An -N1 -tu1 /dev/urandom) % 10))
echo "{\\"score\\": $(cat src/x.txt).$noise}" > "$EVO_RESULT_PATH"
"""


class ScriptedAgent:
    """Follows loopty-optimize, with the calls that the skill names for a host without a tool server."""

    def __init__(self, place, monkeypatch) -> None:
        self._place = place
        monkeypatch.setenv("LOOPTY_CLIENT", "scripted")

    def tool(self, name: str, **arguments) -> dict:
        return json.loads(self._place.loopty("tool", name, json.dumps(arguments), code=None).stdout)

    def finish(self, reply: dict) -> dict:
        end = time.monotonic() + 240
        while reply.get("state") == "running":
            assert time.monotonic() < end
            reply = self.tool("wait", id=reply["ticket"])
        return reply

    def experiment(self, hypothesis: str, text: str) -> dict:
        draft = self.tool("open", hypothesis=hypothesis, surface="the number")
        Path(draft["folder"], "src/x.txt").write_text(text)
        tried = self.finish(self.tool("try", id=draft["id"], command="cat src/x.txt"))
        assert text.strip() in tried["text"]
        return self.finish(self.tool("submit", id=draft["id"]))


@pytest.fixture
def noisy(code_place):
    code_place.write("loopty.toml", NOISY_TASK)
    code_place.write("bench.sh", NOISY_BENCH)
    code_place.commit()
    return code_place


def test_an_agent_that_follows_optimize_reaches_a_confirmed_gain(noisy, monkeypatch):
    agent = ScriptedAgent(noisy, monkeypatch)
    assert "Raise the number." in agent.tool("context")["text"]
    rejected = agent.experiment("half a step more", "5.5\n")
    assert rejected["verdict"] == "rejected"
    assert "must be whole" in agent.tool("show", id=rejected["id"], what="gate")["text"]
    kept = agent.experiment("nine is more than five", "9\n")
    assert kept["verdict"] == "kept"
    assert "9" in agent.tool("show", id="best", what="diff")["text"]
    agent.tool("note", text="half steps are refused by the gate; whole numbers count", id=kept["id"])
    context = agent.tool("context")["text"]
    assert "half steps are refused" in context
    twin = agent.tool("open", hypothesis="nine is more than five", parent="1")
    assert "error" in twin
    node = noisy.history()[kept["id"]]
    assert node.verdict is Verdict.KEPT
    assert node.trials > 1, "the gain was confirmed by further measurements"


def test_every_command_of_report_runs(noisy):
    made = noisy.json("new", "--message", "more")
    Path(made["workspace"], "src/x.txt").write_text("9\n")
    assert noisy.json("run", made["node"])["verdict"] == "kept"
    commands = re.findall(r"`loopty ([^`]+)`", shipped_skills()["loopty-report"])
    assert {"measure", "best", "report", "apply"} <= {command.split()[0] for command in commands}
    for command in commands:
        words = shlex.split(command)
        if {"install", "audit"} & {*words}:
            continue  # the first changes the user's settings; the second needs a held-out split
        noisy.loopty(*words)


def test_a_wrong_draft_of_discover_is_rejected_and_one_without_an_effect_is_not_kept(code_place):
    code_place.write("loopty.toml", NOISY_TASK)
    code_place.commit()
    verdicts = []
    for file, text in (("x.txt", "5.5\n"), ("y.txt", "no effect\n")):
        made = code_place.json("new", "--message", "on purpose")
        Path(made["workspace"], "src", file).write_text(text)
        done = code_place.loopty("run", made["node"], "--json", code=None)
        verdicts.append(json.loads(done.stdout)["verdict"])
    assert verdicts == ["rejected", "discarded"]


def test_a_subagent_follows_its_skill_with_one_surface_and_drops_what_it_does_not_submit(noisy, monkeypatch):
    agent = ScriptedAgent(noisy, monkeypatch)
    context = agent.tool("context")["text"]
    assert "submissions each" in context, "the number N, where nobody named one"
    kept = agent.experiment("nine is more than five", "9\n")
    assert kept["verdict"] == "kept"
    unused = agent.tool("open", hypothesis="ten is more than nine", surface="the number")["id"]
    agent.tool("note", text="nine works", id=kept["id"])
    noisy.loopty("drop", unused)
    assert noisy.history()[unused].dropped


def test_the_commands_of_infra_setup_run(code_place, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    code_place.loopty("install", "generic", "codex")
    shown = code_place.loopty("doctor", code=None).stdout
    assert "codex" in shown.lower()
    assert "loopty" in code_place.loopty("--version").stdout
    code_place.loopty("uninstall", "generic", "codex")
    assert not list((tmp_path / "home").rglob("SKILL.md"))
