"""What can be asked about a repository's experiments. Reading needs no task file and starts fast."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.git.folders import GitFolders
from loopty.record.directives import Directive
from loopty.record.verdicts import Incumbents
from loopty.session import lookup
from loopty.session.saved_record import SavedRecord
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.domain.benchmark import Gate
    from loopty.record.history import History
    from loopty.record.node_record import Node
    from loopty.session.modes import ModeSettings
    from loopty.session.places import LedgerChoice
    from loopty.session.queries import NodeDiff, Report
    from loopty.show.best import LeaderboardRow
    from loopty.show.calls import ModelCall
    from loopty.show.explanation import Explanation
    from loopty.show.node import NodeDetail
    from loopty.show.operators import OperatorReport
    from loopty.show.plot import LearningCurve
    from loopty.show.run_status import RunStatus
    from loopty.show.run_summary import RunSummary
    from loopty.show.search_context import SearchContext
    from loopty.show.spend import SpendReport
    from loopty.show.tally import Tally
    from loopty.show.tree_rows import TreeLine
    from loopty.workspaces.shared_files import SharedFiles, StoreStanding
    from loopty.workspaces.state_folder import StateFolder


class CampaignReader:
    """The saved record of one repository, question by question."""

    def __init__(self, path: str | Path = ".") -> None:
        """`path` is any directory of the repository."""
        self._start = Path(path).absolute()

    @functools.cached_property
    def record(self) -> SavedRecord:
        """Return what earlier processes recorded here."""
        return SavedRecord(self._folders)

    @functools.cached_property
    def _folders(self) -> GitFolders:
        return GitFolders.find(self._start)

    @property
    def _state(self) -> StateFolder:
        return self.record.state

    @property
    def history(self) -> History:
        """Return every run and node."""
        return self.record.history

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        """Say what is wrong with the record, or None: edits by hand, and events that cannot be read.

        Looks at every event and node or at the newest ones, and at every node that was read before.
        """
        return self.record.flaw(newest_events, newest_nodes)

    @property
    def unreadable(self) -> str | None:
        """Say which events cannot be read, or None; everything else can be shown."""
        return self.record.unreadable

    def newest_run(self, run: int | None = None) -> int:
        """Return the number of the run that was named, else of the newest one."""
        return lookup.newest_run(self.history, run)

    def find_node(self, text: str) -> NodeId:
        """Find the node with this name (`@431`), path, branch or folder.

        `best` is the best of the newest run.
        """
        # A whole id is not looked up: it may be of a run that starts now.
        return lookup.node_of_text(text) or lookup.find_node(self.history, text)

    def node(self, node: str) -> Node:
        return self.history[self.find_node(node)]

    def node_folder(self, node: str) -> Path:
        """Find the copies of the node's diff, metrics, logs and traces; they are made if they are missing."""
        from loopty.workspaces.node_files import analysis_files, description_files

        found, state = self.find_node(node), self.record.state
        shown = self.history[found]
        texts = {**description_files(shown), **analysis_files(shown, self.history)}
        with contextlib.suppress(OSError):  # a copy that cannot be written must not hide the record
            self.record.folders.lay_out(found, texts)
        return state.node_copy(found).shown_path

    def draft_folder(self, node: str) -> Path | None:
        """Return the folder in which a draft is edited; None for a node that is none."""
        found = self.node(node)
        is_open = found.draft and not found.dropped
        return self.record.state.draft_folder(found.id).shown_path if is_open else None

    def explanation(self, node: str) -> Explanation | None:
        """Say why a node failed, with its log's path and a baseline's known cause; None if it did not."""
        from loopty.session.leftovers import explain_node

        return explain_node(self.record, self.node(node))

    def status(self, run: int | None = None) -> RunStatus:
        """Say where a run stands: best, budget, running trials, why it stopped."""
        from loopty.session.queries import run_status

        return run_status(self.record.state, self.record.owners, self.history, self.newest_run(run))

    def search_context(self, node: str | None = None, run: int | None = None) -> SearchContext:
        """Tell what anyone who joins the search has to know; with a node, also about that."""
        from loopty.session.queries import search_context

        found = self.find_node(node) if node else None
        record, number = self.record, self.newest_run(found.run if found else run)
        return search_context(record.state, record.owners, self.history, number, found)

    def mode_settings(self) -> ModeSettings:
        """Say how coding agents are to work here."""
        from loopty.session.modes import ModeSettings

        return ModeSettings(StateFolder.of(self._folders).home, os.environ)

    def ledger_choice(self) -> LedgerChoice:
        """Say where the record of this repository is kept, and how to choose another place."""
        from loopty.session.places import LedgerChoice

        return LedgerChoice(StateFolder.of(self._folders))

    def store_standing(self) -> StoreStanding | None:
        """Say how the shared store stands; None if the user has chosen none."""
        shared = self._shared
        return shared.standing() if shared else None

    def send_files(self) -> None:
        """Send to the shared store what it has not got yet. Raises Misuse where it does not take it."""
        if (shared := self._shared) is None:
            raise Misuse("no store is chosen: `loopty config ledger --store DIR` or `--store s3://BUCKET/PREFIX`")
        shared.send_now()

    @property
    def _shared(self) -> SharedFiles | None:
        if not (state := StateFolder.of(self._folders)).store_url:
            return None
        from loopty.git.command import GitCommand
        from loopty.session.places import open_shared_files

        return open_shared_files(state, GitCommand(self._folders.git_dir))

    def tally(self, run: int | None = None) -> Tally:
        """Count verdicts, and the uplift over the control: a look at every node of the run."""
        from loopty.show.tally import tally

        return tally(self.history, self.newest_run(run))

    def tree(self, top: str | None = None, limit: int | None = None, controls: bool = True) -> Iterator[TreeLine]:
        """Yield the tree of experiments below a node, or of the newest run, in display order."""
        from loopty.show.tree_rows import tree

        return tree(self.history, self.node(top or str(self.newest_run())).id, limit, controls)

    def best(self, run: int | None = None) -> NodeId | None:
        """Return the best attempt of a run, or None before there is a result."""
        return Incumbents.of(self.history.runs[self.newest_run(run)], Pool.ATTEMPT).best

    def leaderboard(self, top: int = 5, run: int | None = None) -> list[LeaderboardRow]:
        """List the best nodes of a run under its present fingerprint."""
        from loopty.show.best import leaderboard

        return leaderboard(self.history, self.newest_run(run), top)

    def report(
        self, run: int | None = None, top: int = 5, parameter: str | None = None, most_points: int | None = None
    ) -> Report:
        """Return chart, best nodes, status and goodput of a run; the scores are drawn against `parameter`.

        The chart has every point, or about `most_points` of them.
        """
        from loopty.session.queries import report

        return report(self.record, self.newest_run(run), top, parameter, most_points)

    def summary(self, node: str | None = None, run: int | None = None) -> RunSummary:
        """Summarize a run in a form to share, about this node or the best one."""
        from loopty.session.audits import summarize_run

        found = self.find_node(node) if node else None
        return summarize_run(self.record, self.newest_run(found.run if found else run), found)

    def detail(self, node: str) -> NodeDetail:
        """Return everything that is known about a node."""
        from loopty.session.queries import node_detail

        return node_detail(self.record, self.find_node(node))

    def learning_curve(self, node: str) -> LearningCurve | None:
        """Return what a node reported while it ran, beside its parent; None if that makes no curve."""
        from loopty.session.leftovers import learning_curve

        return learning_curve(self.record, self.find_node(node))

    def diff(self, node: str, baseline: bool = False) -> NodeDiff:
        """Return what a node changed in its parent, or with `baseline` in the run's baseline."""
        from loopty.session.queries import node_diff

        return node_diff(self.record, self.find_node(node), baseline)

    def calls(self, node: str, fruitless: bool = False) -> tuple[ModelCall, ...]:
        """List the calls that made a node; with `fruitless` those that should have changed it and did not."""
        from loopty.show.calls import calls_of_node, fruitless_calls_of

        found, events = self.node(node), self.record.call_events()
        return fruitless_calls_of(events, found) if fruitless else calls_of_node(events, found)

    def last_fruitless_parent(self, run: int) -> NodeId | None:
        """Return the node that a model's last refused proposal should have changed, or None."""
        from loopty.show.calls import calls_of_run

        return calls_of_run(self.record.call_events(), run).last_refused_parent

    def spend(self, run: int | None = None) -> SpendReport:
        """Report what models cost, by role, model, operator and node."""
        from loopty.session.queries import spend_report

        return spend_report(self.record, self.newest_run(run))

    def operators(self, run: int | None = None) -> OperatorReport:
        """Report what each operator, model and kind of change brought and cost, and how diverse the newest are."""
        from loopty.show.operators import operator_report

        history = self.record.history
        return operator_report(history, history.runs[self.newest_run(run)])

    def gates(self, node: str | None = None) -> list[tuple[str, Gate]]:
        """List the gates of the task and of nodes; with a node, those that it must pass."""
        from loopty.session.queries import gates

        run = self.newest_run(self.find_node(node).run if node else None)
        return gates(self.record, self.find_node(node) if node else None, run)

    def directive(self, run: int | None = None) -> str:
        """Say what the user wants the models to know, and which nodes changes start from."""
        return Directive.of(self.history.runs[self.newest_run(run)]).words(self.history.name)

    def directed_nodes(self, run: int | None = None) -> dict[str, tuple[NodeId, ...]]:
        """Return the nodes that the directive names: those to build on, and those to build nothing on."""
        directive = Directive.of(self.history.runs[self.newest_run(run)])
        return {"build_on": directive.build_on, "not_below": directive.not_below}
