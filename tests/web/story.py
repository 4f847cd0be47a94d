"""Make a repository and tell a run of it, event by event, for tests of the server and of the page."""

import subprocess
import time
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Integrity, Outcome, Pool
from loopty.git.folders import GitFolders
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.tunings import NodeTuned, TunePointChosen, TuningStarted
from loopty.record.verdicts import NodeJudged
from loopty.workspaces.state_folder import StateFolder

_TASK = """
[benchmark]
command = "true"
timeout_seconds = 10
[access]
write = ["{program}"]
[pools]
attempts = {attempts}
money_usd = 5.0
"""


def make_repository(top: Path, program: str, attempts: int) -> None:
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "loopty.toml").write_text(_TASK.format(program=program, attempts=attempts))


def git(top: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", *identity, *words], cwd=top, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(top: Path, program: str, text: str) -> tuple[str, str]:
    (top / program).write_text(text)
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

    def tick(self) -> float:
        self.now += 1
        return self.now

    def record(self, *events) -> None:
        self.recorder.record(lambda _: events)

    def tune(self, name, slice_, score, params, reason):
        """Tune a node that waits for its attempt: one tune trial as it was proposed, one that is promoted."""
        node = NodeId(name)
        self.record(TuningStarted(node, slice_, "local", 2))
        for number, (point, found) in enumerate([({"x": 1}, score / 2), (params, score)], 1):
            self.record(TunePointChosen(node, number, point), TrialStarted(node, number, Pool.TUNE, "bench"))
            outcome = Outcome(Ending.FINISHED, {"score": found}, seconds=0.5, fingerprint="f")
            self.record(TrialEnded(node, number, outcome))
        self.record(NodeTuned(node, params, reason))

    def node(self, name, commits, score, verdict, pool=Pool.ATTEMPT, operator="diff", summary="a change", **more):
        """A node with a trial and a verdict."""
        node, why = NodeId(name), more.pop("why", f"why {name}")
        failure = more.pop("failure", "exit code 1")
        reason = "" if score is not None else failure
        params, origin = more.pop("params", {}), {key: more.pop(key, ()) for key in ("calls", "merged")}
        tuned = more.pop("tuned", None)
        self.record(NodeAdded(node, pool, operator, summary, *commits, params, **origin))
        if tuned:
            self.tune(name, *tuned)
        number = 3 if tuned else 1
        self.record(TrialStarted(node, number, pool, "bench"))
        ending = Ending.FINISHED if score is not None else Ending.FAILED
        metrics = {"score": score, "size": 7.0} if score is not None else {}
        outcome = Outcome(ending, metrics, reason=reason, seconds=2.0, fingerprint="f", integrity=Integrity.STRONG)
        self.record(TrialEnded(node, number, outcome), NodeJudged(node, verdict, why, node.parent, **more))
