"""The refs of nodes: one per run, outside the branch list, so that git's own commands stay as fast as they were.

The ref names a chain of small commits, each with the previous one and the commits of some nodes as parents: git
keeps what they reach. They are dated 1970, so that a fetch, which offers the newest commits first, never gets to
them.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Collection, Iterator, Sequence

from loopty.domain.errors import LooptyError, Misuse
from loopty.git.repository import Repository

# With a branch for each of 10,000 nodes, `git log` would take 118 times and `git fetch` 62 times as much CPU.
_PREFIX = "refs/loopty/runs/"
_TRIES = 200
_LONGEST_PAUSE_SECONDS = 0.05
_PARENTS_PER_LINK = 100
_SECONDS_BETWEEN_LINKS = 0.5
MOST_WAITING = 100
"""Commits that no ref holds yet: so many at most, and only for about half a second."""


class NodeRefs:
    """Which commits the runs hold. Any number of processes may change them at once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._tips: dict[int, str | None] = {}
        """As this process last knew them: usually nobody else has changed them since."""
        self._waiting: dict[int, list[str]] = {}
        """Commits to hold with the next link, by run."""
        self._linked_at = float("-inf")
        self._lock = threading.RLock()
        """Guards the commits that wait."""
        self._timer: threading.Timer | None = None

    def runs(self) -> list[int]:
        """List the runs that have a ref, also those of a lost or another ledger."""
        names = (ref.removeprefix(_PREFIX) for ref in self._repository.refs.names_below(_PREFIX))
        return sorted(int(name) for name in names if name.isdecimal())

    def finish_node(self) -> None:
        """Hold what is left when the only node of a process ends, and pack it if there is much."""
        self.hold_waiting()
        for run in self._tips:
            self._repository.packs.finish_node(f"{_PREFIX}{run}")

    def finish_packs(self, run: int) -> None:
        """Hold and pack what is left at the end of a session."""
        self.hold_waiting()
        self._repository.packs.finish(f"{_PREFIX}{run}")

    def commits(self, run: int) -> list[str]:
        """List the commits that the run holds, newest first."""
        tip = self._repository.refs.tip(f"{_PREFIX}{run}")
        return list(dict.fromkeys(self._members(tip))) if tip else []

    def hold(self, run: int, commits: Sequence[str]) -> None:
        """Let the run hold these commits, too. Raises Misuse when git does not let us."""
        for tip in self._tips_until_done(run):
            start = tip or self._repository.join_commits((), f"run {run} of loopty", commits[0])
            if self._move(run, tip, self._chain(start, commits)):
                self._repository.packs.after_commits(f"{_PREFIX}{run}", len(commits))
                return

    def hold_newest(self, run: int, commits: Sequence[str]) -> None:
        """Let the run hold its newest commits, of which most are held already."""
        tip = self._repository.refs.tip(f"{_PREFIX}{run}")
        held = set(self._members(tip, MOST_WAITING)) if tip else set()
        if missing := [commit for commit in commits if commit not in held]:
            self.hold(run, missing)

    def hold_soon(self, run: int, commit: str) -> None:
        """Let the run hold this commit: now, or together with others where many come in a second.

        A link takes as long as a short proposal. Git removes no object as new as these, unless it is told to.
        """
        with self._lock:
            self._waiting.setdefault(run, []).append(commit)
            waiting = sum(map(len, self._waiting.values()))
            if waiting >= MOST_WAITING or time.monotonic() - self._linked_at >= _SECONDS_BETWEEN_LINKS:
                self.hold_waiting()
            elif self._timer is None:  # nothing more may come for an hour
                self._timer = threading.Timer(_SECONDS_BETWEEN_LINKS, self._hold_on_time)
                self._timer.daemon = True
                self._timer.start()

    def _hold_on_time(self) -> None:
        self._timer = None
        with contextlib.suppress(LooptyError, OSError):  # whoever holds the next one hears of it
            self.hold_waiting()

    def hold_waiting(self) -> None:
        """Let the runs hold what waits for that."""
        with self._lock:
            while self._waiting:
                run = next(iter(self._waiting))
                self.hold(run, self._waiting[run])
                del self._waiting[run]
                self._linked_at = time.monotonic()

    def release(self, run: int, commits: Collection[str]) -> None:
        """Let the run no longer hold these commits; those that others of its commits need stay."""
        for tip in self._tips_until_done(run):
            members = list(dict.fromkeys(self._members(tip))) if tip else []
            kept = [commit for commit in members if commit not in commits]
            if tip is None or len(kept) == len(members):
                return
            start = self._repository.join_commits((), f"run {run} of loopty", tip)
            if self._move(run, tip, self._chain(start, kept[::-1])):
                return

    def _chain(self, start: str, commits: Sequence[str]) -> str:
        """Make a chain that begins with this link and holds the commits; return its last link."""
        for index in range(0, len(commits), _PARENTS_PER_LINK):
            parents = (start, *commits[index : index + _PARENTS_PER_LINK])
            start = self._repository.join_commits(parents, "what loopty keeps", start)
        return start

    def _members(self, tip: str, newest_links: int | None = None) -> Iterator[str]:
        for link in self._repository.refs.first_parents(tip, newest_links):
            yield from reversed(link[1:])

    def _move(self, run: int, before: str | None, after: str) -> bool:
        if not self._repository.refs.swap(f"{_PREFIX}{run}", after, before):
            return False
        self._tips[run] = after
        return True

    def _tips_until_done(self, run: int) -> Iterator[str | None]:
        """Yield the tip to build on: the known one, then the present one again while others are faster."""
        if run in self._tips:
            yield self._tips[run]
        for count in range(_TRIES):
            yield self._repository.refs.tip(f"{_PREFIX}{run}")
            time.sleep(random.uniform(0, min(0.001 * 2**count, _LONGEST_PAUSE_SECONDS)))
        raise Misuse(
            f"git does not let loopty change {_PREFIX}{run}: remove a left-over {_PREFIX}{run}.lock in the git "
            "directory, or correct its permissions"
        )
