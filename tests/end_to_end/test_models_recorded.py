"""A run is repeated from its recorded calls, at no cost."""

from .conftest import CODE_TASK, Place
from .serving import evolver, number, table, vendor


def task(place: Place, more: str) -> None:
    place.write("loopty.toml", CODE_TASK.format(attempts=4) + more)


def found(place: Place, run: int) -> list[tuple]:
    """The nodes of a run, without the number of the run."""
    history = place.history()
    nodes = [history[node] for node in history.ids if node.run == run]
    return [
        (node.id.sort_key[1:], node.operator, node.summary, history.score(node), node.verdict) for node in nodes
    ]


def test_recorded_calls_give_the_same_run_again_and_cost_nothing(code_place):
    with vendor(number(7), "no change at all", number(3), number(9), number(8)) as server:
        task(code_place, evolver(server, input_usd=1.0, output_usd=1.0))
        code_place.loopty("optimize")
        played = table("models.near", provider="recorded", file=".git/loopty/calls")
        task(
            code_place,
            played + table("roles.evolver", model="near") + table("proposer", kind="llm-code", operators=["diff"]),
        )
        code_place.loopty("optimize", "--new-run")
    assert len(server.requests) == 5
    assert found(code_place, 2) == found(code_place, 1)
    spent = code_place.json("spend")
    assert (spent["run"], spent["total"]["calls"], spent["total"]["money_usd"]) == (2, 5, 0.0)
