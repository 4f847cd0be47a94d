"""The tools of agents: each call is one JSON object in and one out, through the real command line."""

import json
import os
import time
from pathlib import Path

import pytest

from loopty.domain.trial import Verdict
from loopty.record.directives import Acknowledgements, Notes
from loopty.record.tickets import Claims, Tickets
from loopty.tools.calls import answer_call

from .conftest import CODE_TASK, NUMBER_BENCH

TASK = (
    'statement = "Raise the number."\n'
    + CODE_TASK
    + """
[noise]
repeat = "never"
[[gates]]
name = "small"
command = "test $(cat src/x.txt) -lt 100 || {{ echo the number is too large for anybody; exit 1; }}"
"""
)
PATCH = "--- a/src/x.txt\n+++ b/src/x.txt\n@@ -1 +1 @@\n-5\n+{}\n"


@pytest.fixture
def tools(code_place):
    code_place.write("loopty.toml", TASK.format(attempts=6))
    code_place.commit()
    return code_place


def call(place, tool: str, client: str = "one", **arguments):
    """The reply of a tool to a client."""
    os.environ["LOOPTY_CLIENT"] = client
    try:
        done = place.loopty("tool", tool, json.dumps(arguments), code=None)
    finally:
        del os.environ["LOOPTY_CLIENT"]
    assert len(done.stdout) <= 8_100
    reply = json.loads(done.stdout)
    assert done.returncode == ("error" in reply)
    return reply


def opened(place, number: int, client: str = "one", **arguments):
    """A draft with this number in its file."""
    reply = call(place, "open", client, hypothesis=f"{number} is more", **arguments)
    Path(reply["folder"], "src/x.txt").write_text(f"{number}\n")
    return reply["id"]


def finished(place, tool: str, client: str = "one", **arguments):
    """The last reply, however long it takes."""
    reply = call(place, tool, client, **arguments)
    end = time.monotonic() + 120
    while reply.get("state") == "running":
        assert time.monotonic() < end
        reply = call(place, "wait", client, ticket=reply["ticket"])
    return reply


def test_what_comes_through_the_tools_is_no_persons_work(tools):
    own = opened(tools, 9)
    tools.loopty("new", "-m", "by a person")
    left = next(node for node in reversed(list(tools.history().ids)) if node != own)
    (tools.top / ".loopty" / "drafts" / left / "src" / "x.txt").write_text("8\n")
    assert tools.history()[left].operator == "hand"
    for node in (own, left):
        finished(tools, "submit", id=node)
        assert tools.history()[node].operator == "agent"


def test_an_agent_makes_an_experiment_by_tools_alone(tools):
    context = call(tools, "context")
    assert "Raise the number." in context["text"]
    node = opened(tools, 9, surface="the number")
    assert "@2 by one on the number" in call(tools, "context", "two")["text"]
    checked = finished(tools, "check", id=node)
    assert "every gate passes" in checked["text"]
    tuned = finished(tools, "submit", id=node, mode="tune")
    assert tuned["metrics"] == {"score": 9}
    assert tools.history()[node].draft, "a free measurement leaves the draft open"
    done = finished(tools, "submit", id=node)
    assert (done["verdict"], done["score"], done["best"]) == ("kept", 9, "1.1")
    assert "Left: 5 attempts" in done["text"]
    assert "Integrity weak" in done["text"]
    assert len(done["text"].split()) <= 80
    history = tools.history()
    assert history["1.1"].verdict is Verdict.KEPT
    assert Claims.of(history.run).by_node == {}
    assert Tickets.of(history.run).open == {}
    assert call(tools, "wait", ticket="1.1")["verdict"] == "kept"
    assert call(tools, "wait", "two", ticket=done["ticket"])["verdict"] == "kept"


