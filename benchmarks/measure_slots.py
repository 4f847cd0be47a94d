"""How busy models and trials are when both take a second, and how many proposals a second that makes."""

import json
from collections.abc import Iterator

import peers_openevolve
from bench import Bench
from cost import CommandFailed, Cost, Result, run_for_output
from instant_program import version
from repository import commit_all, create
from samples import cost_per_unit
from table import NO_PEER, NOTHING, Figure, Row, Target

_SECONDS = 1.0
_WIDTHS = (1, 2)
_FASTER = Target("at most 0.714: 1.4 times as many", 1 / 1.4)
_BUSY = Target("at most 15 % idle", 0.15)
_TASK = """\
goal = "Make the answer better."
width = {width}
[benchmark]
command = '''sleep {seconds}; cksum program.py | sed 's/ .*//' | (read n; echo "score: $n")'''
result = "stdout"
timeout_seconds = 60
[noise]
repeat = "never"
confirm = 0
[budget]
attempts = {attempts}
[models.slow]
provider = "scripted"
file = "../script-{width}.jsonl"
[roles.evolver]
model = "slow"
[proposer]
kind = "llm-code"
operators = ["rewrite"]
[access]
write = ["program.py"]
"""


def rows(bench: Bench) -> Iterator[Row]:
    for width in _WIDTHS:
        attempts = (15 if bench.quick else 60) * width
        peer, ours = _openevolve(bench, attempts, width), _loopty(bench, attempts, width)
        name = f"model {_SECONDS:g} s, trial {_SECONDS:g} s, width {width}"
        if isinstance(ours, CommandFailed):
            yield Row(name, Figure("failed", note=str(ours)), NOTHING)
            continue
        pace = Figure(f"{ours['seconds'] / attempts:.3f} s", ours["seconds"] / attempts)
        yield Row(f"{name}: a proposal every", pace, _figure(peer), _FASTER, of_ratio=True)
        for kind in ("trial", "model"):
            idle = 1 - ours[f"{kind}_slots_busy"]
            yield Row(f"{name}: {kind} slots idle", Figure(f"{100 * idle:.1f} %", idle), NOTHING, _BUSY)


def _loopty(bench: Bench, attempts: int, width: int) -> dict[str, float] | CommandFailed:
    """The goodput of a session by loopty's own report; its time includes the baseline and the first question."""
    folder = create(bench.scratch / f"slots-{width}", 1, bench.env)
    lines = ({"text": _reply(number), "seconds": _SECONDS} for number in range(1, attempts + 1))
    script = folder.with_name(f"script-{width}.jsonl")
    script.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "program.py").write_text(version(0))
    (folder / "loopty.toml").write_text(_TASK.format(width=width, seconds=_SECONDS, attempts=attempts))
    commit_all(folder, bench.env)
    loopty = str(bench.loopty_executable)
    try:
        run_for_output([loopty, "optimize", "--quiet", "--trust"], folder, bench.env)
        report = json.loads(run_for_output([loopty, "report", "--json"], folder, bench.env))
    except CommandFailed as failure:
        return failure
    goodput: dict[str, float] = report["goodput"]
    return goodput


def _reply(number: int) -> str:
    return f"=== PROPOSAL 1: version {number} ===\nprogram.py\n```python\n{version(number)}```\n=== END ===\n"


def _openevolve(bench: Bench, attempts: int, workers: int) -> Result:
    """The time of one iteration between the first and the last evaluation."""
    if bench.openevolve_python is None:
        return None
    folder = bench.scratch / f"slots-openevolve-{workers}"
    try:
        samples = peers_openevolve.iterations(
            bench.openevolve_python, attempts // 2, folder, bench.env, _SECONDS, workers
        )
    except CommandFailed as failure:
        return failure
    return cost_per_unit(samples, 1, samples[-1].done)


def _figure(peer: Result) -> Figure:
    if isinstance(peer, Cost):
        return Figure(f"OpenEvolve {peer.wall_seconds:.3f} s", peer.wall_seconds)
    return NO_PEER if peer is None else Figure("OpenEvolve failed", note=str(peer))
