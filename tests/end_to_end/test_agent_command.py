"""Any command as a coding agent: its edits become nodes, and it reaches nothing that is not its own."""

import os
import signal
import subprocess
import time

import pytest

from loopty.models.archive import Archive
from loopty.record.calls import CallSettled, Spend
from loopty.record.nodes import NodeAdded, ProposalRefused

from .conftest import CODE_TASK, Place
from .state import events

AGENT = """
[noise]
repeat = "never"
[proposer]
kind = "agent"
agent = "command"
command = ["sh", "-c", '''{script}''']
{more}
"""


def set_up(place: Place, script: str, more: str = "", attempts: int = 1) -> None:
    place.write("loopty.toml", CODE_TASK.format(attempts=attempts) + AGENT.format(script=script, more=more))


def of_type(place: Place, kind: type) -> list:
    return [event for event in events(place) if isinstance(event, kind)]


def summary_of_newest(place: Place) -> str:
    return of_type(place, NodeAdded)[-1].summary


def score_of(place: Place, node: str) -> float:
    return place.history()[node].outcome.metrics["score"]


def replies(place: Place) -> list[str]:
    """What the agents said, oldest first."""
    return [record.reply.text for record in Archive(place.state_folder.calls).records() if record.reply]


def test_the_edits_of_an_agent_become_a_node_with_a_score(code_place):
    set_up(
        code_place, 'grep -q "src/" "$LOOPTY_PROMPT_FILE" && echo 9 > src/x.txt && echo "SUMMARY: nine is more"'
    )
    code_place.loopty("optimize")
    node = code_place.history()["1.1"]
    assert (node.operator, node.summary) == ("command", "nine is more")
    assert score_of(code_place, "1.1") == 9


def test_an_agent_that_changes_nothing_or_only_forbidden_files_makes_no_attempt(code_place):
    set_up(code_place, 'echo "SUMMARY: nothing to do"')
    code_place.loopty("optimize", code=1)
    refused = of_type(code_place, ProposalRefused)
    assert refused[0].reason == "command changed nothing: nothing to do"
    assert not [event for event in of_type(code_place, NodeAdded) if event.node != "1"]


def test_an_agent_writes_only_the_writable_folders_and_sees_no_hidden_file(code_place):
    code_place.write("secret.txt", "the answer\n")
    code_place.commit()
    script = "(echo x > bench.sh; echo x > new.txt; cat secret.txt; ls /loopty/tree/.git; echo 7 > src/x.txt) 2>&1"
    set_up(code_place, script)
    task = (
        (code_place.top / "loopty.toml").read_text().replace("[access]\n", '[access]\nhidden = ["secret.txt"]\n')
    )
    code_place.write("loopty.toml", task)
    code_place.loopty("optimize")
    (said,) = replies(code_place)
    assert said.count("Read-only file system") == 2
    assert said.count("No such file or directory") == 2
    assert "the answer" not in said
    assert (code_place.top / "bench.sh").read_text() != "x\n"


@pytest.fixture
def top_place(code_place):
    """A repository whose writable file is at its top, beside the benchmark."""
    code_place.write("x.txt", "6\n")
    code_place.write("bench.sh", 'echo "{\\"score\\": $(cat x.txt)}" > "$EVO_RESULT_PATH"\n')
    code_place.commit()
    return code_place


def test_an_edit_of_the_benchmark_beside_a_writable_file_is_left_out(top_place):
    def write(script: str) -> None:
        set_up(top_place, script)
        task = (top_place.top / "loopty.toml").read_text().replace('"src/**"', '"x.txt"')
        top_place.write("loopty.toml", task)

    write("rm -f bench.sh; echo 'exit 1' > bench.sh; echo 8 > x.txt; echo note > note.md; ln -s / link")
    top_place.loopty("optimize")
    assert score_of(top_place, "1.1") == 8
    assert "left out bench.sh, link, note.md: not writable" in top_place.history()["1.1"].summary
    write("rm -f bench.sh; echo 'exit 1' > bench.sh")
    top_place.loopty("optimize", "--new-run", code=1)
    assert "changed only bench.sh, which it may not change" in of_type(top_place, ProposalRefused)[-1].reason


def test_a_limit_still_gives_the_edits(code_place):
    set_up(code_place, "echo 9 > src/x.txt; sleep 600", "timeout_seconds = 3.0")
    code_place.loopty("optimize")
    assert "still working after 3 s" in summary_of_newest(code_place)


def test_a_session_that_reaches_its_limit_without_a_change_is_a_stall_and_not_resumed(code_place):
    stalls = "timeout_seconds = 2.0\n[proposer.stalls]\nbench_after = 1\n"
    set_up(code_place, "while :; do echo one more idea; sleep 0.2; done", stalls)
    done = code_place.loopty("optimize", code=1)
    assert "command stalled (limit: still working after 2 s (timeout_seconds), and it changed nothing)" in (
        " ".join(done.stderr.split())
    )
    (row,) = code_place.json("status")["agents"]
    assert (row["stalls"], row["sessions"], row["stall_rate"]) == ({"limit": 1}, 1, 1.0)
    assert not of_type(code_place, ProposalRefused)


def test_an_agent_without_a_command_is_refused_before_a_run_begins(code_place):
    set_up(code_place, "true")
    task = (code_place.top / "loopty.toml").read_text()
    code_place.write("loopty.toml", task[: task.index("command = [")])
    assert "name the command of the agent" in code_place.loopty("optimize", code=2).stderr
    code_place.write("loopty.toml", task.replace('agent = "command"', 'agent = "codex"'))
    done = code_place.loopty("optimize", code=2)
    assert "codex is not installed" in done.stderr
    assert "baseline" not in done.stdout + done.stderr
    assert not events(code_place)


