"""Variants of the default that may replace it: each against `credit`, fresh and mature roots apart.

    .venv/bin/python benchmarks/search_variants.py [SHAPES] [WORKERS] [GROUP+GROUP…]

It runs what is missing in `search_variants_results.json`, then prints the tables. Calls cost
nothing, the budget is 60 trials. Each group has shapes of its own. The rules and constants of drafts that follow
what drafts show, and what they have to show, were written down before their first run.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from page_tables import difference_table
from search import Setting
from search_landscape import make_landscape
from search_simulation import Simulation

from loopty.domain.model import ModelOption
from loopty.engine.protocols import Ask
from loopty.kit.records import replace
from loopty.proposers.code import arms, plan
from loopty.proposers.code.arms import ArmChoice, ArmPrices, choose_arm
from loopty.proposers.code.options import CodeOptions, Operator, Policy

RESULTS = Path(__file__).with_name("search_variants_results.json")
TRIALS = 60.0
_STATIC = {"diff": 0.6, "rewrite": 0.25, "fix": 0.15}
_FEWEST_SCORED = 2
_FEWEST_CHANGES = 3
_FAR = 4.0
"""How many times as far as a mean change moves the score a draft has to land below the baseline."""

Rule = Callable[[Ask, CodeOptions, Sequence[Operator], Sequence[ModelOption], str], ArmChoice]


@contextmanager
def _in_place(module: ModuleType, name: str, variant: object) -> Iterator[None]:
    """The module with the variant in place of what is shipped."""
    shipped = getattr(module, name)
    setattr(module, name, variant)
    try:
        yield
    finally:
        setattr(module, name, shipped)


def _draft_gains(ask: Ask) -> list[float]:
    """By how much each draft with a score is better than the baseline."""
    base = _score(ask.root)
    scores = (_score(node) for node in ask.nodes if node.operator == Operator.DRAFT)
    return [score - base for score in scores if score is not None and base is not None]


def _score(node) -> float | None:
    return node.outcome.metrics["score"] if node.outcome and node.outcome.is_finished else None


def _is_above_drafts(gains: Sequence[float]) -> bool:
    """Whether the baseline is further above the best draft than the drafts are apart."""
    return len(gains) >= _FEWEST_SCORED and 2 * max(gains) - min(gains) < 0


def _mean_change(ask: Ask) -> tuple[int, float]:
    """How many changes have a score, and how far a mean one moves its parent's."""
    moved = []
    for node in ask.nodes:
        mine, before = _score(node), _score(ask.history[node.id.parent])
        if node.operator in (Operator.DIFF, Operator.REWRITE) and mine is not None and before is not None:
            moved.append(abs(mine - before))
    return len(moved), sum(moved) / max(len(moved), 1)


def _without(
    ask: Ask, options: CodeOptions, operators: Sequence[Operator], models: Sequence[ModelOption], fixes: bool
) -> ArmChoice:
    """No drafts; fixes only where they are allowed and what failed is no draft. Exploration still has all."""
    options = replace(options, drafts=0)
    if ask.rng.random() < options.exploration:
        return choose_arm(ask, replace(options, exploration=1.0), operators, models)
    failed = plan.node_to_fix(ask)
    born = failed and [ask.history[one].operator for one in failed.id.lineage[-2:]]
    no_fix = not fixes or (born and (born[-1] == Operator.DRAFT or born == [Operator.DRAFT, Operator.FIX]))
    banned = {Operator.DRAFT, *([Operator.FIX] if no_fix else [])}
    rest = [operator for operator in operators if operator not in banned]
    return choose_arm(ask, replace(options, exploration=0.0), rest, models)


def spread_of_drafts(ask, options, operators, models, wish="", fixes=True):
    """Three drafts first, two where both are far below the baseline, by their own spread."""
    if _is_above_drafts(_draft_gains(ask)):
        return _without(ask, options, operators, models, fixes)
    return choose_arm(ask, options, operators, models, wish)


def spread_no_fixes(ask, options, operators, models, wish=""):
    return spread_of_drafts(ask, options, operators, models, wish, fixes=False)


def size_of_changes(ask, options, operators, models, wish=""):
    """One draft with a score; where it is below the baseline, three changes say what far below is."""
    gains = _draft_gains(ask)
    if not gains or max(gains) >= 0:
        return choose_arm(ask, options, operators, models, wish)
    count, mean = _mean_change(ask)
    if count < _FEWEST_CHANGES or -max(gains) > _FAR * mean:
        return _without(ask, options, operators, models, fixes=False)
    return choose_arm(ask, options, operators, models, wish)


class _FavouredPrices(ArmPrices):
    """The shipped prices, and a credit in which an operator's favour counts as further nodes."""

    FAVOUR = ((Operator.DIFF, 2.0), (Operator.REWRITE, 1.0), (Operator.FIX, 0.5), (Operator.DRAFT, 1.0))

    def __init__(self, credit, models, trial_price):
        super().__init__(credit, models, trial_price)
        self._plain = ArmPrices(credit, models, trial_price)
        for operator, favour in self.FAVOUR:
            for model in models:
                known, more = credit.arm(operator, model.name), favour - 1.0
                arm = replace(known, asked=known.asked + more, reward=known.reward + more)
                self.credit = self.credit.with_arm(f"{operator}|{model.name}", arm)

    def price(self, arm):
        return self._plain.price(arm)


