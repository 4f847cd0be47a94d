"""Campaign: every verb of loopty as a typed method. The command line, agents and Python callers share it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.session import lookup
from loopty.session.lookup import parse_reason, parse_text
from loopty.session.reader import CampaignReader
from loopty.session.saved_record import SavedRecord, refold_progress

if TYPE_CHECKING:
    from loopty.campaign.arms import ArmBudget, ArmRuns
    from loopty.campaign.optimize import OptimizeSession
    from loopty.domain.benchmark import Gate
    from loopty.domain.space import Value
    from loopty.engine.budget import Finish
    from loopty.evaluators.benchmark_runner import TreeCommandEnd
    from loopty.evaluators.steps import GateResult
    from loopty.features.exporters.trials import TrialExport
    from loopty.features.sharing.apply import NodeBranch, WinnerBranch, WinnerParams
    from loopty.features.sharing.artifacts import ExportedArtifact, Replay
    from loopty.record.fold import Event
    from loopty.record.history import History
    from loopty.record.node_record import Node
    from loopty.session.again import Rebaseline
    from loopty.session.audits import AuditReport
    from loopty.session.by_hand import CheckResult
    from loopty.session.context import CampaignContext
    from loopty.session.drafts import Draft, MergedDraft
    from loopty.session.garbage import Garbage
    from loopty.session.trust import TaskHere
    from loopty.session.verdicts import VerdictChange
    from loopty.show.audits import AuditRow
    from loopty.show.estimate import Estimate
    from loopty.taskfile.task_requests import TaskRequest
    from loopty.workspaces.state_folder import StateFolder


class Campaign(CampaignReader):
    """The experiments of one repository: what can be asked (CampaignReader), and what can be done.

    Methods that run trials or gates need `loopty.toml`; the others open the saved record only. A method that
    cannot do what is asked raises Misuse, whose message holds the remedy. Node ids are strings such as "1.3".
    """

    def __init__(self, path: str | Path = ".", say: Callable[[str], None] = lambda _: None) -> None:
        """`path` is any directory of the repository; `say` is called with lines for a person."""
        super().__init__(path)
        self._say = say

    @functools.cached_property
    def record(self) -> SavedRecord:
        """Return what earlier processes recorded here. Says how far it is brought up to date, if it has to be."""
        return SavedRecord(self._folders, refold_progress(self._say))

    @functools.cached_property
    def context(self) -> CampaignContext:
        """Open task, repository and ledger to change something. Closes what dead processes left open."""
        from loopty.session.context import CampaignContext

        return CampaignContext.for_task(self._task_here, self._say)

    @functools.cached_property
    def _task_here(self) -> TaskHere:
        from loopty.git.repository import Repository
        from loopty.session.trust import TaskHere

        return TaskHere.read(Repository(self._folders))

    @property
    def history(self) -> History:
        """Return every run and node: as this process changed it, else as it was saved."""
        return self.context.history if "context" in self.__dict__ else self.record.history

    @property
    def _state(self) -> StateFolder:
        return self.context.state if "context" in self.__dict__ else self.record.state

    def requests(self) -> tuple[TaskRequest, ...]:
        """List what the task asks for beyond the default: the network, outside files, models, …."""
        return self._task_here.requests

    def is_trusted(self) -> bool:
        """Say whether the user has allowed what the task asks for. Without that, none of its trials starts."""
        return self._task_here.are_trusted()

    def trust(self, only_task_file: bool = False) -> tuple[TaskRequest, ...]:
        """Allow what the task asks for, from now on, and remember it in the user's own state.

        With `only_task_file`, what the repository's git configuration asks for stays as it is.
        """
        self._task_here.allow(only_task_file)
        self.__dict__.pop("context", None)
        return self._task_here.requests

    def revoke_trust(self) -> int:
        """Forget what was allowed to the task of this repository, and count the permissions."""
        from loopty.session.trust import revoke_trust

        self.__dict__.pop("context", None)
        return revoke_trust(self._start)

    def audits(self, run: int | None = None) -> list[AuditRow]:
        """List every look at the held-out split, oldest first."""
        from loopty.session.audits import list_audits

        return list_audits(self.record, lookup.newest_run(self.record.history, run))

    def estimate(self, run: int | None = None) -> Estimate:
        """Say what a run costs and can show: this one goes on, or a new one."""
        from loopty.campaign.optimize import estimate_run

        return estimate_run(self.context, run)

    def start_session(
        self,
        new_run: bool = False,
        unsafe: bool = False,
        on_step: Callable[[str], None] = lambda _: None,
        listen: str = "",
        hosts: Sequence[str] = (),
        start_from: str = "",
    ) -> OptimizeSession:
        """Wire the loop, ready to run: for callers that show progress or stop it themselves.

        `on_step` is called with what it does next. With `listen`, trials run on workers that join there; with
        `hosts`, on workers that are started there. A new run measures `start_from` first: `best` of the run
        before, a node, or only the `baseline`.
        """
        from loopty.campaign.optimize import start_session, with_workers

        context = with_workers(self.context, listen, hosts)
        return start_session(context, new_run, unsafe, on_step, start_from=start_from)

    def optimize(self, new_run: bool = False, unsafe: bool = False, start_from: str = "") -> Finish:
        """Run experiments until the budget is spent; calling it again resumes."""
        session = self.start_session(new_run, unsafe, start_from=start_from)
        for warning in session.warnings:
            self._say(warning)
        finish = session.run_to_end()
        second = self.start_combination(session.run, finish, unsafe)
        return second.run_to_end() if second else finish

    def start_combination(
        self, base: int, finish: Finish, unsafe: bool = False, listen: str = "", hosts: Sequence[str] = ()
    ) -> OptimizeSession | None:
        """Start the session of the second stage, after the search `base` has finished; None if there is none."""
        from loopty.campaign.optimize import start_combination, with_workers

        is_over = finish.sound and not finish.resumable
        return start_combination(with_workers(self.context, listen, hosts), base, unsafe) if is_over else None

    def ab(
        self,
        arms: Sequence[Path],
        seeds: int,
        budget: ArmBudget,
        tasks: Sequence[Path] = (),
        folder: Path | None = None,
    ) -> ArmRuns:
        """Compare task files as arms, on this repository or on `tasks`.

        The copies are in `folder`, by default in the user's own state.
        """
        from loopty.campaign.arms import ArmRuns
        from loopty.session.trust import user_state_folder

        where = folder or user_state_folder(os.environ) / "ab"
        return ArmRuns(tasks or [self._start], arms, seeds, budget, where)

    def new(
        self,
        parent: str | None = None,
        message: str = "by hand",
        params: Mapping[str, Value | str] | None = None,
        sparse: bool = False,
    ) -> Draft:
        """Make a draft below a node, by default below the best one: edit its files, then `run` it.

        It is a whole tree, read-only outside the writable files; `sparse` leaves the read-only files out.
        """
        from loopty.session.drafts import new_draft

        above = self.find_node(parent) if parent else None
        return new_draft(self.context, above, message, params or {}, sparse)

    def merge(self, first: str, second: str, message: str = "") -> MergedDraft:
        """Bring the changes of two nodes onto their common ancestor, as a draft; conflicts are marked in it."""
        from loopty.session.drafts import merge_drafts

        return merge_drafts(self.context, self.find_node(first), self.find_node(second), message)

    def abort(self, name: str, why: str = "") -> str:
        """End a ticket, or the ticket or draft of a node; returns what was done."""
        from loopty.session.ticket_work import abort_node, abort_ticket

        if name.startswith("t"):
            return abort_ticket(self.context, name, why)
        return abort_node(self.context, self.context.history[self.find_node(name)], why)

    def drop(self, node: str) -> None:
        """Give up a draft: it never runs, and its directory goes."""
        from loopty.session.drafts import drop_draft

        drop_draft(self.context, self.context.history[self.find_node(node)].id)
        self.__dict__.pop("record", None)

    def run(self, node: str, unsafe: bool = False) -> Node:
        """Run a node to its verdict. `run("1")` starts the first run with its baseline.

        If the baseline of the node's run gave no result, it is measured again first, in a new run.
        """
        from loopty.session.again import run_again
        from loopty.session.by_hand import run_node
        from loopty.session.runs import enter_run

        context = self.context
        if node == "1" and not context.history.runs:
            node = context.history.runs[enter_run(context)].root
        found = context.history[self.find_node(node)]
        run = context.history.runs[found.id.run]
        from loopty.record.search_summary import FrozenPool
        from loopty.record.verdicts import has_failed

        if has_failed(context.history, run) and not FrozenPool.of(run).base:
            return run_again(context, found, unsafe)
        return run_node(context, found, unsafe)

    def accept(self, node: str, why: str, unsafe: bool = False) -> None:
        """Keep a node that was held because its gain is too good to be true.

        If the benchmark draws its inputs from a seed, it must gain half as much with another one.
        Raises Misuse if not.
        """
        context, found, reason = self.context, self.find_node(node), parse_reason(why)
        from loopty.session import hand_decisions
        from loopty.session.fresh_inputs import require_gain_on_fresh_inputs

        require_gain_on_fresh_inputs(context, context.history[found], unsafe)
        context.recorder.record(lambda history: hand_decisions.accept_held(history, history[found].id, reason))
        context.files.conclude(context.history[found], context.history)

    def check(self, node: str | None = None, unsafe: bool = False) -> CheckResult:
        """Check the task: run the benchmark on a node, or on the files as they are now. Changes no state."""
        from loopty.session.by_hand import check_node, check_working_tree

        if node is None or self.find_node(node).parent is None:
            return check_working_tree(self.context, unsafe)
        return check_node(self.context, self.context.history[self.find_node(node)], unsafe)

    def try_command(
        self,
        node: str,
        argv: Sequence[str],
        write_stdout: Callable[[str], object],
        write_stderr: Callable[[str], object],
        seconds: float | None = None,
        unsafe: bool = False,
    ) -> TreeCommandEnd:
        """Run any command on the files of a node or draft, in the sandbox of its trials. Records nothing."""
        from loopty.evaluators.benchmark_runner import TreeCommand
        from loopty.session.by_hand import try_command

        command = TreeCommand(tuple(argv), write_stdout, write_stderr, seconds)
        return try_command(self.context, self.context.history[self.find_node(node)], command, unsafe)

    def discard(self, node: str, why: str) -> VerdictChange:
        """Take back that a node was kept: the best is elected anew, what lost only against it is open again."""
        from loopty.session.verdicts import discard

        change = discard(self.context, self.find_node(node), why)
        self.__dict__.pop("record", None)
        return change

    def invalidate(self, node: str, why: str) -> VerdictChange:
        """Reject a node that cheats, with its descendants; otherwise as `discard`."""
        from loopty.session.verdicts import invalidate

        change = invalidate(self.context, self.find_node(node), why)
        self.__dict__.pop("record", None)
        return change

    def restore(self, node: str, why: str, unsafe: bool = False) -> VerdictChange:
        """Take a `discard` or `invalidate` back: what was kept has to win again, others get their verdict back."""
        from loopty.session.verdicts import restore

        change = restore(self.context, self.find_node(node), why, unsafe)
        self.__dict__.pop("record", None)
        return change

    def remeasure(self, node: str | None = None, run: int | None = None, unsafe: bool = False) -> list[Node]:
        """Judge the nodes again that lost only against a withdrawn one; others keep their verdict."""
        from loopty.session.again import remeasure

        context = self.context
        number = lookup.newest_run(context.history, self.find_node(node).run if node else run)
        judged = remeasure(context, number, self.find_node(node) if node else None, unsafe)
        self.__dict__.pop("record", None)
        return judged

    def add_gate(self, node: str, gate: Gate, unsafe: bool = False) -> VerdictChange:
        """Add a gate for a node and all its descendants. Kept ones that fail it lose their verdict."""
        from loopty.session.verdicts import add_gate

        if fault := gate.fault():
            raise Misuse(f"the gate {fault}: --command LINE, or --metric NAME with --minimum or --maximum")
        for part in (gate.name, gate.metric, *gate.argv):
            parse_text(part, "gate")
        if any(gate.name == other.name for other in self.context.task.gates):
            raise Misuse(f"loopty.toml already has a gate {gate.name}: choose another name")
        return add_gate(self.context, self.find_node(node), gate, unsafe)

    def check_gates(self, node: str, unsafe: bool = False) -> dict[Gate, GateResult | None]:
        """Return a node's gates with their results now; None for a bound on a metric not measured yet."""
        from loopty.session.by_hand import check_gates

        context = self.context
        results = check_gates(context, context.history[self.find_node(node)], unsafe)
        by_name = {result.gate.name: result for result in results}
        return {gate: by_name.get(gate.name) for gate in context.gates(self.find_node(node))}

    def replay(self, node: str, repeats: int = 1, unsafe: bool = False) -> Replay:
        """Measure a node again and compare with its record; its verdict stays."""
        from loopty.features.sharing.artifacts import replay_node

        return replay_node(self.context, self.find_node(node), repeats, unsafe)

    def audit(self, nodes: Sequence[str] = (), run: int | None = None, unsafe: bool = False) -> AuditReport:
        """Score nodes on the held-out split, by default the best one."""
        from loopty.session.audits import audit_nodes

        ids = [self.find_node(node) for node in nodes]
        context = self.context
        number = lookup.newest_run(context.history, ids[0].run if ids else run)
        return audit_nodes(context, number, ids, unsafe)

    def rebaseline(self, run: int | None = None, unsafe: bool = False) -> Rebaseline | None:
        """Measure the incumbents on this machine and continue here; None when stopped before the end."""
        from loopty.session.again import rebaseline

        context = self.context
        return rebaseline(context, context.history.runs[lookup.newest_run(context.history, run)], unsafe)

    def confirm(self, run: int | None = None, unsafe: bool = False) -> None:
        """Measure the best node beside the baseline in fresh pairs: the gain that `report` states then."""
        from loopty.session.again import confirm_best

        context = self.context
        confirm_best(context, lookup.newest_run(context.history, run), unsafe)
        self.__dict__.pop("record", None)

    def direct(
        self,
        text: str | None = None,
        build_on: Sequence[str] | None = None,
        not_below: Sequence[str] | None = None,
    ) -> None:
        """Set what the models should know, and which nodes changes start from, from their next proposal on.

        None leaves a part as it is; an empty text or no nodes remove it. Calls already in flight are not affected.
        Needs no task file.
        """
        from loopty.session.requests import set_directive

        words = None if text is None else parse_text(text, "directive")
        starts, ends = (
            None if named is None else [*map(self.find_node, named)] for named in (build_on, not_below)
        )
        self._record_event(functools.partial(set_directive, self.newest_run(), words, starts, ends))

    def pause(self, why: str = "", run: int | None = None) -> None:
        """Stop starting trials; let running ones finish. Needs no task file."""
        from loopty.session.requests import pause

        number, text = self.newest_run(run), parse_text(why, "reason")
        self._record_event(lambda history: pause(history, number, text))

    def resume(self, run: int | None = None) -> bool:
        """End the pause of a run; return whether a process drives it, which continues within a second."""
        from loopty.session.requests import has_driver, resume

        number = self.newest_run(run)
        self._record_event(lambda history: resume(history, number))
        return has_driver(self.record.owners, self.history, number)

    def stop(self, why: str = "", run: int | None = None) -> None:
        """Ask the process that drives a run to cancel its trials and to end, within a second or two."""
        from loopty.session.requests import has_driver, stop

        number, text = self.newest_run(run), parse_text(why, "reason")
        if not has_driver(self.record.owners, self.history, number):
            raise Misuse(f"nothing drives run {number} now: there is nothing to stop")
        self._record_event(lambda history: stop(history, number, text))

    def budget(self, limits: Mapping[str, float | None], run: int | None = None) -> Mapping[str, float | None]:
        """Change limits of a run (`{"attempts": 200}`; None: no limit), and return those in force."""
        from loopty.session.requests import change_budget, limits_in_force

        number = self.newest_run(run)
        if limits:
            self._record_event(lambda history: change_budget(history, number, limits))
        return limits_in_force(self.record.state, self.history, number)

    def _record_event(self, decide: Callable[[History], Iterable[Event]]) -> None:
        """Record a person's wish: a process that drives the run reads it there."""
        from loopty.record.recorder import Recorder

        Recorder(self.record.ledger, self.record.ledger.now).record(decide)
        self.__dict__.pop("record", None)

    def trial_export(self, run: int | None = None) -> TrialExport:
        """Open the trials of a run, for tables and other programs."""
        from loopty.features.exporters.trials import TrialExport

        return TrialExport(self.record, self.newest_run(run))

    def export(self, node: str, to: Path | None = None, force: bool = False) -> ExportedArtifact:
        """Pack a node as an artifact, by default among loopty's own files."""
        from loopty.features.sharing.artifacts import export_node

        return export_node(self.record, self.find_node(node), to, force)

    def make_branch(self, node: str, branch: str | None = None, force: bool = False) -> WinnerBranch:
        """Make a branch of the user's own with a node's whole change."""
        from loopty.features.sharing.apply import make_winner_branch

        return make_winner_branch(self.record, self.find_node(node), branch, force, self._say)

    def make_node_branch(self, node: str, branch: str | None = None, force: bool = False) -> NodeBranch:
        """Make a branch at a node's own commit, with its files as they were measured."""
        from loopty.features.sharing.apply import make_node_branch

        return make_node_branch(self.record, self.find_node(node), branch, force)

    def collect_garbage(
        self, older_than_seconds: float | None = None, max_bytes: int | None = None, remove: bool = False
    ) -> Garbage:
        """Find what discarded nodes take on disk; `remove` removes it. The record stays. Needs no task file.

        By default older than 14 days; with `max_bytes`, the oldest first, until folders of nodes and caches fit.
        """
        from loopty.session.garbage import DEFAULT_AGE_SECONDS, GarbageCollector, GarbageRules

        default = DEFAULT_AGE_SECONDS if max_bytes is None else 0.0
        age = default if older_than_seconds is None else older_than_seconds
        collector = GarbageCollector(self.record, GarbageRules(age, max_bytes))
        found = collector.remove() if remove else collector.find()
        self.__dict__.pop("record", None)
        return found

    def write_params(self, node: str, to: Path | None = None) -> WinnerParams:
        """Write a node's parameters to a JSON file: this one, or the one that the task names."""
        from loopty.features.sharing.apply import write_params

        return write_params(self.record, self.find_node(node), to, self._say)

    def patch_working_tree(self, node: str) -> None:
        """Apply a node's change to the working tree: all of it, or nothing."""
        from loopty.features.sharing.apply import patch_working_tree

        patch_working_tree(self.record, self.find_node(node), self._say)
