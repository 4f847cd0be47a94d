"""What a person can do from the page: each action says what it would do, or does it through the campaign."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.record.history import History
from loopty.record.trials import Trials
from loopty.session.verdicts import VerdictChange
from loopty.show.figures import plural

Body = Mapping[str, Any]
_BY_TYPING = ("invalidate", "accept")
"""Actions for which a person types the name of the node."""


class Actions:
    """The actions of one server. They run one after the other, in a thread of their own."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._campaign: tuple[object, Campaign] | None = None
        self._said: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._actions: dict[str, tuple[Callable[[Body], str], Callable[[Body], tuple[str, list[str]]]]] = {
            "direct": (self._direct, self._plan_direct),
            "pause": (self._pause, self._plan_pause),
            "resume": (self._resume, self._plan_resume),
            "stop": (self._stop, self._plan_stop),
            "discard": (self._discard, self._plan_discard),
            "invalidate": (self._invalidate, self._plan_invalidate),
            "remeasure": (self._remeasure, self._plan_remeasure),
            "replay": (self._replay, self._plan_replay),
            "restore": (self._restore, self._plan_restore),
            "accept": (self._accept, self._plan_accept),
            "apply": (self._apply, self._plan_apply),
            "budget": (self._budget, self._plan_budget),
        }
        """By name: what is done, and what it would do in words with its command line."""

    @property
    def names(self) -> list[str]:
        return list(self._actions)

    def act(self, name: str, body: Body) -> dict[str, Any]:
        """Do it, or with `dry` only say what it would do. Raises Misuse."""
        if name not in self._actions:
            raise Misuse(f"there is no action {name}: there are {', '.join(self._actions)}")
        self._said.clear()
        do, plan = self._actions[name]
        confirm = self._text_to_type(body) if name in _BY_TYPING else None
        if body.get("dry") is True:
            text, command = plan(body)
            line = shlex.join(["loopty", *command])
            return {"ok": True, "dry": True, "text": text, "command": line, "confirm": confirm}
        if confirm is not None and body.get("confirm") != confirm:
            raise Misuse(f"type {confirm} to confirm this")
        text = do(body)
        return {"ok": True, "text": " ".join([text, *self._said])}

    @property
    def campaign(self) -> Campaign:
        """Return the campaign, opened again when its task file has changed."""
        try:
            changed = (self._top / "loopty.toml").stat().st_mtime_ns
        except OSError:
            changed = 0
        if self._campaign is None or self._campaign[0] != changed:
            self._campaign = changed, Campaign(self._top, self._said.append)
        campaign = self._campaign[1]
        campaign.__dict__.pop("record", None)
        return campaign

    @property
    def _history(self) -> History:
        return self.campaign.record.history

    def _node(self, body: Body) -> NodeId:
        campaign = self.campaign
        return campaign.record.history[campaign.find_node(_text(body, "node"))].id

    def _name(self, body: Body) -> str:
        return self._history.name(self._node(body))

    def _text_to_type(self, body: Body) -> str:
        return self._name(body)

    def _run(self, body: Body) -> int:
        run = body.get("run")
        if run is not None and (not isinstance(run, int) or isinstance(run, bool)):
            raise Misuse("run is a number")
        return self.campaign.newest_run(run)

    def _trials(self, run: int) -> int:
        return len(Trials.of(self._history.runs[run]).running)

    def _direct(self, body: Body) -> str:
        self.campaign.direct(_text(body, "text"))
        return "The models see this from their next proposal on." if _text(body, "text") else "It is removed."

    def _plan_direct(self, body: Body) -> tuple[str, list[str]]:
        run, text = self._run(body), _text(body, "text")
        words = f"The models of run {run} see this from their next proposal on; calls in flight do not."
        return words, ["model", "direct", text] if text else ["model", "direct", "--clear"]

    def _pause(self, body: Body) -> str:
        self.campaign.pause(_text(body, "why"), self._run(body))
        return "The run is paused."

    def _plan_pause(self, body: Body) -> tuple[str, list[str]]:
        run = self._run(body)
        return f"{self._trials(run)} running trials end as they are; nothing new starts.", [
            "pause",
            f"--run={run}",
        ]

    def _resume(self, body: Body) -> str:
        is_driven = self.campaign.resume(self._run(body))
        return "The run continues." if is_driven else "The pause is over: start the run with `loopty run`."

    def _plan_resume(self, body: Body) -> tuple[str, list[str]]:
        return "New trials and questions start again.", ["resume", f"--run={self._run(body)}"]

    def _stop(self, body: Body) -> str:
        self.campaign.stop(_text(body, "why"), self._run(body))
        return "The session ends now; `loopty run` resumes it."

    def _plan_stop(self, body: Body) -> tuple[str, list[str]]:
        run = self._run(body)
        words = f"{self._trials(run)} running trials are cancelled and cost no attempt; `loopty run` resumes."
        return words, ["stop", f"--run={run}"]

    def _discard(self, body: Body) -> str:
        return self._change_text(self.campaign.discard(self._node(body), _text(body, "why")))

    def _plan_discard(self, body: Body) -> tuple[str, list[str]]:
        node = self._node(body)
        children = self._history[node].children
        words = f"It is not kept any more; its {children} children stay. Who lost only against it is judged again."
        return words, ["node", "discard", self._history.name(node), "--why", _text(body, "why")]

    def _invalidate(self, body: Body) -> str:
        return self._change_text(self.campaign.invalidate(self._node(body), _text(body, "why")))

    def _plan_invalidate(self, body: Body) -> tuple[str, list[str]]:
        node = self._node(body)
        below = sum(each.is_within(node) for each in self._history.ids) - 1
        words = f"It and {below} descendants are rejected; nothing is built on them again."
        return words, ["node", "reject", self._history.name(node), "--why", _text(body, "why")]

    def _restore(self, body: Body) -> str:
        return self._change_text(self.campaign.restore(self._node(body), _text(body, "why")))

    def _plan_restore(self, body: Body) -> tuple[str, list[str]]:
        words = "It waits for a verdict again, and has to win once more against the present best."
        return words, ["node", "undo", self._name(body), "--why", _text(body, "why")]

    def _accept(self, body: Body) -> str:
        self.campaign.accept(self._node(body), _text(body, "why"))
        return "It is kept."

    def _plan_accept(self, body: Body) -> tuple[str, list[str]]:
        words = "It becomes the best node, and the search continues from it."
        return words, ["node", "approve", self._name(body), "--why", _text(body, "why")]

    def _apply(self, body: Body) -> str:
        branch = _text(body, "branch") or None
        made = self.campaign.make_branch(self._node(body), branch)
        return f"The branch {made.branch} holds the change."

    def _plan_apply(self, body: Body) -> tuple[str, list[str]]:
        branch = _text(body, "branch")
        named = ["--branch", branch] if branch else []
        words = "A branch of your repository gets its whole change; your working tree stays as it is."
        return words, ["apply", self._name(body), *named]

    def _remeasure(self, body: Body) -> str:
        self._measure(self._plan_remeasure(body)[1])
        return "It is measured now, beside the present best."

    def _replay(self, body: Body) -> str:
        self._measure(self._plan_replay(body)[1])
        return "It is measured now; what it gives is shown under its checks."

    def _plan_replay(self, body: Body) -> tuple[str, list[str]]:
        return "It is measured once more, from nothing. Its verdict stays.", [
            "measure",
            "replay",
            self._name(body),
        ]

    def _measure(self, command: list[str]) -> None:
        """Measure in another process: its trials run for a while."""
        self._processes = [each for each in self._processes if each.poll() is None]
        if self._processes:
            raise Misuse("a measurement runs already: wait for its end")
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "loopty", *command],
                cwd=self._top,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def _plan_remeasure(self, body: Body) -> tuple[str, list[str]]:
        node = [self._name(body)] if body.get("node") else []
        return "It is measured again, beside the present best, until there is a verdict.", [
            "node",
            "recheck",
            *node,
        ]

    def _budget(self, body: Body) -> str:
        limits = self.campaign.budget(_changes(body), self._run(body))
        shown = (f"{name} {'without limit' if value is None else f'{value:g}'}" for name, value in limits.items())
        return f"In force now: {', '.join(shown)}."

    def _plan_budget(self, body: Body) -> tuple[str, list[str]]:
        run, changes = self._run(body), _changes(body)
        before = self.campaign.budget({}, run)
        parts = [f"{name} from {_limit(before.get(name))} to {_limit(limit)}" for name, limit in changes.items()]
        command = [f"{name}={'none' if limit is None else f'{limit:g}'}" for name, limit in changes.items()]
        return f"Changes {'; '.join(parts) or 'nothing'}, for run {run}.", [
            "config",
            "budget",
            f"--run={run}",
            *command,
        ]

    def _change_text(self, change: VerdictChange) -> str:
        parts = [f"{plural(len(change.withdrawn), 'verdict')} withdrawn"] if change.withdrawn else []
        parts += [f"{plural(len(change.reopened), 'node')} to judge again"] if change.reopened else []
        best = f" The best is {self._history.name(change.best)} now." if change.best else ""
        return f"{'; '.join(parts) or 'Done'}.{best}"


def _text(body: Body, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise Misuse(f"{name} is text")
    return value


def _changes(body: Body) -> dict[str, float | None]:
    changes = body.get("changes")
    if not isinstance(changes, dict) or len(changes) > 20:
        raise Misuse("changes is an object of limits")
    for name, limit in changes.items():
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float)):
            raise Misuse(f"{name[:40]} is a number, or null for no limit")
    return changes


def _limit(value: float | None) -> str:
    return "no limit" if value is None else f"{value:g}"
