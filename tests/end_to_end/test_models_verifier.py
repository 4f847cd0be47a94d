"""The verifier through the command line: it reviews and compares, and can only object."""

import json

from loopty.domain.trial import Pool
from loopty.record.verdicts import Incumbents

from .conftest import CODE_TASK, NUMBER_BENCH, Place
from .serving import model, number, table, vendor, words


def verdict(**fields) -> str:
    return json.dumps({"reasoning": "I looked at it.", **fields})


def verified(place: Place, proposing, verifying, attempts: int, seen: int = 128_000, **verifier) -> None:
    place.write(
        "loopty.toml",
        CODE_TASK.format(attempts=attempts)
        + model(proposing)
        + model(verifying, "judge", context_tokens=seen)
        + table("roles.evolver", model="near")
        + table("roles.verifier", model="judge")
        + table("proposer", kind="llm-code")
        + table("verifier", **verifier),
    )


def review(asked: str) -> str:
    if "+9" in asked:
        return verdict(breaks=["rule 2: no nines"], verdict="fail")
    return verdict(breaks=[], verdict="pass")


def test_a_winner_that_breaks_a_rule_is_rejected(code_place):
    with vendor(number(7), number(9), number(8)) as proposing, vendor(review) as verifying:
        verified(code_place, proposing, verifying, 3, review="reject", rules="No nines.")
        done = code_place.loopty("optimize")
    assert "No nines." in words(verifying.requests[0].body)
    history = code_place.history()
    assert [history[node].verdict for node in ("1.1", "1.2", "1.3")] == ["kept", "rejected", "kept"]
    assert Incumbents.of(history.run, Pool.ATTEMPT).best == "1.3", "although 1.2 has the better score"
    assert "rejected @3: the verifier: rule 2: no nines" in done.stderr
    assert code_place.json("status")["verified"] == {
        "passed": 2,
        "disagreements": 1,
        "rejected": 1,
        "unreviewed": 0,
    }
    shown = " ".join(code_place.loopty("status").stdout.split())
    assert "3 winners reviewed, disagreed with the metric on 1 (1 rejected)" in shown
    calls = {row["name"]: row["sum"]["calls"] for row in code_place.json("spend", "--by", "operator")["operator"]}
    assert calls["review"] == 3


def test_a_verifier_with_a_small_context_sees_as_much_as_fits_and_its_verdict_says_so(code_place):
    code_place.write("bench.sh", NUMBER_BENCH.replace("cat", "head -n 1"))
    code_place.commit()
    long = number("7\n" + "12345\n" * 2_000)
    with vendor(long) as proposing, vendor(review) as verifying:
        verified(code_place, proposing, verifying, 1, seen=2_048, review="reject")
        code_place.loopty("optimize")
    (request,) = verifying.requests
    assert "characters left out" in words(request.body)
    assert len(words(request.body)) < 4 * 2_048
    found = code_place.history()["1.1"].review
    assert found.passed
    assert "characters of the change)" in found.reason


def test_a_verifier_with_too_small_a_context_is_refused_before_anything_is_paid(code_place):
    with vendor() as proposing, vendor() as verifying:
        verified(code_place, proposing, verifying, 1, seen=700, review="reject")
        refused = code_place.loopty("optimize", code=2)
    assert "raise context_tokens of the model" in refused.stderr
    assert not proposing.requests
    assert not verifying.requests


JUDGED = """
[[verifier.judged]]
name = "taste"
artifact = "task_out.json"
question = "Which number is rounder?"
comparisons = 4
[[objective.metrics]]
name = "taste"
direction = "max"
tolerance = 0.1
[[objective.metrics]]
name = "score"
direction = "max"
"""
LEAVES = 'echo "{\\"out\\": $(cat src/x.txt)}" > "$EVO_TRACES_DIR/task_out.json"\n' + NUMBER_BENCH


def prefers(asked: str) -> str:
    """Prefers the result with an eight in either position, otherwise the first one."""
    if "keep the rules" in asked:
        return verdict(breaks=["rule 1: it is too round"], verdict="fail")
    first, second = asked.index('"out": 8') if '"out": 8' in asked else -1, asked.index("result B")
    return verdict(better="A" if first < second else "B")


def test_a_judged_metric_does_not_depend_on_the_order_and_a_flagged_winner_stays(code_place):
    code_place.write("bench.sh", LEAVES)
    code_place.commit()
    with vendor(number(8), number(9)) as proposing, vendor(prefers) as verifying:
        verified(code_place, proposing, verifying, 2, review="flag")
        code_place.write("loopty.toml", (code_place.top / "loopty.toml").read_text() + JUDGED)
        code_place.loopty("optimize")
    history = code_place.history()
    eight, nine = (history[node].outcome.metrics for node in ("1.1", "1.2"))
    assert (eight["taste"], eight["taste swaps"]) == (1.0, 0.0)
    assert (nine["taste"], nine["taste swaps"]) == (0.5, 1.0), (
        "a verifier that always prefers the first result prefers neither"
    )
    assert [history[node].verdict for node in ("1.1", "1.2")] == ["kept", "discarded"]
    assert "the verifier objects: rule 1: it is too round" in history["1.1"].reason
    compared = [words(request.body) for request in verifying.requests if "rounder" in words(request.body)]
    assert len(compared) == 8
    orders = [text.index('"out": 5') < text.index("result B") for text in compared]
    assert [first != second for first, second in zip(orders[::2], orders[1::2], strict=True)] == [True] * 4
    assert code_place.json("status")["verified"]["disagreements"] == 1
