"""Another machine is another cohort. Without a sandbox the fingerprint differs, as on another machine."""

from loopty.domain.trial import Pool
from loopty.record.trials import Cohorts, TrialCounts
from loopty.record.verdicts import Incumbents

UNSAFE = "--unsafe-no-sandbox"


def test_a_run_does_not_continue_where_results_would_not_be_comparable(parameter_place):
    place = parameter_place
    place.loopty("optimize", "--quiet")
    place.write("loopty.toml", (place.top / "loopty.toml").read_text().replace("attempts = 8", "attempts = 12"))
    refused = place.loopty("optimize", "--quiet", UNSAFE, code=2)
    assert "under other conditions" in refused.stderr
    assert "sandbox" in refused.stderr
    assert "loopty measure rebaseline" in refused.stderr
    assert TrialCounts.of(place.history().runs[1], Pool.ATTEMPT).started == 8


def test_the_incumbent_is_measured_here_and_the_run_continues(parameter_place):
    place = parameter_place
    place.loopty("optimize", "--quiet")
    best = place.json("best")["id"]
    here = Cohorts.of(place.history().runs[1]).fingerprint
    moved = place.json("rebaseline", UNSAFE)
    assert moved["incumbent"] == best
    assert moved["fingerprint"] != here
    assert moved["machine"]["sandbox"] == "unsafe"
    place.write("loopty.toml", (place.top / "loopty.toml").read_text().replace("attempts = 8", "attempts = 12"))
    place.loopty("optimize", "--quiet", UNSAFE)
    run = place.history().runs[1]
    assert TrialCounts.of(run, Pool.ATTEMPT).started == 12
    assert set(Incumbents.of(run, Pool.ATTEMPT).by_fingerprint) == {here, moved["fingerprint"]}
    assert place.loopty("optimize", "--quiet", code=2).stderr.count("under other conditions") == 1


def test_a_killed_rebaseline_continues_where_it_was(parameter_place):
    place = parameter_place
    place.loopty("optimize", "--quiet")
    process = place.start("rebaseline", UNSAFE)
    process.kill()
    process.communicate()
    assert place.json("rebaseline", UNSAFE)["incumbent"] == place.json("best")["id"]
    node = place.history()[place.history().runs[1].root]
    assert len(node.result(Cohorts.of(place.history().runs[1]).fingerprint).samples) == 3


def test_before_the_first_run_there_is_nothing_to_rebaseline(parameter_place):
    assert "nothing has run here yet" in parameter_place.loopty("rebaseline", code=2).stderr
