"""A made-up record whose every text is hostile, for the browser to show."""

import json
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Reply, Speaker, Usage
from loopty.domain.objective import Objective
from loopty.domain.trial import Effect, Ending, Outcome, Pool, Verdict
from loopty.models.archive import Archive
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.directives import DirectiveSet
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.search_summary import PoolFrozen, PoolMember
from loopty.record.sessions import RunStarted, SessionEnded, SessionStarted
from loopty.record.trials import MachineSeen, TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.workspaces.node_folders import NodeFolders

from ..web.story import Story, commit, make_repository

PROBE = "<img src=x onerror=hacked=1><script>hacked=1</script>\u202egnp.exe\x1b[31m"
"""Runs in a page that takes text for markup; turns the reading direction; colours a terminal."""


class HostileStory(Story):
    """Every reason is hostile."""

    commits: tuple[str, str] = ("", "")

    def add(self, name, score, verdict, **more) -> None:
        """A node of the present commits with one trial and its verdict."""
        texts = {"params": {"x": 2 + len(name)}, "why": f"{PROBE} of {name}", "failure": PROBE}
        self.node(name, self.commits, score, verdict, **{**texts, **more})


def make_page_repository(top: Path) -> None:
    make_repository(top, "x.py", attempts=40)


def tell_run(top: Path) -> HostileStory:
    """A run with every kind of verdict, a control, a call of a model and a refused proposal."""
    story = HostileStory(top)
    base = commit(top, "x.py", "def run():\n    return 1\n")
    changed = commit(top, "x.py", f"def run():\n    return 2  # {PROBE}\n")
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
    effect = Effect("score", 0.5, 6, 0.05)
    prompt = Prompt(PROBE, (Message(Speaker.ASKER, PROBE),))
    Archive(story.state.calls).keep("c1", prompt, Reply(PROBE, Usage(50, 30)), model=PROBE, role="evolver")
    texts = {"stdout.log": PROBE, "traces/sort.json": json.dumps({"score": 1.0, "output": PROBE})}
    story.add("1.1", 1.5, Verdict.KEPT, summary=PROBE, effect=effect, calls=("c1",), params={"x": PROBE})
    folders = NodeFolders(story.state)
    folders.add(NodeId("1.1"), {name: text.encode() for name, text in texts.items()})
    folders.close()
    tuned = (PROBE, 0.4, {"x": PROBE}, PROBE)
    story.add("1.2", 0.5, Verdict.DISCARDED, summary="a smaller cache", operator=PROBE, tuned=tuned)
    story.add("1.3", None, Verdict.DISCARDED)
    story.add("1.4", 1.1, Verdict.INCONCLUSIVE)
    story.add("1.5", 1.2, Verdict.DISCARDED, pool=Pool.CONTROL, operator="random")
    story.add("1.1.1", 9.0, Verdict.HELD, summary="too good to be true")
    story.add("1.1.2", 1.7, Verdict.KEPT, summary="a wider table", effect=effect)
    story.record(ProposalRefused(1, Pool.ATTEMPT, "diff", PROBE), SessionEnded(1, "all 40 attempts are spent"))
    return story


def tell_noisy_run(top: Path) -> HostileStory:
    """A run whose results vary: the gain of its best node is not confirmed, and its interval is wide."""
    story = HostileStory(top)
    story.record(
        RunStarted(1, "c", Objective(), 0, "the first run", secret="s"), MachineSeen(1, "f", {"cpu": "x"})
    )
    story.commits = commit(top, "x.py", "def run():\n    return 1\n")
    root = NodeId("1")
    story.record(NodeAdded(root, Pool.ATTEMPT, "baseline", "the code as it is", *story.commits))
    for number, score in enumerate((10.0, 10.2, 9.8), 1):
        pool, subject = (Pool.ATTEMPT, None) if number == 1 else (Pool.REPEAT, root)
        story.record(TrialStarted(root, number, pool, "bench", subject))
        story.record(
            TrialEnded(root, number, Outcome(Ending.FINISHED, {"score": score, "size": 7.0}, fingerprint="f"))
        )
    story.record(NodeJudged(root, Verdict.KEPT, "the first result"))
    story.commits = commit(top, "x.py", "def run():\n    return 2\n")
    story.add("1.1", 11.0, Verdict.KEPT, effect=Effect("score", 1.0, 6, 0.05), summary="sort once")
    story.add("1.2", 9.0, Verdict.DISCARDED, summary="")
    return story


def tell_combination(top: Path) -> HostileStory:
    """A second run that combines nodes of the first one, for reasons that are hostile."""
    story = tell_run(top)
    story.record(
        RunStarted(2, "c", Objective(), 0, PROBE, secret="s"),
        MachineSeen(2, "f", {"cpu": PROBE}),
        SessionStarted(2, "gone"),
    )
    members = tuple(PoolMember(NodeId(name), score, {}, PROBE) for name, score in (("1.1.2", 1.7), ("1.1", 1.5)))
    merged = tuple(member.node for member in members)
    story.record(PoolFrozen(2, 1, members))
    story.add("2", 1.8, Verdict.KEPT, operator="baseline", summary=PROBE, merged=merged)
    story.add("2.1", 1.9, Verdict.KEPT, summary="other weights")
    story.record(SessionEnded(2, "all 2 attempts are spent"))
    return story
