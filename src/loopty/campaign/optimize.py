"""One session of `optimize`: its proposers, its workers and its loop over a run, wired as the task says."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.model import Role
from loopty.domain.task import PluginChoice, Pools, Task
from loopty.domain.trial import Pool
from loopty.engine.budget import Finish
from loopty.engine.loop import Loop
from loopty.engine.open_questions import Pace
from loopty.engine.protocols import Executor, Proposer, Pruner, Selector
from loopty.engine.prune_watch import PruneWatch
from loopty.executors.this_machine import this_capacity
from loopty.features.notices.notices import NoticeSender, NoticeWatch
from loopty.features.notices.settings import user_notice_settings
from loopty.kit import codec
from loopty.kit.machine_load import LoadSeen, load_now
from loopty.kit.records import Record, field, replace
from loopty.kit.safe_folder import keep_open
from loopty.models.retry import Throttle
from loopty.proposers.agent.work import AgentChoice, AgentSessions, OpenSessions
from loopty.proposers.context.prompt_context import PromptLimits
from loopty.proposers.mutate import VersionsProposer
from loopty.proposers.selectors.judged_nodes import SteeredSelector
from loopty.proposers.services import Services
from loopty.record.sessions import Session
from loopty.session.audits import conclude_audits
from loopty.session.combination import enter_combination
from loopty.session.context import CampaignContext
from loopty.session.leftovers import rows_of_node
from loopty.session.runs import enter_run, has_open_version, unmeasured_versions, version_commits
from loopty.session.stoppable import run_beside_loops
from loopty.taskfile.model_tables import AGENT_PROPOSER, idle_roles, proposer_kinds
from loopty.taskfile.plugins import CONTROLS, PROPOSERS, PRUNERS, Plugins, find_plugin, find_selector
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.node_leftovers import NodeLeftovers

if TYPE_CHECKING:
    from loopty.features.fleet.pool_session import PoolSession
    from loopty.session.models import RoleModels
    from loopty.show.estimate import Estimate


class ProposerFactory(Record):
    """Makes the proposers of a run."""

    task: Task
    files: NodeFiles
    leftovers: NodeLeftovers
    models: RoleModels
    agent_sessions: OpenSessions

    def proposer(self) -> Proposer:
        """Return the proposer of attempts."""
        return self._make_proposer(self.task.proposer)

    def control(self) -> Proposer:
        """Return the proposer of the random control."""
        return self._make("control", CONTROLS, self.task.control)

    def _make_proposer(self, choice: PluginChoice) -> Proposer:
        return self._make("proposer", PROPOSERS, choice)

    def _make(self, role: str, plugins: Plugins, choice: PluginChoice) -> Proposer:
        plugin = find_plugin(role, plugins, choice.kind)
        assert plugin is not None
        options = codec.build(plugin.load_options(), choice.options)
        proposer: Proposer = plugin.load_make()(options, self._services(choice.kind))
        return proposer

    def _services(self, kind: str) -> Services:
        return Services(
            kind=kind,
            statement=self.task.statement,
            space=self.task.space,
            access=self.task.without_held_out().access,
            width=self.task.questions,
            files=self.files,
            leftovers=self.leftovers.read,
            role_model=self.models.of,
            has_role=self.models.has,
            role_models=self.models.all_of,
            prompt_tokens=self.models.prompt_tokens,
            make_selector=make_selector,
            make_proposer=self._make_proposer,
            agent_sessions=self.agent_sessions,
            limits=PromptLimits.of(self.task),
            diff=self.leftovers.read_diff,
        )


def make_selector(choice: str | Mapping[str, Any]) -> Selector:
    """Make the selector of this kind, or of this table with its `kind` and its options."""
    table = {"kind": choice} if isinstance(choice, str) else choice
    options = {name: value for name, value in table.items() if name != "kind"}
    plugin = find_selector(table["kind"])
    assert plugin is not None
    selector: Selector = codec.build(plugin.load_options(), options)
    return SteeredSelector(selector, takes_versions=table["kind"] != "root")


def make_pruner(choice: PluginChoice) -> Pruner | None:
    if choice.kind == "none":
        return None
    pruner: Pruner = codec.build(PRUNERS.kinds[choice.kind].load_options(), choice.options)
    return pruner


_TICK_SECONDS = 0.25
_ASKS_A_MODEL = ("llm-code", "llm-parameters", "ladder")
_MOST_PROGRAM_TOKENS = 16_000
"""Of the files in a prompt (`file_tokens`)."""
_STOPPED = "stopped on request"


class OptimizeSession(Record):
    """A loop that is ready to run, and what the user should know before."""

    context: CampaignContext
    run: int
    loop: Loop
    warnings: tuple[str, ...]
    prune_watch: PruneWatch
    pool: PoolSession | None = None
    """The workers of the session, where trials run elsewhere."""
    runner: asyncio.Runner = field(default_factory=lambda: asyncio.Runner(loop_factory=asyncio.new_event_loop))

    def pruning_obstacle(self) -> str:
        """Say in one line why no trial could be pruned; empty if one could, or nothing prunes."""
        return self.prune_watch.obstacle(self.context.history[self.context.history.runs[self.run].root])

    def run_to_end(self, on_tick: Callable[[], None] | None = None) -> Finish:
        """Run the loop to its end. The first SIGINT or SIGTERM asks it to stop, the second one exits immediately.

        `on_tick` is called a few times a second meanwhile.
        """
        collect_rarely()

        def run() -> Finish:
            with self._notices(), self.runner:
                return self.runner.run(self._run(on_tick))

        return run_beside_loops(run, self._stop_from_outside)

    def _stop_from_outside(self) -> None:
        """Ask the loop, in another thread, to stop."""
        with contextlib.suppress(RuntimeError):  # it has ended meanwhile
            self.runner.get_loop().call_soon_threadsafe(self.loop.stop, _STOPPED)

    @contextlib.contextmanager
    def _notices(self) -> Iterator[None]:
        """Tell the user what happens meanwhile, where the user's own config file says how."""
        settings = user_notice_settings(os.environ)
        if not settings.has_receiver:
            yield
            return

        context, sender = self.context, NoticeSender(settings, self.context.say)
        name = context.state.top.name
        watch = NoticeWatch(lambda: context.history, self.run, context.task.pools, name, sender.send)
        context.recorder.listeners.append(watch.on_event)
        try:
            yield
        finally:
            context.recorder.listeners.remove(watch.on_event)
            sender.close()

    async def _run(self, on_tick: Callable[[], None] | None) -> Finish:
        requests: list[bool] = []

        def stop() -> None:
            if requests:
                os._exit(130)
            requests.append(True)
            self.loop.stop(_STOPPED)

        with contextlib.suppress(NotImplementedError, RuntimeError):  # no signals here, or not in the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stop)
        ticks = asyncio.create_task(_tick(on_tick)) if on_tick else None
        state = self.context.state
        if self.pool:
            self.pool.start_keeper(self.loop.trial_runner)
            self.pool.pool.on_change = self.loop.wake
        try:
            with keep_open(state.home, state.nodes, state.trials, state.slots):
                return await self.loop.drive()
        finally:
            if ticks:
                ticks.cancel()
            if self.pool:
                await self.pool.close()
            self.context.files.finish_session(self.run)


