"""Optuna's samplers, each over an in-memory study rebuilt from the history: the ledger is the only truth."""

from __future__ import annotations

import importlib.util
import random
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Space, Value
from loopty.domain.trial import Ending, Verdict
from loopty.engine.protocols import Ask
from loopty.kit.installation import extra_command
from loopty.kit.records import Record, field
from loopty.proposers.parameters.learned_nodes import best_and_newest, is_too_long, learned_nodes
from loopty.proposers.shared_pool import parameter_parent, params_line, turn
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

    from loopty.proposers.services import Services

_QUIET = {"warn_independent_sampling": False}


class SamplerSpec(Record):
    """How to make one of Optuna's samplers."""

    sampler: str
    needs: Mapping[str, str]
    """Modules beyond Optuna itself, and the extra of loopty that installs each."""
    options: Mapping[str, Any] = field(default_factory=dict)
    many_objectives: bool = False
    takes_categories: bool = True
    takes_conditional: bool = False
    """Whether it may draw a parameter that a trial leaves out: a sequence has a dimension for each."""
    ranks_pruned: bool = False
    """Whether a pruned trial is told as a bad one, because the sampler would leave it out and learn less."""


# Without Optuna's storage. The options follow the figures in benchmarks/README.md ("Samplers beside plain
# Optuna"); QMC stays unscrambled.
STATELESS_SAMPLERS = {
    "tpe": SamplerSpec("TPESampler", {}, {"constant_liar": True}),
    "gp": SamplerSpec("GPSampler", {"scipy": "samplers", "torch": "gp"}),
}
"""Samplers that depend on finished trials alone and keep no other state."""

STATEFUL_SAMPLERS = {
    "cmaes": SamplerSpec("CmaEsSampler", {"cmaes": "samplers"}, _QUIET, takes_categories=False, ranks_pruned=True),
    "qmc": SamplerSpec("QMCSampler", {"scipy": "samplers"}, _QUIET, takes_conditional=True),
    "nsga2": SamplerSpec("NSGAIISampler", {}, {"population_size": 20}, many_objectives=True),
}
"""Samplers that keep state in the trials they suggested: resuming asks them every earlier question again."""


class _OptunaProposer:
    """The study, the space and the objective, which both kinds of samplers share."""

    def __init__(self, name: str, spec: SamplerSpec, space: Space) -> None:
        self.name = name
        self._spec = spec
        self._space = space
        require_modules(name, spec.needs)
        self._distributions: dict[str, BaseDistribution] = {}
        self._joint_distributions: dict[str, BaseDistribution] = {}
        """Of the parameters that the sampler draws together, in the order in which a study is asked for them.

        Optuna finds them by reading trials, which takes a new sampler longer than the draw. It also takes a
        conditional parameter for a common one until a trial comes without it; CMA-ES, whose dimensions cannot
        change, draws at random from then on.
        """
        self._order = space.order()
        self._nodes_seen = 0

    def _take_new_nodes(self, ask: Ask) -> list[Node]:
        """Take the pool's nodes since the last question, so that a question costs the same in a long history."""
        nodes = ask.history.nodes_of_pool(ask.run, ask.pool)
        new = [ask.history[node] for node in nodes[self._nodes_seen :]]
        self._nodes_seen = len(nodes)
        return new

    def _new_study(self, metrics: Sequence[Metric]) -> Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings(action="ignore"):  # a range need not be a multiple of its step
            self._distributions = {
                name: distribution_of(parameter) for name, parameter in self._space.parameters.items()
            }
            self._joint_distributions = {
                name: self._distributions[name]
                for name in self._order
                if self._is_joint(self._space.parameters[name]) and not self._distributions[name].single()
            }
        up, down = optuna.study.StudyDirection.MAXIMIZE, optuna.study.StudyDirection.MINIMIZE
        return optuna.create_study(directions=[up if metric.direction.sign > 0 else down for metric in metrics])

    def _is_joint(self, parameter: Parameter) -> bool:
        # Conditional ones: QMC's sequence has a dimension for each, TPE draws one by one, CMA-ES at random.
        if parameter.when and not self._spec.takes_conditional:
            return False
        return self._spec.takes_categories or parameter.type is not ParameterKind.CATEGORICAL

    def _metrics(self, ask: Ask) -> tuple[Metric, ...]:
        metrics = ask.history.metrics(ask.root)
        return metrics if self._spec.many_objectives else metrics[:1]

    def _sampler_with_seed(self, seed: int) -> BaseSampler:
        """Return the sampler, with this seed."""
        import optuna

        sampler = getattr(optuna.samplers, self._spec.sampler)(seed=seed, **self._spec.options)
        sampler.infer_relative_search_space = lambda *_: dict(self._joint_distributions)
        return sampler  # type: ignore[no-any-return]

    def _ask_sampler(self, study: Study, rng: random.Random) -> tuple[Trial, dict[str, Value]]:
        """Ask the sampler for its next trial and its parameters."""
        with warnings.catch_warnings(action="ignore"):  # Optuna calls half of its samplers experimental
            study.sampler = self._sampler_with_seed(rng.randrange(2**31))
            trial = study.ask()
            params: dict[str, Value] = {}
            for name in self._order:
                if self._space.is_active(name, params):
                    params[name] = suggest_value(trial, name, self._space.parameters[name])
        return trial, params

    def _fits(self, node: Node) -> bool:
        """Say whether the node is a point of the current space: the task file may have changed."""
        return self._space.fault(node.task_params) is None

    def _proposal(self, ask: Ask, params: dict[str, Value]) -> Proposal:
        return Proposal(self.name, parameter_parent(ask).id, params_line(params), params)


