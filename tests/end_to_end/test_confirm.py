"""The stated gain is that of fresh pairs, and a leap waits for a person."""

import json

from loopty.domain.trial import Pool
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import Confirmation

from .conftest import PARAMETER_TASK

NOISY_X = (
    "import json, os, random; "
    "x = json.load(open(os.environ['LOOPTY_PARAMS']))['x']; "
    "json.dump({'score': 10 + x + random.gauss(0, 0.01)}, open(os.environ['EVO_RESULT_PATH'], 'w'))"
)


def noisy_place(place, confirm):
    command = json.dumps(f'python3 -c "{NOISY_X}"')
    place.write(
        "loopty.toml", PARAMETER_TASK.format(attempts=4, command=command) + f"[noise]\nconfirm = {confirm}\n"
    )
    place.commit()
    return place


def test_a_run_ends_with_fresh_pairs_and_report_adds_more(place):
    noisy_place(place, confirm=6)
    place.loopty("optimize", "--quiet")
    status = place.json("report")["status"]
    change = status["best"]["over_baseline"]
    assert change["is_confirmed"] is True
    pairs = change["pairs"]
    assert 3 <= pairs <= 6  # fewer are enough where the gain is far above the noise
    assert change["low"] <= change["amount"] <= change["high"]
    assert f"{pairs} fresh pairs" in " ".join(place.loopty("report").stdout.split())
    place.loopty("report", "--confirm")
    assert TrialCounts.of(place.history().runs[1], Pool.CONFIRM).started == 2 * (pairs + 6)
    assert len(Confirmation.of(place.history().runs[1]).pairing.pairs_so_far) == pairs + 6


def test_without_them_the_claim_is_not_confirmed(place):
    noisy_place(place, confirm=0)
    place.loopty("optimize", "--quiet")
    assert place.json("report")["status"]["best"]["over_baseline"]["is_confirmed"] is False
    assert "(not confirmed)" in place.loopty("report").stdout
    assert "set repeat" in place.loopty("report", "--confirm", code=2).stderr


def test_nothing_that_a_candidate_sees_holds_the_secret_of_the_run(place):
    noisy_place(place, confirm=0)
    place.loopty("optimize", "--quiet")
    secret = place.history().runs[1].secret
    assert len(secret) == 32
    for verb in (["status"], ["report"], ["tree"], ["show", "1"], ["best"]):
        assert secret not in place.loopty(*verb, "--json").stdout
    for path in (place.top / ".loopty" / "nodes").rglob("*"):
        assert not path.is_file() or secret not in path.read_text(errors="replace")


def test_what_is_not_held_cannot_be_accepted(place):
    noisy_place(place, confirm=0)
    place.loopty("optimize", "--quiet")
    assert "is not held" in place.loopty("accept", "1.1", "--why", "so", code=2).stderr
