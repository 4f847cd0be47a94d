"""Notices: what of a run is worth telling a person who is elsewhere, and how it is sent; the loop never waits."""

from __future__ import annotations

import contextlib
import html
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.task import Pools
from loopty.domain.trial import Pool, Verdict
from loopty.engine.budget import session_seconds
from loopty.kit import codec
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record
from loopty.kit.web_post import post_json
from loopty.record.calls import CallSettled, Spend
from loopty.record.fold import Event, Recorded
from loopty.record.history import History
from loopty.record.sessions import SessionEnded, SessionStalled, pools_in_force
from loopty.record.trials import TrialCounts, TrialEnded
from loopty.record.verdicts import Incumbents, NodeJudged


class NoticeKind(StrEnum):
    NEW_BEST = "new-best"
    HELD = "held"
    """A gain too good to be true waits for a look."""
    STALLED = "stalled"
    BUDGET_80 = "budget-80"
    BUDGET_100 = "budget-100"
    FINISHED = "finished"
    TEST = "test"


class Notice(Record):
    """What happened, in a line and in a sentence."""

    kind: NoticeKind
    run: int
    title: str
    text: str
    node: str = ""
    repository: str = ""
    """The name of the repository's folder."""


class NoticeSettings(Record):
    """Where notices go. They are the user's own, never a task file's: a clone must not run or call anything."""

    desktop: bool = False
    webhook: str = ""
    """An address that gets the notice as JSON."""
    command: tuple[str, ...] = ()
    """A command that gets the notice as JSON on standard input."""
    on: tuple[NoticeKind, ...] = tuple(NoticeKind)

    @property
    def has_receiver(self) -> bool:
        return bool(self.desktop or self.webhook or self.command)


# The loop never waits for it.


_SECONDS = 10.0
"""For one receiver, and for what is left at the end."""
_MOST_WAITING = 100


def send_notice(settings: NoticeSettings, notice: Notice) -> list[str]:
    """Send a notice to every receiver; returns what went wrong, as sentences."""
    failures = []
    for receiver, send in _receivers(settings):
        try:
            send(notice)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            failures.append(f"{receiver} did not take a notice: {error}")
    return failures