class StatelessProposer(_OptunaProposer):
    """TPE and GP: the study has the finished nodes, and during a question the running ones too.

    The baseline and the nodes of every proposer count, but only with the same code: results of other code say
    nothing about parameters.
    """

    def __init__(self, name: str, space: Space) -> None:
        super().__init__(name, STATELESS_SAMPLERS[name], space)
        self._study: Study | None = None
        self._tree = ""
        """The tree of the code that the study is about."""
        self._nodes: list[Node] = []
        self._undecided: list[NodeId] = []
        """Nodes that had no verdict at the last question."""

    async def propose(self, ask: Ask) -> Proposal:
        from optuna.trial import TrialState, create_trial

        metrics = self._metrics(ask)
        self._switch_to_tree(parameter_parent(ask).tree)
        nodes = [*map(ask.history.__getitem__, self._undecided), *self._new_nodes(ask, metrics[0])]
        self._undecided = [node.id for node in nodes if not node.verdict]
        for node in sorted((node for node in nodes if node.verdict), key=lambda node: node.judged):
            self._take_verdict(node, metrics)
        study = self._study = self._study or self._rebuild_study(metrics)
        running = [node for node in nodes if not node.verdict and node.tree == self._tree and self._fits(node)]
        for node in running:
            study.add_trial(
                create_trial(
                    state=TrialState.RUNNING,
                    params=dict(node.task_params),
                    distributions=self._distributions_of(node),
                )
            )
        trial, params = self._ask_sampler(study, ask.rng)
        for number in range(trial.number - len(running), trial.number + 1):
            study.tell(number, state=TrialState.FAIL)  # the study keeps only finished trials
        return self._proposal(ask, params)

    def _new_nodes(self, ask: Ask, metric: Metric) -> list[Node]:
        """List the nodes since the last question; for the first one in a long run, those not forgotten."""
        if self._nodes_seen:
            return self._take_new_nodes(ask)
        baseline = 0 if self._fits(ask.root) else ask.root.handle
        if learned := learned_nodes(ask.history, ask.run, ask.pool, metric, left_out=baseline):
            nodes = [ask.history[node] for node in (*learned.judged, *learned.undecided)]
            if all(map(self._fits, nodes)):
                self._nodes_seen = len(ask.history.nodes_of_pool(ask.run, ask.pool))
                return nodes
        return self._take_new_nodes(ask)

    def _switch_to_tree(self, tree: str) -> None:
        if tree != self._tree:
            self._tree, self._study = tree, None

    def _take_verdict(self, node: Node, metrics: Sequence[Metric]) -> None:
        if not self._fits(node):
            return
        self._nodes.append(node)
        if is_too_long(self._nodes):
            self._nodes = best_and_newest(self._nodes, lambda node: _worth(node, metrics[0]))
            self._study = None
        elif self._study is not None and node.tree == self._tree:
            self._add(self._study, node, metrics)

    def _rebuild_study(self, metrics: Sequence[Metric]) -> Study:
        study = self._new_study(metrics)
        for node in self._nodes:
            if node.tree == self._tree:
                self._add(study, node, metrics)
        return study

    def _add(self, study: Study, node: Node, metrics: Sequence[Metric]) -> None:
        from optuna.trial import TrialState, create_trial

        values, reports = _values(node, metrics), _reports(node, metrics[0])
        # Optuna's pruned state, which TPE learns from.
        state = TrialState.COMPLETE if values else TrialState.PRUNED if reports else TrialState.FAIL
        study.add_trial(
            create_trial(
                state=state,
                params=dict(node.task_params),
                distributions=self._distributions_of(node),
                values=values,
                intermediate_values=reports,  # type: ignore[arg-type]  # Optuna only compares steps
            )
        )

    def _distributions_of(self, node: Node) -> dict[str, BaseDistribution]:
        return {name: self._distributions[name] for name in node.task_params}