def test_a_client_waits_for_an_experiment_by_any_of_its_names(tools):
    node = opened(tools, 9)
    assert "has no open ticket: submit it" in call(tools, "wait", id=node)["error"]
    assert "needs id" in call(tools, "wait")["error"]
    assert call(tools, "submit", id=node, wait=0)["state"] == "running"
    assert finished(tools, "wait", id=node)["verdict"] == "kept"
    for name in ("1.1", "@2", "2", "best"):
        assert call(tools, "wait", id=name)["verdict"] == "kept"
    assert '"verdict": "kept"' in tools.loopty("tool", "wait", "@2").stdout


def test_a_failed_gate_is_shown_in_few_words(tools):
    node = opened(tools, 500)
    checked = finished(tools, "check", id=node)
    assert "gate small" in checked["text"]
    done = finished(tools, "submit", id=node)
    assert done["verdict"] == "rejected"
    assert "the number is too large" in done["text"]
    assert len(done["text"].split()) <= 80
    shown = call(tools, "show", id=node, what="gate")["text"]
    assert "the number is too large for anybody" in shown
    assert "<data-" in shown


def test_a_command_is_tried_in_the_sandbox_and_recorded_nowhere(tools):
    node = opened(tools, 9)
    done = finished(tools, "try", id=node, command="cat src/x.txt; touch /etc/x 2>/dev/null; echo $?; exit 3")
    assert done["code"] == 3
    assert "exit code 3" in done["text"]
    assert "\n9\n1\n" in done["text"] or "\n9\n2\n" in done["text"], done["text"]
    assert tools.history()[node].trials == 0


def test_the_same_hypothesis_is_refused_while_in_work_and_after_it_was_tried(tools):
    node = opened(tools, 9)
    again = call(tools, "open", "two", hypothesis="9 IS more!")
    assert "one has worked on this as @2" in again["error"]
    finished(tools, "submit", id=node)
    again = call(tools, "open", "two", parent="1", hypothesis="9 is more")
    assert "was tried on @1 as @2" in again["error"]
    assert "id" in call(tools, "open", "two", hypothesis="9 is more"), "on another parent it is another experiment"


def test_a_twin_is_not_run_twice(tools):
    first, second = opened(tools, 9), call(tools, "open", "two", parent="1", hypothesis="nine")["id"]
    (tools.top / ".loopty/drafts" / second / "src/x.txt").write_text("9\n")
    finished(tools, "submit", id=first)
    assert "is the same as @2" in call(tools, "submit", "two", id=second)["error"]
    assert tools.history()[second].draft


def test_a_draft_belongs_to_its_client(tools):
    node = opened(tools, 9)
    for tool, more in (("submit", {}), ("check", {}), ("try", {"command": "true"})):
        assert "is the draft of one" in call(tools, tool, "two", id=node, **more)["error"]
    assert tools.history()[node].draft


def test_a_patch_takes_the_place_of_writing(tools):
    node = call(tools, "open", hypothesis="a patch")["id"]
    done = finished(tools, "submit", id=node, patch=PATCH.format(9))
    assert done["score"] == 9


BAD_PATCHES = [
    ("nonsense", "does not apply"),
    (PATCH.format(9).replace("-5", "-6"), "does not apply"),
    (PATCH.format(9).replace("src/x.txt", "../outside"), "may not change ../outside"),
    ("--- /dev/null\n+++ b/bench.sh.bak\n@@ -0,0 +1 @@\n+x\n", "may not change bench.sh.bak"),
    ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "may not change .git/hooks/x"),
    (
        "diff --git a/src/l b/src/l\nnew file mode 120000\n--- /dev/null\n+++ b/src/l\n@@ -0,0 +1 @@\n+/etc\n",
        "other than a regular file",
    ),
    ("GIT binary patch\n", "binary"),
    ("x" * 300_000, "characters, more than"),
]


def test_a_patch_that_reaches_elsewhere_is_refused(tools):
    node = call(tools, "open", hypothesis="a patch")["id"]
    for patch, reason in BAD_PATCHES:
        assert reason in call(tools, "submit", id=node, patch=patch)["error"]
        assert (tools.top / ".loopty/drafts" / node / "src/x.txt").read_text() == "5\n"


