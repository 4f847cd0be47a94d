"""The second stage of a search: its members are read-only, and each search has its own."""

from loopty.record.search_summary import FrozenPool
from loopty.session import combination as combine_stage
from loopty.session.context import CampaignContext

from .serving import evolver, vendor, words

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


def test_two_processes_that_reach_the_second_stage_at_once_share_its_run(place, monkeypatch):
    search, _, combination = TASK.partition("[combine]")
    write_task(place, task=search)
    place.loopty("optimize", "--quiet")
    place.write("loopty.toml", f"{search}[combine]{combination}")
    context, other = (CampaignContext.open(place.top, print, allow=True) for _ in range(2))
    entered = []
    pool_files = combine_stage._pool_files

    def be_slower(*arguments):
        monkeypatch.setattr(combine_stage, "_pool_files", pool_files)
        entered.append(combine_stage.enter_combination(other, 1))
        return pool_files(*arguments)

    monkeypatch.setattr(combine_stage, "_pool_files", be_slower)
    entered.append(combine_stage.enter_combination(context, 1))
    assert [run for _, run in entered] == [2, 2]
    assert list(place.history().runs) == [1, 2]


def test_each_search_has_a_second_stage_of_its_own(place):
    write_task(place, task=TASK.replace("[combine]", "[combine]\npatience = 99"))
    said = place.loopty("optimize").stderr.splitlines()
    kept = [line for line in said if line.startswith("kept ")]
    assert kept
    assert len(set(kept)) == len(kept), "both stages have a progress display, each of its own"
    pool = FrozenPool.of(place.history().runs[2])
    assert pool.base == 1
    scores = [member.score for member in pool.members]
    assert 2 <= len(scores) <= 3
    status = place.json("status", "--run", "2")
    assert status["best"]["score"] >= sum(scores), "the members' values were summed"
    # A new search in the same place freezes a pool of its own.
    place.loopty("optimize", "--quiet", "--new-run")
    assert [FrozenPool.of(run).base for run in place.history().runs.values()] == [0, 1, 0, 3]
    rules = [line for line in place.loopty("report").stdout.splitlines() if line.startswith("── run")]
    assert [rule.split()[2] for rule in rules] == ["4", "3", "2", "1"], "every run, the newest first"
    assert "── run" not in place.loopty("report", "--run", "2").stdout
    assert [older["status"]["run"] for older in place.json("report")["older_runs"]] == [3, 2, 1]


MERGES = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 30
files = ["bench.sh"]
[access]
write = ["src/**"]
[pools]
attempts = 3
questions = 1
[noise]
repeat = "never"
[combine]
write = ["src/**"]
patches = true
attempts = 3
proposer = { kind = "llm-code", operators = ["merge"], drafts = 0 }
"""
SUM = 'read -r a < src/a; read -r b < src/b; echo "{\\"score\\": $((a + b))}" > $EVO_RESULT_PATH\n'


def whole_file(path, text):
    return f"=== PROPOSAL 1: {path} is {text} ===\n{path}\n```\n{text}\n```\n=== END ==="


def test_changes_are_merged_by_git_and_by_a_model_where_they_conflict(place):
    place.write("bench.sh", SUM)
    place.write("src/a", "1\n")
    place.write("src/b", "1\n")
    found = [whole_file("src/b", 7), whole_file("src/a", 6), whole_file("src/a", 5)]
    with vendor(*found, whole_file("src/a", 11)) as server:
        tables = evolver(server).replace("[proposer]", '[proposer]\nparents = "root"')
        place.write("loopty.toml", MERGES + tables)
        place.commit()
        place.loopty("optimize", "--quiet")
        asked = words(server.requests[-1].body)
    history = place.history()
    nodes = [history[node] for node in history.ids if node.run == 2]
    by_git = [node for node in nodes[1:] if not node.calls]
    by_model = [node for node in nodes if node.calls]
    assert set(nodes[0].merged) == {"1.1", "1.2", "1.3"}
    assert {node.merged for node in by_git} == {("1.2",), ("1.3",)}, "both parents of each are in the record"
    assert {history.score(node) for node in by_git} == {12.0, 13.0}
    assert {node.summary for node in by_git} == {"git merges @3: src/a", "git merges @4: src/a"}
    assert [history.score(node) for node in by_model] == [18.0]
    assert by_model[0].merged in {("1.2",), ("1.3",)}
    assert "git could not merge them" in asked
    assert "merges" in place.loopty("show", by_model[0].id).stdout
    assert place.json("status", "--run", "2")["best"]["score"] == 18.0