class NoticeSender:
    """Sends notices in a thread of its own, in their order; the first failure of each receiver is said."""

    def __init__(self, settings: NoticeSettings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._waiting: queue.Queue[Notice | None] = queue.Queue(_MOST_WAITING)
        self._said: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
        self._thread.start()

    def send(self, notice: Notice) -> None:
        """Take a notice. One too many is dropped: a person reads no hundred at once."""
        if notice.kind in self._settings.on:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(notice)

    def close(self) -> None:
        """Send what is left, for at most a few seconds."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(_SECONDS)

    def _work(self) -> None:
        while notice := self._waiting.get():
            for failure in send_notice(self._settings, notice):
                receiver = failure.partition(" did not")[0]
                if receiver not in self._said:
                    self._said.add(receiver)
                    self._say(f"warning: {failure}; `loopty config notify --test` tries again")


def _receivers(settings: NoticeSettings) -> Iterator[tuple[str, Callable[[Notice], None]]]:
    if settings.desktop:
        yield "the desktop", _send_to_desktop
    if settings.webhook:
        yield "the webhook", lambda notice: _send_to_web(settings.webhook, notice)
    if settings.command:
        yield "the command", lambda notice: _send_to_command(settings.command, notice)


def _send_to_desktop(notice: Notice) -> None:
    title = f"loopty, {notice.repository}: {notice.title}" if notice.repository else f"loopty: {notice.title}"
    if sys.platform == "darwin":
        script = "display notification (item 2 of argv) with title (item 1 of argv)"
        argv = ["osascript", "-e", "on run argv", "-e", script, "-e", "end run", title, notice.text]
    elif program := shutil.which("notify-send"):
        argv = [program, "--app-name=loopty", "--", title, html.escape(notice.text)]  # the text may have markup
    else:
        raise OSError("there is no notify-send on this machine: install it (Debian: libnotify-bin)")
    _run(argv, b"", {})


def _send_to_web(address: str, notice: Notice) -> None:
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ValueError("its address must begin with https:// or http://")
    post_json(address, _plain_text(notice), _SECONDS)


def _send_to_command(argv: tuple[str, ...], notice: Notice) -> None:
    _run(list(argv), _plain_text(notice), {"LOOPTY_NOTICE": notice.kind, "LOOPTY_NOTICE_TITLE": notice.title})


def _run(argv: list[str], stdin: bytes, more_environment: dict[str, str]) -> None:
    environment = {**os.environ, **more_environment}
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=_SECONDS, env=environment, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"{argv[0]} ended with {done.returncode}" + (f" ({said[-1][:200]})" if said else ""))


def _plain_text(notice: Notice) -> bytes:
    """Write the notice as JSON. Chat servers show the key `text`; the rest is for programs."""
    text = f"{notice.repository}: {notice.title}\n{notice.text}"
    return json.dumps({**codec.plain(notice), "text": text, "detail": notice.text}).encode()


# An event costs O(1).


_LINE = 160
_SHARES = ((NoticeKind.BUDGET_100, 1.0), (NoticeKind.BUDGET_80, 0.8))


class NoticeWatch:
    """Turns events of one run into notices, each budget and each stall once a session."""

    def __init__(
        self,
        history: Callable[[], History],
        run: int,
        pools: Pools,
        repository: str,
        send: Callable[[Notice], None],
    ) -> None:
        self._history = history
        self._run = run
        self._pools = pools
        self._repository = repository
        self._send = send
        self._sent = {kind for kind, share in _SHARES if self._spent(0.0)[0] >= share}
        """Budgets that were spent before this session are no news."""

    def on_event(self, recorded: Recorded) -> None:
        for kind, title, text, node in self._notices(recorded.event, recorded.at):
            self._send(Notice(kind, self._run, title, text, node, self._repository))

    def _notices(self, event: Event, at: float) -> Iterator[tuple[NoticeKind, str, str, str]]:
        match event:
            case NodeJudged() if event.node.run == self._run:
                yield from self._verdict(event)
            case SessionStalled(run, reason) if run == self._run and NoticeKind.STALLED not in self._sent:
                self._sent.add(NoticeKind.STALLED)
                yield NoticeKind.STALLED, f"run {self._run} is stalled", one_line(reason, _LINE), ""
            case SessionEnded(run, reason, lost) if run == self._run and not lost:
                yield (
                    NoticeKind.FINISHED,
                    f"run {self._run} has ended",
                    f"{one_line(reason, _LINE)}; {self._result()}",
                    "",
                )
        if isinstance(event, TrialEnded | CallSettled):
            yield from self._budget(at)

    def _verdict(self, event: NodeJudged) -> Iterator[tuple[NoticeKind, str, str, str]]:
        history = self._history()
        node = history[event.node]
        if event.verdict is Verdict.HELD:
            text = f"{one_line(event.reason, _LINE)}; look at it: loopty show {node.name}"
            yield NoticeKind.HELD, f"{node.name} is too good to be true", text, event.node
        best = Incumbents.of(history.runs[self._run], Pool.ATTEMPT).best
        if event.verdict is Verdict.KEPT and event.node == best and event.node.parent is not None:
            text = f"{one_line(event.reason, _LINE)} ({one_line(node.summary, _LINE)})"
            yield NoticeKind.NEW_BEST, f"new best: {node.name}", text, event.node

    def _budget(self, at: float) -> Iterator[tuple[NoticeKind, str, str, str]]:
        share, words = self._spent(at)
        for kind, least in _SHARES:
            if share >= least and kind not in self._sent:
                self._sent |= {other for other, lower in _SHARES if lower <= least}
                yield kind, f"run {self._run} has spent {least:.0%} of its budget", words, ""
                return

    def _spent(self, at: float) -> tuple[float, str]:
        """Compute the largest share of the budget that is spent, and of what."""
        run = self._history().runs[self._run]
        pools = pools_in_force(run, self._pools)
        spend = Spend.of(run)
        rows = [
            (TrialCounts.of(run, Pool.ATTEMPT).started, pools.attempts, "attempts"),
            (spend.total_tokens, pools.tokens, "tokens"),
            (spend.total_money_usd, pools.money_usd, "dollars"),
            (session_seconds(run, at) if at else 0.0, pools.wall_seconds, "seconds"),
        ]
        shares = [(used / limit, f"{used:,.6g} of {limit:,.6g} {unit}") for used, limit, unit in rows if limit]
        return max(shares, default=(0.0, ""))

    def _result(self) -> str:
        history = self._history()
        best: NodeId | None = Incumbents.of(history.runs[self._run], Pool.ATTEMPT).best
        if best is None or best.parent is None:
            return "nothing better than the baseline was found"
        score = history.score(history[best])
        return f"the best is {history.name(best)}" + ("" if score is None else f" with {score:g}")
