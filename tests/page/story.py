"""A made-up record whose every text is hostile, for the browser to show."""

import subprocess
import time
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.objective import Objective
from loopty.domain.outcome import Effect, Ending, Integrity, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.cohorts import MachineSeen
from loopty.record.directives import DirectiveSet
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.recorder import Recorder
from loopty.record.runs import RunStarted
from loopty.record.sessions import SessionEnded, SessionStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.workspaces.git_folders import GitFolders
from loopty.workspaces.state_folder import StateFolder

PROBE = "<img src=x onerror=hacked=1><script>hacked=1</script>\u202egnp.exe\x1b[31m"
"""Runs in a page that takes text for markup; turns the reading direction; colours a terminal."""

TASK = """
[benchmark]
command = "true"
timeout_seconds = 10
[access]
write = ["x.py"]
[pools]
attempts = 40
money_usd = 5.0
"""


def make_repository(top: Path) -> None:
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "loopty.toml").write_text(TASK)


def git(top: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", *identity, *words], cwd=top, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(top: Path, text: str) -> tuple[str, str]:
    (top / "x.py").write_text(text)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "a change")
    return git(top, "rev-parse", "HEAD"), git(top, "rev-parse", "HEAD^{tree}")


class Story:
    """Records a run event by event."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.state = StateFolder.of(GitFolders.find(top))
        self.state.prepare()
        self.now = time.time() - 3600
        self.recorder = Recorder(open_ledger(self.state.ledger_url), self.tick)
        self.commits: tuple[str, str] = ("", "")

    def tick(self) -> float:
        self.now += 1
        return self.now

    def record(self, *events) -> None:
        self.recorder.record(lambda _: events)

    def add(self, name, score, verdict, pool=Pool.ATTEMPT, operator="diff", summary="a change", **more) -> None:
        """A node with one trial and its verdict."""
        node = NodeId(name)
        calls, params = more.pop("calls", ()), more.pop("params", {"x": 2 + len(name)})
        self.record(
            NodeAdded(node, pool, operator, summary, *self.commits, params, calls=calls),
            TrialStarted(node, 1, pool, "bench"),
        )
        ending = Ending.FINISHED if score is not None else Ending.FAILED
        metrics = {"score": score, "size": 7.0} if score is not None else {}
        reason = "" if score is not None else PROBE
        outcome = Outcome(ending, metrics, reason=reason, seconds=2.0, fingerprint="f", integrity=Integrity.STRONG)
        why = more.pop("why", f"{PROBE} of {name}")
        self.record(TrialEnded(node, 1, outcome), NodeJudged(node, verdict, why, node.parent, **more))


def tell_run(top: Path) -> Story:
    """A run with every kind of verdict, a control, a call of a model and a refused proposal."""
    story = Story(top)
    base = commit(top, "def run():\n    return 1\n")
    changed = commit(top, f"def run():\n    return 2  # {PROBE}\n")
    story.record(
        RunStarted(1, "c", Objective(), 0, "the first run", secret="s"),
        MachineSeen(1, "f", {"cpu": PROBE}),
        SessionStarted(1, "gone"),
        DirectiveSet(1, PROBE),
    )
    story.commits = base
    story.add("1", 1.0, Verdict.KEPT, operator="baseline", why="")
    story.commits = changed
    story.record(CallReserved(1, "c1", "evolver", 100, 0.5, "gone", PROBE, "diff", NodeId("1"), Pool.ATTEMPT))
    story.record(CallSettled(1, "c1", 80, 0.25, Usage(50, 30)))
    effect = Effect("score", 0.5, 0.4, 0.6, 6, 0.05)
    story.add("1.1", 1.5, Verdict.KEPT, summary=PROBE, effect=effect, calls=("c1",), params={"x": PROBE})
    story.add("1.2", 0.5, Verdict.DISCARDED, summary="a smaller cache", operator=PROBE)
    story.add("1.3", None, Verdict.DISCARDED)
    story.add("1.4", 1.1, Verdict.INCONCLUSIVE)
    story.add("1.5", 1.2, Verdict.DISCARDED, pool=Pool.CONTROL, operator="random")
    story.add("1.1.1", 9.0, Verdict.HELD, summary="too good to be true")
    story.add("1.1.2", 1.7, Verdict.KEPT, summary="a wider table", effect=effect)
    story.record(ProposalRefused(1, Pool.ATTEMPT, "diff", PROBE), SessionEnded(1, "all 40 attempts are spent"))
    return story