def taken(source: str, how: str = "copy") -> str:
    """A patch that puts a whole file in the place of the number."""
    return f"diff --git a/{source} b/src/y.txt\nsimilarity index 100%\n{how} from {source}\n{how} to src/y.txt\n"


@pytest.mark.parametrize("how", ["copy", "rename"])
def test_a_patch_takes_nothing_from_a_file_that_it_may_not_change(tools, how):
    task = TASK.format(attempts=6).replace("[pools]", 'hidden = ["gold.txt"]\n[pools]')
    task = task.replace("[benchmark]\n", '[benchmark]\nfiles = ["bench.sh"]\n')
    tools.write("loopty.toml", f'{task}[audit]\ncommand = "sh bench.sh"\nfiles = ["held_out"]\n')
    for path in (sources := ("gold.txt", "held_out/answers.txt", ".env", "src/.env")):
        tools.write(path, "a secret\n")
    tools.commit()
    node = call(tools, "open", hypothesis="a patch")["id"]
    folder = tools.top / ".loopty/drafts" / node
    for source in (*sources, "bench.sh", "loopty.toml", "src/../gold.txt", "src/x.txt/../../gold.txt"):
        assert "does not apply" in call(tools, "submit", id=node, patch=taken(source, how))["error"], source
        assert sorted(path.name for path in (folder / "src").iterdir()) == ["x.txt"]
    own = PATCH.format(9) * (how == "copy") + taken("src/x.txt", how)
    assert "error" not in finished(tools, "submit", id=node, patch=own), "its own files it may copy and rename"


def test_a_patch_cannot_ask_what_a_hidden_file_holds(tools):
    tools.write("loopty.toml", TASK.format(attempts=6).replace("[pools]", 'hidden = ["gold.txt"]\n[pools]'))
    tools.write("gold.txt", "5\n")
    tools.commit()
    node = call(tools, "open", hypothesis="a patch")["id"]
    right, wrong = (
        PATCH.format(9).replace("src/x.txt", "gold.txt").replace("-5", guess) for guess in ("-5", "-6")
    )
    errors = {call(tools, "submit", id=node, patch=patch)["error"] for patch in (right, wrong)}
    assert len(errors) == 1, errors


def test_a_command_that_is_tried_sees_no_hidden_file(tools):
    task = TASK.format(attempts=6).replace("[pools]", 'hidden = ["bench/gold.txt"]\n[pools]')
    tools.write("loopty.toml", task.replace("[benchmark]\n", '[benchmark]\nfiles = ["bench.sh", "bench"]\n'))
    for path in ("bench/gold.txt", "bench/open.txt", ".env", "src/.env", "deploy/key.pem"):
        tools.write(path, "a secret\n")
    tools.commit()
    node = opened(tools, 9)
    assert sorted(path.name for path in (tools.top / ".loopty/drafts" / node / "bench").iterdir()) == ["open.txt"]
    seen = finished(tools, "try", id=node, command="find . -type f | sort; cat src/x.txt")["text"]
    assert "bench/open.txt" in seen
    assert not any(name in seen for name in ("gold", ".env", "pem", "secret")), seen


def test_a_command_that_is_tried_sees_no_byte_code_of_a_hidden_file(tools):
    task = TASK.format(attempts=6).replace("[pools]", 'hidden = ["gold.py"]\n[pools]')
    task = task.replace('"sh bench.sh"', '"python3 bench.py"\nfiles = ["bench.py", "gold.py"]')
    tools.write("loopty.toml", task)
    tools.write("gold.py", "ANSWER = 42\n")
    bench = "import json, os, gold\njson.dump({'score': 1}, open(os.environ['EVO_RESULT_PATH'], 'x'))\n"
    tools.write("bench.py", bench)
    tools.commit()
    tools.loopty("run", "1")
    seen = finished(tools, "try", id=opened(tools, 9), command="find . -name '*.py*'")["text"]
    assert "bench.py" in seen
    assert "gold" not in seen


