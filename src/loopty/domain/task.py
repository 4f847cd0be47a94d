"""The task: everything that `loopty.toml` says, and the part of it that travels to any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Gate, Limits
from loopty.domain.launch import Protection
from loopty.domain.model import ModelSpec, RoleBudget, Roles, VerifierSpec
from loopty.domain.objective import Objective
from loopty.domain.space import Space
from loopty.domain.task_tables import (
    MOST_WORKERS,
    POOL_FOLDER,
    AgentRights,
    Anchors,
    AttemptFigures,
    Capacity,
    Combine,
    ExclusiveUse,
    ExecutorSpec,
    ResourceProfile,
    RoundDepth,
    RoundSize,
    Tune,
    choose_round_depth,
    choose_round_size,
)
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.kit.contents import sha256
from loopty.kit.records import Record, field, replace
from loopty.kit.tables import Table, option

Criteria = Mapping[str, str]
"""Digests by the name of the part."""


class Pools(Table):
    """The budget of a run."""

    attempts: int = option("Number of proposals to try; the baseline does not count.", 100, minimum=0)
    control: int = option("Trials of the random control.", 0, minimum=0)
    tunes: int | None = option(
        "Measurements without a verdict: in agents' mode `tune`, and of proposals tuned under `[tune]`. "
        "Default: no limit.",
        None,
        minimum=0,
    )
    repeats: int | None = option(
        "Repeat measurements that tell a gain from noise. Default: no limit.", None, minimum=0
    )
    wall_seconds: float | None = option("Time for `loopty run`, added up over resumed sessions.", None, above=0)
    tokens: int | None = option("Tokens that models may use.", None, minimum=0)
    money_usd: float | None = option("Money that calls to models may cost.", None, minimum=0)
    iterations_per_minute: float | None = option("Most proposals requested in any minute.", None, above=0)
    questions: int | None = option(
        "Proposals asked of models at the same time, also while trials run. Default: the number of slots for "
        "trials, and a trial that takes less than half a minute is waited for.",
        None,
        minimum=1,
    )
    target: float | None = option("Stop when the first metric reaches this.", None)
    patience: int | None = option("Stop after this many attempts without improvement.", None, above=0)

    def limit(self, pool: Pool) -> int | None:
        """Return how many trials of this pool may start; None if there is no limit."""
        return getattr(self, pool.rules.limit) if pool.rules.limit else None


class Noise(Table):
    """How the judge tells a gain from noise."""

    repeat: str = option(
        "`auto`: if results vary, winners are measured again beside the incumbent; `never`: one measurement"
        " decides.",
        "auto",
        choices=("auto", "never"),
    )
    mode: str = option(
        "`careful`: few false keeps. `fast`: half the measurements per candidate, and more false keeps; for"
        " measurements that cost more than proposals.",
        "careful",
        choices=("careful", "fast"),
    )
    error_rate: float | None = option(
        "Maximum probability of keeping a candidate that is not better. Default: 0.05; in `fast` mode 0.2.",
        None,
        above=0,
        below=0.5,
    )
    pairs: int = option(
        "Maximum pairs of measurements; a candidate that is then undecided is inconclusive.", 16, minimum=1
    )
    confirm: int = option(
        "Maximum fresh pairs of best node and baseline at the end of a run, for the reported gain; 0: none.",
        10,
        minimum=0,
        below=101,
    )

    @property
    def rate(self) -> float:
        """Return the error rate of the task, or that of its mode."""
        return self.error_rate or (0.2 if self.mode == "fast" else 0.05)

    @property
    def first_look(self) -> float:
        """Tell how many times the noise a first result must gain to be measured again."""
        # Chosen by whole simulated nights (docs/research/judge.md).
        return 1.25 if self.mode == "fast" else 0.5


class Audit(Table):
    """The held-out split, which the search never sees."""

    command: str | tuple[str, ...] = option(
        "The command that scores a node on the split. Default: the benchmark's command.", ""
    )
    files: tuple[str, ...] = option(
        "Repository paths of the split, hidden from proposals, trials and the search's own benchmark.",
        (),
        glob=True,
    )
    data: tuple[str, ...] = option("Host paths of the split, visible only to audits.", ())
    timeout_seconds: float | None = option(
        "Wall-clock limit of an audit. Default: the benchmark's.", None, above=0
    )


class SandboxSpec(Table):
    """The sandbox of trials, and the protections that it must provide."""

    kind: str = option(
        "`namespaces`, `bubblewrap`, `landlock` or `container`; `auto` takes the first that provides the required "
        "protections.",
        "auto",
    )
    require: tuple[Protection, ...] = option(
        "Protections that the sandbox must provide; without them no trial starts.",
        (Protection.WRITE, Protection.READ, Protection.NETWORK, Protection.OTHERS, Protection.SURVIVORS),
    )
    engine: str = option("The container engine.", "auto", choices=("auto", "podman", "docker"))
    image: str = option("The container's image, which contains the toolchain.", "")
    gpus: bool = option(
        "Whether the container sees the machine's GPUs; `benchmark.devices` works in every sandbox.",
        False,
    )


class PluginChoice(Record):
    """A plug-in by name, with its own options."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Task(Record):
    """The whole task."""

    statement: str
    benchmark: Benchmark
    objective: Objective
    access: Access
    space: Space
    limits: Limits
    pools: Pools
    noise: Noise
    audit: Audit
    sandbox: SandboxSpec
    gates: tuple[Gate, ...]
    proposer: PluginChoice
    control: PluginChoice
    pruner: PluginChoice
    width: int
    seed: int
    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    roles: Roles = Roles()
    verifier: VerifierSpec = VerifierSpec()
    agents: AgentRights = AgentRights()
    parameters_file: str = ""
    """Where `loopty apply` writes parameters, relative to the repository's top; empty: nowhere."""
    profile: ResourceProfile = ResourceProfile()
    tune: Tune = Tune()
    combine: Combine = Combine()
    combiner: PluginChoice | None = None
    """What proposes combinations; None where there is no second stage."""
    is_width_stated: bool = True
    """Whether the user said how many trials run at once."""
    executor: ExecutorSpec = ExecutorSpec()
    anchors: Anchors = Anchors()

    @property
    def stated_width(self) -> int | None:
        """Return how many trials the user lets run at once; None if the user did not say."""
        return self.width if self.is_width_stated else None

    @property
    def questions(self) -> int:
        """Return how many proposals models are asked for at the same time; with workers, at most one for each."""
        is_free = self.executor.kind == "pool" and not self.is_width_stated
        return self.pools.questions or (MOST_WORKERS if is_free else self.width)

    def round_depth(self, attempt: AttemptFigures, attempts_left: int | None) -> RoundDepth:
        """Choose how many submissions one agent makes in a round, and say why; what the user said wins."""
        if self.agents.depth:
            return RoundDepth(self.agents.depth, "depth of [agents] in loopty.toml")
        return choose_round_depth(attempt, attempts_left, self.width)

    def round_size(self, machine: Capacity) -> RoundSize:
        """Choose how many trials run at once on this machine, and say why; what the user said wins."""
        if self.is_width_stated:
            return RoundSize(self.width, "width of loopty.toml")
        devices = () if self.benchmark.share_devices else self.benchmark.devices
        evolver = self.models.get(self.roles.evolver.model)
        rate = evolver.requests_per_minute if evolver else None
        # Counts are the same on a busy machine, whatever the clock said when the profile was measured.
        profile = replace(self.profile, steady=self.profile.steady or self.benchmark.is_counted)
        return choose_round_size(profile, machine, ExclusiveUse((*self.benchmark.resources, *devices), rate))

    def without_held_out(self) -> Task:
        """Return the task as the search sees it: the held-out split is hidden."""
        inside = (path.removeprefix("./") for path in self.audit.data if not path.startswith(("/", "~", "..")))
        hidden = (*self.access.hidden, *self.audit.files, *inside)
        return replace(self, access=replace(self.access, hidden=hidden))

    def for_audit(self) -> Task:
        """Return the task of an audit: its benchmark sees the held-out split."""
        benchmark, audit = self.benchmark, self.audit
        return replace(
            self.without_held_out(),
            benchmark=replace(
                benchmark,
                command=audit.command or benchmark.command,
                files=(*benchmark.files, *audit.files),
                data=(*benchmark.data, *audit.data),
                timeout_seconds=audit.timeout_seconds or benchmark.timeout_seconds,
            ),
            audit=Audit(),
            gates=(),
        )

    def for_combination(self) -> Task:
        """Return the task of the second stage, whose proposals combine what the search has found."""
        stage, benchmark = self.combine, self.benchmark
        assert self.combiner is not None
        files = (*benchmark.files, f"{POOL_FOLDER}/**") if benchmark.files else ()
        pools = replace(
            self.pools, attempts=stage.attempts, control=0, wall_seconds=stage.wall_seconds, patience=None
        )
        return replace(
            self,
            benchmark=replace(benchmark, command=stage.command or benchmark.command, files=files, cascade=()),
            access=replace(self.access, write=stage.write),
            space=Space(stage.parameters),
            pools=pools,
            proposer=self.combiner,
            tune=Tune(),
            combine=Combine(),
            anchors=replace(self.anchors, versions=()),
            parameters_file="",
        )

    def criteria(self, benchmark_digest: str, data_digest: str) -> Criteria:
        """Compute a digest of everything that makes results comparable; when one changes, a new run starts."""
        stated: dict[str, Any] = {
            "objective": self.objective,
            "benchmark": self.benchmark,
            "access rules": self.access,
            "limits": self.limits,
            "gates": self.gates,
            "held-out files": self.audit.files,
            "benchmark files": benchmark_digest,
            "benchmark data": data_digest,
        }
        if self.roles.user.model:
            stated["user model"] = self._models_identity(self.roles.user)
            if (allowance := self.roles.user.allowance) != (None, None):
                stated["allowance of a trial"] = allowance
        if self.verifier.judged:
            stated["judged metrics"] = (self.verifier.judged, self._models_identity(self.roles.verifier))
        return {name: digest(part) for name, part in stated.items()}

    def _models_identity(self, budget: RoleBudget) -> Any:
        """Return what changes when a role asks other models, or asks them in other shares."""
        if not budget.models:
            return self._model_identity(budget.model)
        return [(self._model_identity(name), budget.weight(name)) for name in budget.names]

    def _model_identity(self, model: str) -> Any:
        return self.models[model].identity if model in self.models else model


def digest(stated: Any) -> str:
    return sha256(codec.text(stated).encode()).hexdigest()[:16]


class Rig(Record):
    """How trials are run. An evaluator is built from it, here or elsewhere (`session/trial_setup.py`)."""

    benchmark: Benchmark
    limits: Limits
    access: Access
    audit: Audit
    """The held-out split, which no trial of the search may see."""
    sandbox: SandboxSpec
    unsafe: bool = False
    """Whether trials run without a sandbox."""
    benchmark_digest: str = ""
    """Digest of the benchmark's files, part of the fingerprint; empty for a check before any run."""
    data_digest: str = ""
    """Digest of the benchmark's data outside the repository, part of the fingerprint."""
    gate_commands: tuple[str | tuple[str, ...], ...] = ()
    """The commands of the task's gates: what they call must be visible, too."""
