"""Sends notices: to the desktop, to a web address, to a command. The loop never waits for it."""

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

from loopty.kit import codec
from loopty.kit.web_post import post_json
from loopty.notices.notice import Notice, NoticeSettings

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
                    self._say(f"warning: {failure}; `loopty notify --test` tries again")


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
    """The notice as JSON. Chat servers show the key `text`; the rest is for programs."""
    text = f"{notice.repository}: {notice.title}\n{notice.text}"
    return json.dumps({**codec.plain(notice), "text": text, "detail": notice.text}).encode()