def prior_for_diffs(ask, options, operators, models, wish=""):
    """The beta prior's successes are 2, 1, 0.5 and 1 for diff, rewrite, fix and draft."""
    with _in_place(arms, "ArmPrices", _FavouredPrices):
        return choose_arm(ask, options, operators, models, wish)


def half_by_weights(ask, options, operators, models, wish=""):
    """Every second proposal is drawn by the static weights."""
    if ask.position % 2:
        options = replace(options, policy=Policy.WEIGHTS, weights=_STATIC)
    return choose_arm(ask, options, operators, models, wish)


def no_fixes(ask, options, operators, models, wish=""):
    return choose_arm(ask, options, [one for one in operators if one != Operator.FIX], models, wish)


GROUPS: dict[str, tuple[Setting, dict[str, Rule]]] = {
    "default": (
        Setting("three variants of the default", 1.0, 0.0, TRIALS, 800_000),
        {
            "no fixes, drafts as now": no_fixes,
            "a prior that favours diffs (2, 1, 0.5 and 1 nodes for diff, rewrite, fix and draft)": prior_for_diffs,
            "every second proposal by fixed weights": half_by_weights,
        },
    ),
    "evidence": (
        Setting("drafts follow what drafts show", 1.0, 0.0, TRIALS, 1_000_000),
        {
            "by the spread of drafts": spread_of_drafts,
            "by the spread of drafts, without fixes": spread_no_fixes,
            "by the size of changes, without fixes": size_of_changes,
        },
    ),
    "confirm": (
        Setting("the one that passed, looked at once on other shapes", 1.0, 0.0, TRIALS, 1_100_000),
        {"by the spread of drafts, without fixes": spread_no_fixes},
    ),
}
"""Drafts that follow what drafts show. Each is the shipped `credit`, but for what follows.

By the spread of drafts: once two drafts have a score, the baseline counts as mature where it is further above the
best draft than the best is above the worst. Then no drafts are asked for, and none that failed is fixed; one
proposal in ten is still drawn from all operators, and a draft that comes near the baseline ends it.
Without fixes: the same, and nothing is fixed while the baseline counts as mature.
By the size of changes: one draft with a score first. Where it is below the baseline, three diffs or rewrites with
a score follow; the baseline is mature where the best draft is more than four times as far below it as a mean
change moves the score of its parent. While it counts as mature, and during these three, there are no drafts and no
fixes; else drafts go on, up to three.

A variant earns its place when its area on mature roots is surely above that of `credit` (the 95 % interval
excludes zero), and its mean loss on fresh roots is at most a quarter of that gain, with an interval that includes
zero. Of several the one with the largest smaller difference is taken, and confirmed once on the shapes from
1,100,000 on.
"""


def run_one(job: tuple[str, str, int]) -> tuple[str, list[float]]:
    group, name, seed = job
    setting, rules = GROUPS[group]
    with _in_place(plan, "choose_arm", rules.get(name, choose_arm)):
        land = make_landscape("random", seed)
        result = Simulation(land, CodeOptions(), seed, trial_cost=1.0, call_cost=0.0).run(setting.budget)
    return f"{group}|{name}|{seed}", [round(result.area, 4), round(result.final, 4)]


def table(known: dict[str, list[float]], group: str, count: int) -> list[str]:
    setting, rules = GROUPS[group]
    lines = [
        f"**{setting.title[0].upper()}{setting.title[1:]}**, 60 trials, seeds from {setting.first_seed:,} on:",
        "",
    ]
    strata = {
        name: [lambda row, seed=seed: f"{group}|{row}|{seed}" for seed in setting.seeds(mature, count)]
        for name, mature in (("fresh", False), ("mature", True))
    }
    return [*lines, *difference_table(known, "variant", list(rules), strata, "credit"), ""]


def main(count: int, workers: int, groups: Sequence[str]) -> None:
    known: dict[str, list[float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    jobs = [
        (group, name, seed)
        for group in groups
        for mature in (False, True)
        for seed in GROUPS[group][0].seeds(mature, count)
        for name in ("credit", *GROUPS[group][1])
        if f"{group}|{name}|{seed}" not in known
    ]
    with multiprocessing.Pool(workers) as pool:
        known |= dict(pool.imap_unordered(run_one, jobs, chunksize=8))
    lines = (f"{json.dumps(key)}: {known[key]}" for key in sorted(known))
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    done = [group for group in GROUPS if any(key.startswith(f"{group}|") for key in known)]
    text = "\n".join(line for group in done for line in table(known, group, count))
    print(text)


if __name__ == "__main__":
    shapes, workers, names = (*sys.argv[1:], *("300", "2", "+".join(GROUPS))[len(sys.argv) - 1 :])
    main(int(shapes), int(workers), names.split("+"))