def test_an_agent_that_cannot_even_start_ends_the_session(code_place):
    set_up(code_place, "exec /nowhere/agent")
    done = code_place.loopty("optimize", code=1)
    assert "command ended before it asked its model or changed a file, at its first start: exit code 127" in (
        " ".join((done.stdout + done.stderr).split())
    )
    assert "correct its command under [proposer]" in done.stdout + done.stderr
    assert "model is unavailable" not in done.stdout + done.stderr
    assert not of_type(code_place, ProposalRefused)


def test_an_agent_that_dies_before_its_first_edit_is_started_again(code_place):
    script = (
        'if grep -q "been here" "$LOOPTY_PROMPT_FILE"; then echo 9 > src/x.txt; '
        'else loopty tool note text="been here"; echo broken >&2; exit 3; fi'
    )
    set_up(code_place, script)
    done = code_place.loopty("optimize")
    assert "command stalled (start: exit code 3: broken); it is started again" in done.stderr
    assert score_of(code_place, "1.1") == 9
    assert not of_type(code_place, ProposalRefused)


def test_an_unavailable_model_ends_the_session_and_is_no_refusal(code_place):
    set_up(code_place, "echo 'error: 401 Unauthorized' >&2; exit 1")
    done = code_place.loopty("optimize", code=1)
    assert "no reply from a model: exit code 1: error: 401 Unauthorized" in done.stderr
    assert "stalled: a model is unavailable" in done.stderr
    assert not of_type(code_place, ProposalRefused)


CLAUDE_LINES = (
    '{"type":"system","session_id":"s1"}',
    '{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":100,"output_tokens":20}}}',
)


def test_tokens_and_cost_of_the_stream_are_booked_and_capped(code_place):
    usage = '{"input_tokens":200,"output_tokens":9}'
    result = f'{{"type":"result","result":"SUMMARY: nine","total_cost_usd":0.5,"usage":{usage}}}'
    lines = "".join(f"echo '{line}'\n" for line in (*CLAUDE_LINES, result))
    code_place.write("agent.sh", f"echo 9 > src/x.txt\n{lines}")
    more = 'stream = "claude"\n[roles.evolver]\ntokens = 1000\n'
    set_up(code_place, "sh agent.sh", more)
    code_place.loopty("optimize")
    total = code_place.json("spend")["total"]
    assert (total["tokens"], total["money_usd"], total["calls"]) == (209, 0.5, 1)
    code_place.write("loopty.toml", (code_place.top / "loopty.toml").read_text().replace("1000", "100"))
    done = code_place.loopty("optimize", "--new-run", code=None)
    assert "the caps on the evolver's tokens or money" not in done.stdout
    assert "reached the cap on the evolver's tokens" in code_place.history()["2.1"].summary


def test_the_login_is_copied_for_the_agent_alone_and_a_trial_never_sees_it(code_place, tmp_path, monkeypatch):
    (tmp_path / "home/.mine").mkdir(parents=True)
    (tmp_path / "home/.mine/auth.json").write_text('{"token": "tiger"}')
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_AGENT_KEY", "lion")
    code_place.write(
        "bench.sh",
        'cat ~/.mine/auth.json /loopty/home/.mine/auth.json; echo "key $MY_AGENT_KEY"\n'
        'echo "{\\"score\\": $(cat src/x.txt)}" > "$EVO_RESULT_PATH"\n',
    )
    code_place.commit()
    script = "grep -q tiger ~/.mine/auth.json && test $MY_AGENT_KEY = lion && echo 9 > src/x.txt"
    set_up(code_place, script, 'login = [".mine/auth.json"]\nvariables = ["MY_AGENT_KEY"]\n')
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 9
    printed = (code_place.state / "nodes/1.1/stdout.log").read_text()
    assert "key \n" in printed
    assert "tiger" not in printed


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/auth.json"])
def test_a_login_is_always_below_the_home(code_place, name):
    set_up(code_place, "echo 9 > src/x.txt", f'login = ["{name}"]')
    assert "name files below your home" in code_place.loopty("optimize", code=2).stderr


def wait_for(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


SLOW_ONCE = (
    "if test -f src/begun; then rm src/begun; echo 9 > src/x.txt; echo SUMMARY: done; "
    "else echo 1 > src/begun; exec sleep {seconds}; fi"
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_session_leaves_no_process_and_the_next_one_goes_on_with_its_tree(code_place, number):
    set_up(code_place, SLOW_ONCE.format(seconds=700000 + os.getpid()))
    pattern = f"sleep {700000 + os.getpid()}"

    def is_running() -> bool:
        return bool(subprocess.run(["pgrep", "-f", f"^{pattern}"], capture_output=True, text=True).stdout)

    process = code_place.start("optimize")
    wait_for(is_running, process)
    process.send_signal(number)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while is_running():
        assert time.monotonic() < deadline, "the agent outlived loopty"
        time.sleep(0.05)
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 9
    assert not Spend.of(code_place.history().runs[1]).reservations
    assert of_type(code_place, CallSettled)[0].lost is (number == signal.SIGKILL)


def test_an_agent_of_a_strangers_task_file_needs_permission(code_place):
    set_up(code_place, "echo 9 > src/x.txt")
    code_place.loopty("trust", "--revoke", code=None)
    done = code_place.loopty("optimize", code=2)
    assert "a coding agent with the command" in done.stderr