def test_a_link_in_a_draft_leads_nowhere(tools):
    node = call(tools, "open", hypothesis="a link")["id"]
    file = tools.top / ".loopty/drafts" / node / "src/x.txt"
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert "link" in call(tools, "submit", id=node)["error"]
    (tools.top / ".loopty/drafts" / node / "src/y").symlink_to("/etc")
    assert "link" in call(tools, "submit", id=node, mode="tune")["error"]


def test_a_directive_reaches_each_client_once(tools):
    first, second = opened(tools, 9), opened(tools, 8)
    tools.loopty("direct", "Keep the interface as it is.")
    assert "Keep the interface" in finished(tools, "submit", id=first)["text"]
    assert "Keep the interface" not in finished(tools, "submit", id=second)["text"]
    assert "Keep the interface" in call(tools, "wait", "two", ticket=first)["text"]
    assert "Keep the interface" not in call(tools, "wait", "two", ticket=first)["text"]
    assert set(Acknowledgements.of(tools.history().run).seen) == {"one", "two"}


def test_notes_of_one_client_reach_the_others_as_data(tools):
    call(tools, "context")
    assert "Noted" in call(tools, "note", text="the number is in src/x.txt \u202e", id="1")["text"]
    seen = call(tools, "context", "two")["text"]
    assert "note by one about @1" in seen
    assert "\u202e" not in seen
    assert Notes.of(tools.history().run).count == 1


def test_no_attempt_is_promised_that_the_budget_does_not_have(tools):
    tools.write("loopty.toml", TASK.format(attempts=1))
    tools.commit()
    first, second = opened(tools, 9), opened(tools, 8)
    finished(tools, "submit", id=first)
    assert "all 1 attempt trials are spent" in call(tools, "submit", id=second)["error"]


WRONG_CALLS = [
    ("fly", {}, "there is no tool 'fly'"),
    ("open", {}, "needs hypothesis"),
    ("open", {"hypothesis": "x", "colour": "red"}, "takes no 'colour'"),
    ("open", {"hypothesis": 5}, "must be a string"),
    ("open", {"hypothesis": "x" * 500}, "characters, more than"),
    ("open", {"hypothesis": " \n "}, "is empty"),
    ("open", {"hypothesis": "x", "merge": ["1"]}, "must have 2 items"),
    ("open", {"hypothesis": "a\ud800"}, "not valid JSON"),
    ("open", {"hypothesis": "a\0b"}, "no file can hold"),
    ("open", {"hypothesis": "x", "params": {"a": [1]}}, "numbers, texts and truth values"),
    ("submit", {"id": "../../etc"}, "../../etc"),
    ("submit", {"id": "1." * 5_000}, "characters, more than"),
    ("submit", {"id": "9.9"}, "there is no node 9.9"),
    ("submit", {"id": "1", "mode": "cheat"}, "must be one of attempt, tune"),
    ("wait", {"ticket": "t1.99"}, "there is no ticket"),
    ("wait", {"ticket": "t../x"}, "is not a ticket"),
    ("wait", {"ticket": "t1.1", "wait": 1_000}, "from 0 to 25"),
    ("wait", {"ticket": "t1.1", "wait": True}, "must be an integer"),
    ("show", {"id": "1", "what": "evaluator"}, "must be one of"),
    ("manage", {"action": "discard", "id": "1"}, "agents may not discard here"),
]


def test_a_wrong_call_is_answered_with_its_remedy_and_changes_nothing(tools):
    call(tools, "context")
    before = tools.history().number
    for tool, arguments, reason in WRONG_CALLS:
        assert reason in call(tools, tool, **arguments)["error"]
    assert tools.history().number == before


def test_what_is_no_call_is_answered(tools):
    for raw in (b"", b"[]", b"{" * 5_000, b'{"tool": 5}', b'{"a": 1, "a": 2}', b"\xff\xfe", b"[" * 100_000):
        replies: list[bytes] = []
        answer_call(tools.top, raw, replies.append, lambda *_: None)
        assert "error" in json.loads(replies[0])


