"""The second stage of a search: its members are read-only, and each search has its own."""

from loopty.record.frozen_pools import FrozenPool

TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 30
files = ["bench.sh"]
[access]
write = ["src/**"]
[parameters.x]
type = "int"
low = 0
high = 99
[pools]
attempts = 3
[noise]
repeat = "never"
[combine]
attempts = 2
members = 3
[combine.parameters.y]
type = "int"
low = 0
high = 99
"""
# A combination adds to its own parameter the sum of what the members published. It starts no process.
BENCH = """read -r line < $LOOPTY_PARAMS
x=${line##*: }; x=${x%\\}}
if [ -e loopty-pool/pool.json ]; then
  for file in loopty-pool/*/value; do read -r value < $file; x=$((x + value)); done
  (: > loopty-pool/mine) 2> /dev/null && exit 9
PUBLISH
fi
echo "{\\"score\\": $x}" > $EVO_RESULT_PATH
"""
PUBLISH = "else echo $x > $LOOPTY_ARTIFACTS_DIR/value"


def write_task(place, publish=PUBLISH, task=TASK):
    place.write("bench.sh", BENCH.replace("PUBLISH", publish))
    place.write("src/a", "a\n")
    place.write("loopty.toml", task)
    place.commit()


def test_nothing_is_combined_where_nothing_was_published(place):
    write_task(place, publish="")
    done = place.loopty("optimize", "--quiet")
    assert "write files to $LOOPTY_ARTIFACTS_DIR" in done.stderr
    assert list(place.history().runs) == [1]


def test_each_search_has_a_second_stage_of_its_own(place):
    write_task(place, task=TASK.replace("[combine]", "[combine]\npatience = 99"))
    place.loopty("optimize", "--quiet")
    pool = FrozenPool.of(place.history().runs[2])
    assert pool.base == 1
    scores = [member.score for member in pool.members]
    assert 2 <= len(scores) <= 3
    status = place.json("status", "--run", "2")
    assert status["best"]["score"] >= sum(scores), "the members' values were summed"
    # A new search in the same place freezes a pool of its own.
    place.loopty("optimize", "--quiet", "--new-run")
    assert [FrozenPool.of(run).base for run in place.history().runs.values()] == [0, 1, 0, 3]
