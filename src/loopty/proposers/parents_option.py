"""The words of the option `parents`, which several proposers have."""

PARENTS = (
    "Which node is changed next: `best`, `root` (always the baseline), `tournament`, `top`, `epsilon`, `softmax`, "
    "`uct`, `pareto`, `islands`, `map-elites`, `novelty` or `restart`: see docs/search.md. A table sets options: "
    '`{ kind = "tournament", size = 8 }`.'
)