def test_a_reply_is_never_longer_than_hosts_show(tools):
    node = opened(tools, 9)
    done = finished(
        tools, "try", id=node, command="head -c 300000 /dev/zero | tr '\\0' '\\033'; yes word | head -20000"
    )
    assert len(json.dumps(done, ensure_ascii=False)) <= 8_000
    assert "\x1b" not in done["text"]


def test_agents_may_do_more_where_the_task_file_permits_it(tools):
    rights = '\n[agents]\nmay = ["abort", "discard", "gate", "remeasure"]\n'
    tools.write("loopty.toml", TASK.format(attempts=6) + rights)
    tools.commit()
    node = opened(tools, 9)
    finished(tools, "submit", id=node)
    done = finished(tools, "manage", action="gate", id="1", name="tiny", command="test $(cat src/x.txt) -lt 8")
    assert "@2 withdrawn" in done["text"]
    assert tools.history()["1.1"].verdict is not Verdict.KEPT
    other = opened(tools, 6)
    finished(tools, "submit", id=other)
    assert "Withdrawn: @3" in call(tools, "manage", action="discard", id=other, why="no reason")["text"]
    draft = opened(tools, 7)
    assert "dropped @4" in call(tools, "manage", action="abort", id=draft)["text"]
    assert tools.history()["1.3"].dropped
    assert "may not invalidate" in call(tools, "manage", action="invalidate", id="1")["error"]


def test_a_person_aborts_a_ticket_and_it_can_be_submitted_again(tools):
    tools.write("bench.sh", f"sleep $(cat src/y.txt)\n{NUMBER_BENCH}")
    tools.write("src/y.txt", "0\n")
    tools.commit()
    node = opened(tools, 9)
    (tools.top / ".loopty/drafts" / node / "src/y.txt").write_text("1000\n")
    started = call(tools, "submit", id=node, wait=0)
    assert started.get("state") == "running", started
    end = time.monotonic() + 60
    while not tools.history()[node].running:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "1 open" in tools.loopty("status").stdout
    assert tools.json("status")["open_tickets"] == 1
    assert "aborted" in tools.loopty("abort", started["ticket"], "--why", "too slow").stdout
    while tools.history()[node].running:
        assert time.monotonic() < end + 60
        time.sleep(0.05)
    assert "aborted: too slow" in call(tools, "wait", ticket=started["ticket"])["text"]
    assert tools.history()[node].verdict is None
    again = call(tools, "submit", id=node, wait=0)
    assert again["ticket"] != started["ticket"]
    tools.loopty("abort", node)


def test_the_first_call_begins_the_first_run(tools):
    assert call(tools, "context")["run"] == 1
    assert list(tools.history().ids) == ["1"]


def test_rights_of_a_task_file_count_only_after_the_users_yes(tools):
    node = opened(tools, 9)
    unseen = TASK.format(attempts=6) + '[agents]\nmay = ["abort"]\n'
    (tools.top / "loopty.toml").write_text(unseen)  # `write` would allow it
    assert "loopty config trust" in call(tools, "manage", action="abort", id=node)["error"]
    assert tools.history()[node].draft


def test_tunes_have_a_budget_of_their_own_and_are_never_ranked(tools):
    tools.write("loopty.toml", TASK.format(attempts=6).replace("[pools]", "[pools]\ntunes = 2"))
    tools.commit()
    node = opened(tools, 9)
    for number in (9, 50):
        Path(tools.top, ".loopty/drafts", node, "src/x.txt").write_text(f"{number}\n")
        assert finished(tools, "submit", id=node, mode="tune")["metrics"] == {"score": number}
    assert "all 2 tune trials are spent" in call(tools, "submit", id=node, mode="tune")["error"]
    assert "6 attempts, 0 tunes" in call(tools, "context")["text"]
    status = tools.json("status")
    assert {count["pool"]: count["started"] for count in status["counts"]} == {"attempt": 0, "tune": 2}
    assert status["best"] is None or status["best"]["node"] == "1"
    Path(tools.top, ".loopty/drafts", node, "src/x.txt").write_text("9\n")
    assert finished(tools, "submit", id=node)["verdict"] == "kept"
