"""Compares task files as arms: each on copies of the same repositories, with the same seeds and the same budget.

Every arm has a copy of the repository for each seed. The budget is spent in slices, and the arms take turns, so
that a machine that becomes slower or faster does so for all. A copy is an ordinary repository with its own ledger,
so a comparison that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.engine.budget import Finish
from loopty.git.command import git_argv
from loopty.git.folders import environment_without_git
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.session.trust import TaskHere, refusal_text
from loopty.show.arms import ArmRow, GainCurve, arm_rows, curve_of
from loopty.taskfile.schema import lay_over, parse_toml, read_text, toml_text

SLICES = 4
_POOLS = {"attempts": "attempts", "seconds": "wall_seconds", "tokens": "tokens", "money": "money_usd"}
_ENDLESS = 1_000_000


class ArmBudget(Record):
    """What each search may spend."""

    amount: float
    unit: str

    def slice(self, number: int) -> float:
        """Return the budget at the end of this slice, from 1."""
        share = self.amount * number / SLICES
        return float(max(round(share), 1)) if self.unit in ("attempts", "tokens") else share


class ArmSearch(Record):
    """One search of a comparison: an arm on a task with a seed, in its own copy."""

    arm: str
    task: str
    seed: int
    copy: Path


class ArmReport(Record):
    """A comparison, as far as it has come."""

    budget: ArmBudget
    seeds: int
    searches: int
    is_complete: bool
    rows: tuple[ArmRow, ...]


class ArmRuns:
    """The searches of one comparison. `folder` holds the copies."""

    def __init__(
        self, tasks: Sequence[Path], arms: Sequence[Path], seeds: int, budget: ArmBudget, folder: Path
    ) -> None:
        if len(arms) < 2:
            raise Misuse("a comparison needs two arms: --arm A.toml --arm B.toml")
        names = [arm.stem for arm in arms]
        if len(set(names)) < len(names):
            raise Misuse("two arms have the same file name: rename one, the name is that of the arm")
        self._arms = {arm.stem: _arm_data(arm) for arm in arms}
        self._tasks = {_task_name(task, at): Repository.open(task) for at, task in enumerate(tasks)}
        self._seeds = seeds
        self._budget = budget
        self._folder = folder / self._digest()
        self._seeds_done = self._folder / "seeds-done"

    def searches(self) -> Iterator[ArmSearch]:
        """Yield all searches in turns: the first arm of a seed is the second of the next one."""
        for seed in range(1, self._seeds + 1):
            names = list(self._arms)
            turned = names[seed % len(names) :] + names[: seed % len(names)]
            for task in self._tasks:
                for arm in turned:
                    yield ArmSearch(arm, task, seed, self._folder / task / f"{arm}-{seed}")

    def run(self, say: Callable[[str], None], trust: bool = False, unsafe: bool = False) -> bool:
        """Run what is left of the budget; False when it was stopped, or a model was unavailable."""
        for search in self.searches():
            self._make_copy(search, trust)
        for number in range(1, SLICES + 1):
            for search in self.searches():
                finish = self._run_slice(search, number, unsafe)
                if finish is not None and finish.resumable:
                    say(f"{search.arm}, {search.task}, seed {search.seed}: {finish.reason}; repeat the command")
                    return False
            say(f"slice {number} of {SLICES} is done: {self._budget.slice(number):g} {self._budget.unit} each")
        self._seeds_done.write_text(str(self._seeds))
        return True

    @property
    def is_complete(self) -> bool:
        """Say whether as many seeds, or more, have spent their budget."""
        return self._seeds_done.exists() and int(self._seeds_done.read_text()) >= self._seeds

    def report(self) -> ArmReport:
        """Report the comparison so far: searches without an attempt are left out, and so are their pairs."""
        curves = {
            (search.arm, search.task, search.seed): curve
            for search in self.searches()
            if (curve := self._curve(search))
        }
        ordered = {key: curves[key] for arm in self._arms for key in curves if key[0] == arm}
        rows = tuple(arm_rows(ordered, self._budget.amount))
        return ArmReport(self._budget, self._seeds, len(curves), self.is_complete, rows)

    def _curve(self, search: ArmSearch) -> GainCurve | None:
        from loopty.session.reader import CampaignReader

        if not (search.copy / ".git").exists():
            return None
        try:
            reader = CampaignReader(search.copy)
            curve = curve_of(reader.history, reader.newest_run(), self._budget.unit)
        except Misuse:
            return None  # it has not started
        return curve if curve.gains else None

    def _run_slice(self, search: ArmSearch, number: int, unsafe: bool) -> Finish | None:
        from loopty.campaign.optimize import start_session
        from loopty.session.context import CampaignContext

        if not self._write_task(search, number):
            return None
        context = CampaignContext.for_task(TaskHere.read(Repository.open(search.copy)), lambda _: None)
        return start_session(context, False, unsafe, lambda _: None).run_to_end()

    def _write_task(self, search: ArmSearch, number: int) -> bool:
        """Write the task file of this slice; False when a later slice was already begun."""
        marker = search.copy.with_suffix(".slice")
        done = int(marker.read_text()) if marker.exists() else 0
        if done > number:
            return False
        data = self._data(search)
        budget = {**data.get("budget", {}), _POOLS[self._budget.unit]: _whole(self._budget.slice(number))}
        if self._budget.unit != "attempts":
            budget["attempts"] = _ENDLESS
        data = {**data, "seed": search.seed, "budget": {**budget, "patience": _ENDLESS}}
        (search.copy / TASK_FILE).write_text(toml_text(data))
        marker.write_text(str(number))
        return True

    def _data(self, search: ArmSearch) -> dict[str, Any]:
        top = self._tasks[search.task].top
        return lay_over(parse_toml(read_text(top / TASK_FILE, TASK_FILE), TASK_FILE), self._arms[search.arm])

    def _make_copy(self, search: ArmSearch, trust: bool) -> None:
        """Clone the repository as it was committed last, and check that the user allows what the arm asks for."""
        source = self._tasks[search.task]
        if not (search.copy / ".git").exists():
            search.copy.parent.mkdir(parents=True, exist_ok=True)
            argv = git_argv("clone", "--quiet", "--no-hardlinks", "--", str(source.top), str(search.copy))
            made = subprocess.run(argv, capture_output=True, text=True, env=environment_without_git(os.environ))
            if made.returncode:
                raise Misuse(f"git cannot copy {source.top}: {made.stderr.strip().splitlines()[-1]}")
        self._write_task(search, 1)
        here = TaskHere.read(Repository.open(search.copy))
        if not here.are_trusted():
            # What the user has allowed in the repository itself holds for its copies.
            allowed = TaskHere(source, here.task, here.requests)
            if not (trust or allowed.are_trusted()):
                raise Misuse(f"{search.arm}: {refusal_text(here.requests)}")
            here.allow()

    def _digest(self) -> str:
        """Name the comparison: with the same name, the command continues it. More seeds may be added."""
        heads = {name: str(task.head().commit) for name, task in self._tasks.items()}
        tops = [str(task.top) for task in self._tasks.values()]
        parts = [self._arms, heads, tops, self._budget.amount, self._budget.unit]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def parse_budget(text: str) -> ArmBudget:
    """Read the budget from `40`, `40 attempts`, `600s`, `200k tokens` or `2.50 usd`."""
    found = re.fullmatch(r"\$?\s*([0-9]+(?:\.[0-9]+)?)\s*(k|M)?\s*([a-z]*)", text.strip())
    units = {
        **dict.fromkeys(("", "attempt", "attempts"), "attempts"),
        **dict.fromkeys(("s", "second", "seconds"), "seconds"),
        **dict.fromkeys(("token", "tokens"), "tokens"),
        **dict.fromkeys(("usd", "dollar", "dollars"), "money"),
    }
    unit = "money" if text.strip().startswith("$") else units.get(found[3]) if found else None
    if not found or unit is None or not float(found[1]):
        raise Misuse(f"the budget {text!r} is not clear: 40 attempts, 600 seconds, 200k tokens or 2.50 usd")
    return ArmBudget(float(found[1]) * {"k": 1e3, "M": 1e6}.get(found[2] or "", 1.0), unit)


def _arm_data(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path, str(path)), str(path))
    except OSError as error:
        raise Misuse(f"the arm {path} cannot be read ({error.strerror}): name a TOML file") from None


def _task_name(path: Path, at: int) -> str:
    return f"{at + 1}-{path.resolve().name}"


def _whole(amount: float) -> float | int:
    return int(amount) if amount == int(amount) else amount