def estimate_run(context: CampaignContext, run: int | None) -> Estimate:
    """Estimate what a run costs; without one, from the files of the last commit."""
    from loopty.kit.model_text import tokens
    from loopty.models.catalogue import spec_of
    from loopty.models.prices import rates_of
    from loopty.show.estimate import estimate

    task, history = context.task, context.history
    found = history.runs[run] if run else None
    names = task.roles.evolver.names if task.proposer.kind in _ASKS_A_MODEL else ()
    commit = history[found.root].commit if found else context.repository.head().commit
    texts = (context.files.text(commit, path) for path in context.files.writable_files(commit)) if names else ()
    program = sum(tokens(text) for text in texts if text)
    rates = rates_of(spec_of(task.models, names[0])) if names else None
    return estimate(task, history, found, names[0] if names else "", rates, min(program, _MOST_PROGRAM_TOKENS))


def start_session(
    context: CampaignContext,
    new_run: bool,
    unsafe: bool,
    on_step: Callable[[str], None] = lambda _: None,
    run: int | None = None,
    start_from: str = "",
    executor: Executor | None = None,
) -> OptimizeSession:
    """Enter the run and wire the loop with the proposer, the control and the pruner that the task names.

    `on_step` is called with what it does next; `run` is one that was entered already. `start_from` is what a new
    run measures first (`enter_run`). `executor` runs the trials in place of the task's benchmark.
    """
    task = context.task
    commits = version_commits(context.repository, task)
    on_step("freezing your files and the benchmark")
    if task.profile.seconds and task.executor.kind != "pool" and not task.is_width_stated:
        size = task.round_size(this_capacity())
        context.say(f"width {size.width}: {size.reason}")
    if run is None:
        refuse = functools.partial(_refuse_start, context, unsafe, executor)
        run = enter_run(context, new_run, refuse, start_from)
    context.files.hold_newest(run, context.history)
    conclude_audits(context, run)
    if Session.of(context.history.runs[run]).is_paused:
        context.say(f"run {run} is paused: `loopty resume` continues it")
    on_step(f"making the proposer ({task.proposer.kind})")
    models = context.role_models(run)
    factory = _proposer_factory(context, task, models, unsafe)
    proposers: dict[Pool, Proposer] = {}
    versions = unmeasured_versions(context, run, commits)
    if versions or has_open_version(context.history, run):
        proposers[Pool.VERSION] = VersionsProposer(versions)
    proposers[Pool.ATTEMPT] = factory.proposer()
    if task.pools.control:
        proposers[Pool.CONTROL] = factory.control()
    runner = asyncio.Runner()
    on_step("waiting for workers" if task.executor.kind == "pool" else "checking the sandbox")
    pool = _open_pool(context, run, unsafe, runner) if task.executor.kind == "pool" else None
    # What a caller's own executor runs is no benchmark, so advice about benchmarks has no use there.
    say_once = None if executor else functools.cache(context.say)  # each obstacle once
    executor = executor or (context.judged_executor(pool.pool, run) if pool else context.executor(unsafe, run))
    prune_watch = PruneWatch(
        lambda: context.history,
        make_pruner(task.pruner),
        functools.partial(rows_of_node, context.folders),
        executor.machine.fingerprint,
        say_once,
    )
    loop = Loop(
        recorder=context.recorder,
        run=run,
        pools=_pools_until_combination(task),
        proposers=proposers,
        trial_runner=context.trial_runner(run, executor, is_pool=pool is not None),
        workspaces=context.files,
        prune_watch=prune_watch,
        purse=models.purse,
        owner=context.owner,
        clock=context.ledger.now,
        pace=_pace(task.pools),
        anchors=task.anchors,
        wait_for_quiet=None
        if pool
        else functools.partial(wait_for_quiet, cores=task.profile.cores, say=context.say),
    )
    warnings = (*models.price_warnings(), *idle_roles(task).values())
    return OptimizeSession(
        context=context, run=run, loop=loop, warnings=warnings, prune_watch=prune_watch, pool=pool, runner=runner
    )