class StatefulProposer(_OptunaProposer):
    """CMA-ES, QMC and NSGA-II: the study has only its own questions and results, in their original order."""

    counts_turns = True

    def __init__(self, name: str, space: Space) -> None:
        super().__init__(name, STATEFUL_SAMPLERS[name], space)
        self._study: Study | None = None
        self._turn = 0
        self._own_nodes: dict[int, NodeId] = {}
        """Its nodes whose results the sampler does not know yet, by turn."""
        self._open_trials: dict[int, tuple[Trial, dict[str, Value]]] = {}
        self._sampler: BaseSampler | None = None
        self._worst_value: float | None = None
        """The worst value of the first metric that the sampler was told."""

    async def propose(self, ask: Ask) -> Proposal:
        metrics = self._metrics(ask)
        study = self._study = self._study or self._first_study(ask, metrics)
        self._own_nodes |= {node.turn: node.id for node in self._take_new_nodes(ask) if node.operator == self.name}
        now = turn(ask, self.name)
        for before in range(self._turn, now):
            self._tell(study, ask, metrics, before=self._event_of_question(ask, before, now))
            self._open_trials[before] = self._ask_sampler(study, ask.generator_at(before))
        self._tell(study, ask, metrics, before=None)
        self._turn = now + 1
        self._open_trials[now] = self._ask_sampler(study, ask.generator_at(now))
        return self._proposal(ask, dict(self._open_trials[now][1]))

    def _sampler_with_seed(self, seed: int) -> BaseSampler:
        """Return one sampler for all questions: making another takes longer than asking. Its state is replayed."""
        if self._sampler is None:
            self._sampler = super()._sampler_with_seed(seed)
        _set_seed(self._sampler, seed)
        return self._sampler

    def _first_study(self, ask: Ask, metrics: Sequence[Metric]) -> Study:
        """Make a study that knows the baseline, as if the sampler had asked for it."""
        study = self._new_study(metrics)
        if self._fits(ask.root) and (values := self._result(ask.root, metrics)):
            self._tell_baseline(study, ask, values)
        return study

    def _tell_baseline(self, study: Study, ask: Ask, values: list[float]) -> None:
        import optuna

        study.enqueue_trial(dict(ask.root.task_params))
        trial, _ = self._ask_sampler(study, ask.generator_at(0))
        if isinstance(study.sampler, optuna.samplers.BaseGASampler):
            # Only what belongs to a generation becomes a parent, and the sampler gives a queued trial none.
            study.sampler.get_trial_generation(study, study.get_trials(deepcopy=False)[trial.number])
        study.tell(trial, values)

    def _tell(self, study: Study, ask: Ask, metrics: Sequence[Metric], before: int | None) -> None:
        """Tell the sampler the results recorded before that event, in the order of their verdicts."""
        from optuna.trial import TrialState

        results: list[tuple[int, int]] = []
        for at_turn in self._open_trials:
            node = self._node_at(ask, at_turn)
            if node is None:
                results.append((0, at_turn))  # that proposal was refused
            elif node.verdict and (before is None or node.judged < before):
                results.append((node.judged, at_turn))
        for _, at_turn in sorted(results):
            trial, params = self._open_trials.pop(at_turn)
            node = self._node_at(ask, at_turn)
            self._own_nodes.pop(at_turn, None)
            values = self._result(node, metrics) if node and dict(node.task_params) == params else None
            if values:
                study.tell(trial, values)
            else:
                study.tell(trial, state=TrialState.FAIL)

    def _result(self, node: Node, metrics: Sequence[Metric]) -> list[float] | None:
        """Return what the sampler learns from a node, or None if it can learn nothing.

        A pruned node counts as no better than the worst finished one, whatever it had reached when it was stopped:
        values at different steps are not comparable, and a sampler that ranks needs no more.
        """
        direction, values = metrics[0].direction, _values(node, metrics)
        if values:
            worst = values[0] if self._worst_value is None else self._worst_value
            self._worst_value = direction.worse(worst, values[0])
        elif self._spec.ranks_pruned and (reports := _reports(node, metrics[0])):
            (value,) = reports.values()
            values = [value if self._worst_value is None else direction.worse(value, self._worst_value)]
        return values

    def _node_at(self, ask: Ask, at_turn: int) -> Node | None:
        node = self._own_nodes.get(at_turn)
        return ask.history[node] if node else None

    def _event_of_question(self, ask: Ask, at_turn: int, now: int) -> int | None:
        """Find the event before which the question was asked, from its node or the next one; None if unknown."""
        later = (self._node_at(ask, other) for other in range(at_turn, now))
        return next((node.known_event + 1 for node in later if node), None)


