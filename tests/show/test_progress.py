"""The progress of a run."""

from __future__ import annotations

import io
import itertools
import os
import re

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Pool, Row
from loopty.judge.revisions import discard_node
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.sessions import SessionStalled
from loopty.record.verdicts import Incumbents
from loopty.show.figures import duration
from loopty.show.live import LiveProgress
from loopty.show.progress import PlainProgress, make_progress
from loopty.show.terminal import SetUpLine, Terminal, safe_text

from .story import Story

POOLS = Pools(attempts=20, wall_seconds=3600.0)


class Screen:
    """A terminal whose size can change."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.stream = io.StringIO()
        self.size = os.terminal_size((columns, lines))

    @property
    def frames(self) -> list[list[str]]:
        """The drawn frames."""
        return [frame.splitlines() for frame in re.split(r"\x1b\[\d+F\x1b\[J", safe_text(self.stream.getvalue()))]


def live(story: Story, screen: Screen) -> LiveProgress:
    rows = {NodeId("1.3"): Row(300, {"loss": 0.41})}
    shown = LiveProgress(
        story.recorder, 1, POOLS, screen.stream, Terminal(), lambda: story.now, lambda: screen.size, rows.get
    )
    story.recorder.listeners.append(shown.on_event)
    return shown


def test_the_live_display_shows_what_matters() -> None:
    story, screen = Story(baseline=1.94), Screen()
    live(story, screen)
    story.tries("1", 2.41)
    story.tries("1", 1.0)
    story.starts(story.adds("1"))
    assert screen.frames[-1] == [
        "███░░░░░░░░░░░░░░░░░░░░░░░░░░░ 3/20 attempts",
        "best @2: 24.2 % better than the baseline (1.94); score 2.41",
        "17.1 trials/min, 13 s so far, about 72 s to go",
        "last @3 discarded: worse: score 1 against 2.41 of @2",
        "running @4 for 0.0 s: step 300 loss 0.41",
    ]


def test_both_displays_show_the_slots_of_trials_and_of_models() -> None:
    story, screen, out = Story(), Screen(), io.StringIO()
    pools = Pools(attempts=20, questions=4)
    shown = LiveProgress(
        story.recorder,
        1,
        pools,
        screen.stream,
        Terminal(),
        lambda: story.now,
        lambda: screen.size,
        lambda _: None,
        trials_at_once=2,
    )
    lines = PlainProgress(story.recorder, 1, pools, out, Terminal(), lambda: story.now, trials_at_once=2)
    story.recorder.listeners += [shown.on_event, lines.on_event]
    story.starts(story.adds("1"))
    story.tell(CallReserved(1, "a", "evolver", 9, 0.0, "me", pool=Pool.ATTEMPT))
    assert screen.frames[-1][-1] == "1/2 trial slots and 1/4 model slots busy"
    story.tell(CallSettled(1, "a", 9, 0.0))
    assert screen.frames[-1][-1] == "1/2 trial slots and 0/4 model slots busy"
    story.now += 60
    lines.tick()
    assert "1/2 trial slots and 0/4 model slots busy" in out.getvalue()
    assert max(map(len, screen.frames[-1])) <= 80


@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (10, 24), (1, 1), (200, 3)])
def test_the_live_display_fits_any_terminal(columns: int, lines: int) -> None:
    story, screen = Story(), Screen(columns, lines)
    live(story, screen)
    for _ in range(5):
        story.tries("1", 2.0)
    story.starts(story.adds("1"))
    assert all(len(line) < max(columns, 2) for line in screen.frames[-1])
    assert len(screen.frames[-1]) <= max(lines - 1, 1)


def test_wrapped_lines_are_erased_on_a_narrower_terminal() -> None:
    story, screen = Story(), Screen(80)
    shown = live(story, screen)
    story.tries("1", 2.0)
    before = screen.frames[-1]
    screen.size = os.terminal_size((20, 24))
    shown.close()
    rows = sum(-(-len(line) // 20) for line in before)
    assert safe_text(screen.stream.getvalue()).endswith(f"\x1b[{rows}F\x1b[J")


def test_many_events_at_once_draw_one_frame() -> None:
    story, screen = Story(), Screen()
    shown = live(story, screen)
    for recorded in story.ledger.read():
        shown.on_event(recorded)
    assert len(screen.frames) == 1


def noisy_run() -> Story:
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    return Story(baseline=1.0, again=lambda node: 1.0 + (node == "1.1") + next(wobble))


def test_a_pairing_is_one_line_that_counts_its_pairs() -> None:
    story, screen = noisy_run(), Screen()
    live(story, screen)
    story.tries("1", 2.0)
    lines = [line for frame in screen.frames for line in frame if line.startswith("running @2 again")]
    assert [line.split(", for")[0] for line in lines] == [
        *(f"running @2 again, pair {pair} against @1" for pair in (1, 1, 2, 2, 3, 3)),
    ]
    assert not any(line.startswith("running @1 ") for frame in screen.frames for line in frame)


def test_a_repeated_baseline_shows_the_number_of_measurements() -> None:
    wobble = iter([1.1, 0.9, 1.0, 1.1, 1.0])
    story, screen = Story(baseline=None, again=lambda _: next(wobble)), Screen()
    live(story, screen)
    story.ends(NodeId("1"), 1.0)
    assert "running @1 again, measurement 2, for 0.0 s" in [line for frame in screen.frames for line in frame]


def test_the_phases_before_and_after_the_search_count_their_steps() -> None:
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    story, screen = Story(baseline=None, again=lambda node: 1.0 + (node == "1.1") + next(wobble)), Screen()
    out, noise = io.StringIO(), Noise(confirm=3)
    story.noise = noise
    shown = LiveProgress(
        story.recorder, 1, POOLS, screen.stream, Terminal(), lambda: story.now, lambda: screen.size, {}.get, noise
    )
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now, noise)
    story.recorder.listeners += [shown.on_event, lines.on_event]
    story.ends(NodeId("1"), 1.0)
    story.tries("1", 2.0)
    story.confirms()
    drawn = {line for frame in screen.frames for line in frame}
    assert {f"measuring the baseline: {step} of {steps}" for step, steps in ((1, 3), (2, 3), (3, 3))} <= drawn
    assert {f"confirming the gain over the baseline: pair {pair} of 3" for pair in (1, 2, 3)} <= drawn
    assert any(line.startswith("running @2 again, pair 3 against @1") for line in drawn)
    printed = out.getvalue().splitlines()
    assert printed[0] == "measuring the baseline"
    assert printed.count("confirming the gain over the baseline in 3 fresh pairs") == 1


def test_the_line_of_the_set_up_is_for_terminals_alone() -> None:
    class TerminalStream(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((TerminalStream(), "freezing your files"), (io.StringIO(), "")):
        line = SetUpLine(stream, {"TERM": "xterm"})
        line.show("freezing your files")
        line.erase()
        assert shown in stream.getvalue()
        assert bool(stream.getvalue()) is bool(shown)


def test_remaining_time_is_estimated_from_verdicts_not_measurements() -> None:
    story, screen = noisy_run(), Screen()
    shown = live(story, screen)
    start = story.now
    story.tries("1", 2.0)
    seconds = 19 * ([*story.ledger.read()][-1].at - start)
    story.now += 1
    shown.tick()
    assert f"about {duration(seconds)} to go" in screen.frames[-1][2]


def test_time_advances_with_ticks() -> None:
    story, screen = Story(), Screen()
    shown = live(story, screen)
    shown.tick()
    story.now += 10
    shown.tick()
    assert [frame[2].split(" so far")[0] for frame in screen.frames] == ["3.0 s", "13 s"]


def test_a_recorder_that_has_to_catch_up_leaves_the_display_alone() -> None:
    story, screen = Story(), Screen()
    shown = live(story, screen)
    lines = PlainProgress(story.recorder, 1, POOLS, screen.stream, Terminal(), lambda: story.now)
    story.recorder.history = MemoryLedger().history()
    story.now += 60
    shown.tick()
    lines.tick()
    assert screen.stream.getvalue() == ""


def test_without_a_terminal_kept_nodes_are_lines() -> None:
    story, out = Story(baseline=1.0), io.StringIO()
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    story.recorder.listeners.append(lines.on_event)
    story.tries("1", 2.0)
    story.tries("1", 1.5)
    assert out.getvalue().splitlines() == [
        "kept @2: better: score 2 against 1 of @1",
        "1/20 attempts, best @2 2 (+100.0 %), 20.0 trials/min, about 76 s to go",
    ]


def test_without_a_terminal_inconclusive_and_tampered_nodes_are_lines() -> None:
    story, out = noisy_run(), io.StringIO()
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    story.recorder.listeners.append(lines.on_event)
    story.noise = Noise(pairs=1)
    story.tries("1", 9.0)
    story.tries("1", None, ending=Ending.TAMPERED)
    story.tries("1", None, ending=Ending.REFUSED)
    first, second = [line for line in out.getvalue().splitlines() if "attempts" not in line]
    assert first.startswith("inconclusive @2: undecided: better than @1 by")
    assert second == "tampered @3: exit code 1"


def test_a_verdict_that_is_taken_back_is_a_line() -> None:
    story, out = Story(baseline=1.0), io.StringIO()
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    story.tries("1", 2.0)
    story.recorder.listeners.append(lines.on_event)
    story.recorder.record(lambda history: discard_node(history, NodeId("1.1"), "it cannot be reviewed"))
    assert out.getvalue().splitlines()[0] == "withdrawn @2: it cannot be reviewed"


def fail_call(story: Story, call: str, failure: str) -> None:
    story.recorder.record(lambda _: [CallReserved(1, call, "evolver", 9, 0.0, "me")])
    story.recorder.record(lambda _: [CallSettled(1, call, 0, 0.0, Usage(), failure)])


def test_a_model_failure_is_printed_once_until_it_replies() -> None:
    story, screen, out = Story(), Screen(40), io.StringIO()
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    story.recorder.listeners.append(lines.on_event)
    shown = live(story, screen)
    for number, failure in enumerate(("503: overloaded", "503: overloaded", "no connection to 127.0.0.1:1")):
        fail_call(story, f"c{number}", failure)
    printed = [line for line in out.getvalue().splitlines() if line.startswith("no reply")]
    assert printed == [
        "no reply from a model: 503: overloaded",
        "no reply from a model: no connection to 127.0.0.1:1",
    ]
    story.now += 1
    shown.tick()
    assert screen.frames[-1][-1] == "no reply from a model: no connection t…"
    fail_call(story, "c9", "")
    story.now += 1
    shown.tick()
    assert "no reply" not in "\n".join(screen.frames[-1])


def test_a_stall_does_not_repeat_a_printed_failure() -> None:
    story, out = Story(), io.StringIO()
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    story.recorder.listeners.append(lines.on_event)
    failure = "401: the key in THE_KEY was refused: " + "and so on " * 20
    fail_call(story, "c1", failure)
    story.recorder.record(lambda _: [SessionStalled(1, f"openai:m: {failure}", 1.0)])
    story.recorder.record(lambda _: [SessionStalled(1, "the judge cannot be understood", 1.0)])
    first, *more = out.getvalue().splitlines()
    assert first.startswith("no reply from a model: 401: the key in THE_KEY was refused: and so on")
    assert len(first) < 110
    assert more == ["stalled: a model is unavailable", "stalled: the judge cannot be understood"]


def test_the_confirmation_is_announced_once() -> None:
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    story, out = Story(baseline=1.0, again=lambda node: 1.0 + (node == "1.1") + next(wobble)), io.StringIO()
    story.tries("1", 2.0)
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now, story.noise)
    story.recorder.listeners.append(lines.on_event)
    story.confirms()
    announced, *lines = out.getvalue().splitlines()
    assert announced == "confirming the gain over the baseline in 10 fresh pairs"
    assert len(lines) <= 1


def test_without_anything_new_there_is_no_other_progress_line() -> None:
    story, out = Story(), io.StringIO()
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    for _ in range(8 * 3600):
        story.now += 1
        lines.tick()
    assert len(out.getvalue().splitlines()) == 1
    story.tries("1", 2.0)
    story.now += 3600
    lines.tick()
    lines.tick()
    assert len(out.getvalue().splitlines()) == 2


def test_a_run_outlives_its_terminal() -> None:
    story = Story()
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    lines = PlainProgress(story.recorder, 1, POOLS, stream, Terminal(), lambda: story.now)
    story.recorder.listeners.append(lines.on_event)
    story.tries("1", 2.0)
    story.tries("1", 3.0)
    assert Incumbents.of(story.recorder.history.runs[1], story.recorder.history[NodeId("1")].pool).best == "1.2"
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_pipe_gets_lines_and_a_terminal_gets_a_display() -> None:
    story = Story()
    assert isinstance(make_progress(story.recorder, 1, POOLS, io.StringIO(), {}, lambda: story.now), PlainProgress)
    leader, follower = os.openpty()
    with os.fdopen(leader), os.fdopen(follower, "w") as terminal:
        shown = make_progress(story.recorder, 1, POOLS, terminal, {}, lambda: story.now)
        assert isinstance(shown, LiveProgress)
        shown.tick()
        shown.close()
        assert isinstance(
            make_progress(story.recorder, 1, POOLS, terminal, {"TERM": "dumb"}, lambda: 0.0), PlainProgress
        )


def test_reasons_name_a_deep_node_by_its_handle() -> None:
    story, out, node = Story(baseline=1.0), io.StringIO(), "1"
    lines = PlainProgress(story.recorder, 1, POOLS, out, Terminal(), lambda: story.now)
    story.recorder.listeners.append(lines.on_event)
    for score in range(2, 12):
        node = story.tries(node, float(score))
    kept = [line for line in out.getvalue().splitlines() if line.startswith("kept")]
    assert kept[7] == "kept @9: better: score 9 against 8 of @8"
    assert kept[9] == "kept @11: better: score 11 against 10 of @10"