def _proposer_factory(context: CampaignContext, task: Task, models: RoleModels, unsafe: bool) -> ProposerFactory:
    def agent_sessions(choice: AgentChoice) -> AgentSessions:
        from loopty.features.agents.sessions import AgentFactory

        factory = AgentFactory(
            sandbox=task.sandbox,
            unsafe=unsafe,
            repository=context.repository,
            state=context.state,
            files=context.files,
            models=models,
            recorder=context.recorder,
            owner=context.owner,
            context=context,
        )
        return factory.sessions(choice)

    if any(kind == AGENT_PROPOSER for _, kind in proposer_kinds(task.proposer)):
        from loopty.features.agents.sessions import require_agents

        require_agents(task)
    return ProposerFactory(task, context.files, NodeLeftovers(context.folders), models, agent_sessions)


def _refuse_start(context: CampaignContext, unsafe: bool, executor: Executor | None) -> None:
    """Raise what the session would be refused for, by making each of its parts once."""
    # A run that is recorded for a start that is refused would hide the results of the one before.
    task, models = context.task, context.role_models(None)
    _proposer_factory(context, task, models, unsafe).proposer()
    if task.pools.control:
        _proposer_factory(context, task, models, unsafe).control()
    if task.combine:
        _proposer_factory(context, task.for_combination(), models, unsafe).proposer()
    if task.executor.kind == "pool":
        from loopty.features.fleet.pool_session import require_workers

        require_workers(task)
    elif executor is None:
        context.executor(unsafe)
    if task.verifier.judged or task.verifier.review != "off":
        models.of(Role.VERIFIER)