def require_modules(sampler: str, needs: Mapping[str, str]) -> None:
    """Refuse a sampler without its packages; `needs` are those beyond Optuna, each with loopty's extra for it."""
    extras = {"samplers", *needs.values()}
    for module in ("optuna", *needs):
        if importlib.util.find_spec(module) is None:
            extra = "gp" if "gp" in extras else "samplers"  # the former has all of the latter
            raise Misuse(f"proposer '{sampler}' needs {module}: run {extra_command(extra)}")


def distribution_of(parameter: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.type is ParameterKind.CATEGORICAL:
        return CategoricalDistribution(parameter.choices)
    assert parameter.low is not None
    assert parameter.high is not None
    if parameter.type is ParameterKind.INT:
        return IntDistribution(int(parameter.low), int(parameter.high), parameter.log, int(parameter.step or 1))
    return FloatDistribution(parameter.low, parameter.high, parameter.log, parameter.step)


def suggest_value(trial: Trial, name: str, parameter: Parameter) -> Value:
    if parameter.type is ParameterKind.CATEGORICAL:
        return trial.suggest_categorical(name, parameter.choices)  # type: ignore[return-value]
    assert parameter.low is not None
    assert parameter.high is not None
    if parameter.type is ParameterKind.INT:
        step = int(parameter.step or 1)
        return int(trial.suggest_int(name, int(parameter.low), int(parameter.high), step=step, log=parameter.log))
    return float(trial.suggest_float(name, parameter.low, parameter.high, step=parameter.step, log=parameter.log))


def _set_seed(sampler: BaseSampler, seed: int) -> None:
    """Seed the generators of a sampler and of those that it draws from, as if it was made with this seed."""
    from optuna.samplers import BaseSampler

    for part in vars(sampler).values():
        if isinstance(part, BaseSampler):
            _set_seed(part, seed)
        elif generator := getattr(part, "rng", None):
            generator.seed(seed)


def _values(node: Node, metrics: Sequence[Metric]) -> list[float] | None:
    """Return the node's metrics, or None when it has no result that a sampler could learn from."""
    if node.outcome is None or node.outcome.ending is not Ending.FINISHED or node.verdict is Verdict.REJECTED:
        return None
    values = [node.outcome.metrics.get(metric.name) for metric in metrics]
    return [value for value in values if value is not None] if None not in values else None


def _reports(node: Node, metric: Metric) -> dict[float, float]:
    """Return the last value that a pruned node reported, by its step; empty for any other node."""
    outcome = node.outcome
    if outcome is None or outcome.ending is not Ending.PRUNED or metric.name not in outcome.metrics:
        return {}
    return {outcome.step or 0.0: outcome.metrics[metric.name]}


def _worth(node: Node, metric: Metric) -> float:
    """Return the node's worth: the larger, the better."""
    values = _values(node, [metric])
    return metric.direction.sign * values[0] if values else float("-inf")


def make_proposer(_options: object, services: Services) -> StatelessProposer | StatefulProposer:
    if services.kind in STATELESS_SAMPLERS:
        return StatelessProposer(services.kind, services.space)
    return StatefulProposer(services.kind, services.space)
