"""Tune mode, from the task file to the report."""

import csv

TASK = """
seed = 3
[benchmark]
command = "sh bench.sh"
timeout_seconds = 30
[access]
write = ["src/**"]
[parameters.x]
type = "int"
low = 0
high = 9
[tune]
slice = "dev"
trials = 4
[pools]
attempts = 2
[proposer]
kind = "mutate"
"""
# It starts no process, so that it is fast. The slice has another scale, which no ranking may see.
BENCH = """read -r line < $LOOPTY_PARAMS
x=${line##*: }; x=${x%\\}}
[ "$LOOPTY_MODE$LOOPTY_SLICE" = tunedev ] && x=$((x + 1000))
[ "$LOOPTY_MODE" = attempt ] && [ -n "$LOOPTY_SLICE" ] && exit 9
echo "{\\"score\\": $x}" > $EVO_RESULT_PATH
"""


def test_a_code_change_is_tuned_and_only_the_promoted_point_is_an_attempt(place):
    place.write("bench.sh", BENCH)
    place.write("src/a.py", "rate = 0.5\ncount = 12\nother = rate * count\n")
    place.write("loopty.toml", TASK)
    place.commit()
    place.loopty("optimize", "--quiet")
    status = place.json("status")
    counts = {count["pool"]: count for count in status["counts"]}
    assert (counts["attempt"]["started"], counts["tune"]["started"]) == (2, 8)
    assert status["tuning"]["tuned"] == 2
    assert status["best"]["score"] <= 9, "no score of the slice is ranked"
    text = place.loopty("status").stdout
    assert "slice dev: 2 nodes tuned" in text
    assert "rarely pays" in text, "the slice costs as much as a trial"
    shown = place.json("show", "1.1")
    assert shown["tuned"]["trials"] == 4
    assert shown["tuned"]["score"] - 1000 == shown["params"]["x"]
    assert "4 tune trials on slice dev" in place.loopty("show", "1.1").stdout
    assert "slice dev: 2 nodes tuned" in place.loopty("report").stdout
    place.loopty("export", "trials", "trials.csv")
    with (place.top / "trials.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["pool"] == "tune"]
    assert [float(row["metric.score"]) - 1000 == float(row["param.x"]) for row in rows] == [True] * 8