def _open_pool(context: CampaignContext, run: int, unsafe: bool, runner: asyncio.Runner) -> PoolSession:
    """Open the workers of a session, of which one is ready."""
    from loopty.features.fleet.pool_session import PoolSession

    pool = PoolSession(context, run, unsafe)
    runner.run(pool.open())
    return pool


def with_workers(context: CampaignContext, listen: str, hosts: Sequence[str]) -> CampaignContext:
    """Return the context of a session whose trials run on workers that join or start; the same without any."""
    if not (listen or hosts):
        return context
    spec = context.task.executor
    executor = replace(spec, kind="pool", listen=listen or spec.listen)
    if hosts:  # in place of all that the task file starts
        executor = replace(executor, hosts=tuple(hosts), start="")
    return replace(context, task=replace(context.task, executor=executor))


def start_combination(context: CampaignContext, base: int, unsafe: bool) -> OptimizeSession | None:
    """Start the second stage's session over the search `base`; None if there is none or nothing to combine."""
    if not context.task.combine:
        return None

    entered = enter_combination(context, base)
    return start_session(entered[0], False, unsafe, run=entered[1]) if entered else None


def _pools_until_combination(task: Task) -> Pools:
    """Return the budget of the search; a stall ends it if a second stage waits."""
    waits = [patience for patience in (task.pools.patience, task.combine.patience) if patience]
    return replace(task.pools, patience=min(waits, default=None))


def _pace(pools: Pools) -> Pace | None:
    """Return what keeps proposals to the rate of the task."""
    if pools.iterations_per_minute is None:
        return None
    throttle = Throttle(pools.iterations_per_minute)

    async def pace() -> None:
        await throttle.start()

    return pace


_LOOK_SECONDS, _MOST_LOOKS = 2.0, 300
"""A machine that is always busy has no quiet moment."""
_MOSTLY = 0.8


async def wait_for_quiet(
    may_wait: Callable[[], bool],
    cores: float,
    say: Callable[[str], None],
    load: Callable[[], LoadSeen] = load_now,
    look_seconds: float = _LOOK_SECONDS,
) -> None:
    """Wait until the machine has room for a trial that keeps so many cores busy, for some minutes at most."""
    machine = this_capacity().cores
    needed = min(max(cores, 1.0), machine)
    say_once = functools.cache(say)
    for _ in range(_MOST_LOOKS):
        before = load()
        await asyncio.sleep(look_seconds)
        if not may_wait() or machine * before.free_share_until(load()) >= _MOSTLY * needed:
            return
        say_once("waiting for a quiet moment, ten minutes at most: what others disturbed is measured again")


async def _tick(on_tick: Callable[[], None]) -> None:
    while True:
        on_tick()
        await asyncio.sleep(_TICK_SECONDS)


def collect_rarely() -> None:
    """Collect garbage rarely: a run makes records that stay, so frequent collection would find almost nothing."""
    # A trial leaves some forty objects in circles: so there are never more than those of three hundred trials.
    gc.set_threshold(10_000, 20, 50)
