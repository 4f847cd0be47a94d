"""A node made by hand: a draft that is edited, refused or run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loopty.domain.trial import Pool, Verdict
from loopty.record.nodes import Proposals

from .conftest import NUMBER_BENCH, Place
from .state import events

TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
files = ["bench.sh", "src/fixed.txt"]
[access]
write = ["src/**"]
hidden = ["src/secret.txt"]
[pools]
attempts = 3
"""
MARKED = "# top\n# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A measured baseline, with files of every kind of access."""
    place = Place(tmp_path_factory.mktemp("measured"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("src/fixed.txt", "part of the benchmark\n")
    place.write("src/secret.txt", "hidden\n")
    place.write("src/marked.py", MARKED)
    place.write("src/old/gone.txt", "to be deleted\n")
    place.write("loopty.toml", TASK)
    place.commit()
    place.loopty("run", "1")
    return place


@pytest.fixture
def hand_place(measured, tmp_path):
    return Place(shutil.copytree(measured.top, tmp_path / "repo"))


def draft(place, *args: str) -> tuple[str, Path]:
    made = place.json("new", "--parent", "1", *args)
    return made["node"], Path(made["workspace"])


def test_new_edit_run_show_diff(hand_place):
    node, folder = draft(hand_place, "-m", "six is more")
    (folder / "src/x.txt").write_text("6\n")
    assert f"  folder    {folder}\n" in hand_place.loopty("show", node).stdout
    assert hand_place.json("show", node)["workspace"] == str(folder)
    assert f"@2 is a draft: its change is not recorded yet, and its files are in {folder}" in (
        hand_place.loopty("diff", node).stderr
    )
    assert hand_place.loopty("run", node).stdout == "@2 kept: better: score 6 against 5 of @1\nintegrity: weak\n"
    assert "six is more" in hand_place.loopty("show", node).stdout
    assert "-5\n+6\n" in hand_place.loopty("diff", node).stdout
    assert not folder.exists()
    assert hand_place.json("best")["id"] == "1.1"


def test_a_draft_is_a_whole_tree_without_hidden_files(hand_place):
    _, folder = draft(hand_place)
    held = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    writable = ["src/marked.py", "src/old/gone.txt", "src/x.txt"]
    assert held == sorted(["bench.sh", "loopty.toml", "src/fixed.txt", *writable])
    _, sparse = draft(hand_place, "--sparse")
    assert sorted(str(path.relative_to(sparse)) for path in sparse.rglob("*") if path.is_file()) == writable


def outside(folder: Path) -> None:
    (folder / "setup.cfg").write_text("")


def benchmark_file(folder: Path) -> None:
    (folder / "src/fixed.txt").chmod(0o644)
    (folder / "src/fixed.txt").write_text("another benchmark\n")


def hidden_file(folder: Path) -> None:
    (folder / "src/secret.txt").write_text("guessed\n")


def outside_the_block(folder: Path) -> None:
    (folder / "src/marked.py").write_text(MARKED.replace("# top", "import os"))


def without_the_block(folder: Path) -> None:
    (folder / "src/marked.py").unlink()


def link(folder: Path) -> None:
    (folder / "src/link").symlink_to("/etc/passwd")


def link_to_a_directory(folder: Path) -> None:
    (folder / "src/link").symlink_to("/etc")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "src/pipe")


def test_a_read_only_file_of_a_draft_is_restored_by_the_line_of_the_message(hand_place):
    node, folder = draft(hand_place)
    (folder / "src/x.txt").write_text("7\n")
    (folder / "bench.sh").unlink()
    (folder / "bench.sh").write_text("exit 0\n")
    error = hand_place.loopty("run", node, "--check", code=2).stderr
    subprocess.run(error.strip().partition("restore it: ")[2], shell=True, check=True, cwd=hand_place.top)
    hand_place.loopty("run", node, "--check")


@pytest.mark.parametrize(
    ("edit", "flags", "word"),
    [
        (outside, (), "may not change setup.cfg"),
        (outside, ("--check",), "may not change setup.cfg"),
        (outside, ("--check",), "; remove it: rm "),
        (benchmark_file, (), "src/fixed.txt: it is part of the benchmark"),
        (hidden_file, (), "may not change src/secret.txt"),
        (outside_the_block, (), "src/marked.py"),
        (without_the_block, (), "src/marked.py"),
        (link, (), "src/link"),
        (link_to_a_directory, (), "src/link"),
        (pipe, (), "src/pipe"),
    ],
)
def test_a_draft_with_a_refused_edit_can_be_corrected(hand_place, edit, flags, word):
    node, folder = draft(hand_place)
    (folder / "src/x.txt").write_text("7\n")
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    edit(folder)
    recorded = events(hand_place)
    error = hand_place.loopty("run", node, *flags, code=2).stderr
    assert word in error
    assert error.count("\n") == 1
    assert events(hand_place) == recorded
    for path in list(folder.rglob("*")):
        if path.is_symlink() or not (path in before or path.is_dir()):
            path.unlink()
    for path, content in before.items():
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    assert hand_place.json("run", node)["verdict"] == "kept"


def test_files_can_be_added_deleted_and_binary(hand_place):
    node, folder = draft(hand_place)
    raw = bytes(range(256)) * 3
    (folder / "src/new/deep").mkdir(parents=True)
    (folder / "src/new/deep/raw.bin").write_bytes(raw)
    (folder / "src/old/gone.txt").unlink()
    (folder / "src/__pycache__").mkdir()
    (folder / "src/__pycache__/x.pyc").write_bytes(b"left over")
    hand_place.loopty("run", node)
    changed = hand_place.git("diff", "--name-status", *map(hand_place.commit_of, ("1", node)))
    assert changed.split() == ["A", "src/new/deep/raw.bin", "D", "src/old/gone.txt"]
    (hand_place.top / "raw.patch").write_text(hand_place.loopty("diff", node).stdout)
    hand_place.git("apply", "raw.patch")
    assert (hand_place.top / "src/new/deep/raw.bin").read_bytes() == raw
    assert not (hand_place.top / "src/old/gone.txt").exists()


def test_a_second_run_reports_that_the_node_has_its_verdict(hand_place):
    node, folder = draft(hand_place)
    (folder / "src/x.txt").write_text("4\n")
    hand_place.loopty("run", node)
    assert "has its verdict (discarded)" in hand_place.loopty("run", node, code=2).stderr
    assert hand_place.history()[node].trials == 1


def test_a_check_of_a_draft_measures_and_changes_no_state(hand_place):
    node, folder = draft(hand_place)
    (folder / "src/x.txt").write_text("9\n")
    recorded, refs = events(hand_place), hand_place.git("for-each-ref")
    assert hand_place.loopty("run", node, "--check").stdout == "score 9\n"
    (folder / "src/x.txt").write_text("oops\n")
    assert "not valid JSON" in hand_place.loopty("run", node, "--check", code=1).stderr
    assert hand_place.json("run", "1", "--check")["metrics"] == {"score": 5.0}
    assert events(hand_place) == recorded
    assert hand_place.git("for-each-ref") == refs
    assert (folder / "src/x.txt").read_text() == "oops\n"


def test_a_spent_budget_is_reported_before_the_draft_is_closed(hand_place):
    drafts = [draft(hand_place) for _ in range(4)]
    for count, (node, folder) in enumerate(drafts[:3]):
        (folder / "src/x.txt").write_text(f"{count}\n")
        hand_place.loopty("run", node)
    node, folder = drafts[3]
    (folder / "src/x.txt").write_text("8\n")
    assert "[budget]" in hand_place.loopty("run", node, code=2).stderr
    assert (folder / "src/x.txt").read_text() == "8\n"
    assert hand_place.history()[node].draft
    hand_place.write("loopty.toml", TASK.replace("attempts = 3", "attempts = 4"))
    assert hand_place.json("run", node)["verdict"] == "kept"


def test_the_baseline_is_measured_before_a_node(code_place):
    node, folder = draft(code_place)
    assert "changes nothing" in code_place.loopty("run", node, code=2).stderr, "before the baseline is measured"
    (folder / "src/x.txt").write_text("4\n")
    assert "measuring the baseline @1 first: @2 is compared with it" in code_place.loopty("run", node).stderr
    history = code_place.history()
    assert history["1"].outcome.is_finished
    assert history[node].against == "1"


def test_no_node_runs_and_the_draft_stays_when_the_baseline_failed(code_place):
    code_place.write("bench.sh", "exit 3\n")
    node, folder = draft(code_place)
    (folder / "src/x.txt").write_text("4\n")
    assert "fix it" in code_place.loopty("run", node, code=2).stderr
    assert folder.is_dir()


def test_when_two_processes_run_one_draft_one_is_refused(hand_place):
    node, folder = draft(hand_place)
    (folder / "src/x.txt").write_text("6\n")
    both = [hand_place.start("run", node), hand_place.start("run", node)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], errors
    assert any("is running already" in err or "has its verdict" in err for err in errors)
    assert hand_place.history()[node].verdict is Verdict.KEPT


def test_parameters_by_hand(parameter_place):
    parameter_place.loopty("run", "1")
    node, _ = draft(parameter_place, "--param", "x=0.75")
    assert parameter_place.json("run", node)["outcome"]["metrics"] == {"score": 0.75}
    for wrong, reason in {"x=2": "x cannot be 2", "x=NaN": "x cannot be nan", "y=1": "no parameter y"}.items():
        assert reason in parameter_place.loopty("new", "--parent", "1", "--param", wrong, code=2).stderr
    history = parameter_place.history()
    assert Proposals.of(history.run, Pool.ATTEMPT).nodes == 1


def test_a_message_may_hold_any_bytes(hand_place):
    node, folder = draft(hand_place, "-m", "\x1b[31mred\nsecond line \udcff ü")
    (folder / "src/x.txt").write_text("4\n")
    hand_place.loopty("run", node)
    shown = hand_place.loopty("tree").stdout + hand_place.loopty("show", node).stdout
    assert "red second line" in shown
    assert "\x1b" not in shown


def test_line_ends_that_git_converts_are_not_edits(code_place):
    code_place.write(".gitattributes", "src/*.txt text eol=crlf\n")
    code_place.write("bench.sh", NUMBER_BENCH.replace("cat src/x.txt", "tr -d '\\r' < src/x.txt"))
    code_place.commit()
    code_place.loopty("run", "1")
    node, _ = draft(code_place)
    assert "changes nothing of @1" in code_place.loopty("run", node, code=2).stderr


def test_a_trial_without_the_metric_that_counts_is_a_failure(code_place):
    toml = (code_place.top / "loopty.toml").read_text()
    code_place.write("loopty.toml", toml + '[[objective.metrics]]\nname = "accuracy"\n')
    done = code_place.loopty("run", "1", code=1)
    assert "did not report accuracy" in done.stdout


DIES_AFTER_SEALING = """
import os, sys
from pathlib import Path
from loopty.session import drafts as draft_files, hand_decisions
from loopty.session.context import CampaignContext
from loopty.domain.ids import NodeId
context = CampaignContext.open(Path.cwd(), print)
node = context.history[NodeId(sys.argv[1])]
files = draft_files.sealable_files(context, node, lambda _: None)
context.recorder.record(lambda history: hand_decisions.seal_node(history, node.id, files))
os._exit(9)
"""


def test_a_node_whose_process_died_after_it_was_sealed_is_kept_and_gets_its_folder(code_place):
    code_place.loopty("run", "1")
    made = code_place.json("new", "--parent", "1")
    (code_place.top / made["workspace"] / "src/x.txt").write_text("9\n")
    died = subprocess.run([sys.executable, "-c", DIES_AFTER_SEALING, made["node"]], cwd=code_place.top)
    assert died.returncode == 9
    assert code_place.commit_of("1.1") not in code_place.held_commits()
    code_place.loopty("run", made["node"])
    node = code_place.history()[made["node"]]
    assert node.commit in code_place.held_commits()
    assert "+9" in (code_place.top / ".loopty/nodes/1.1/change.diff").read_text()


def test_an_empty_draft_is_refused_before_it_costs_an_attempt(hand_place):
    node, folder = draft(hand_place)
    recorded = events(hand_place)
    refused = hand_place.loopty("run", node, code=2).stderr
    assert "@2 changes nothing of @1" in refused
    assert "`loopty draft drop @2`" in refused
    assert events(hand_place) == recorded
    assert folder.exists()


def test_a_twin_of_another_node_is_refused_and_named(hand_place):
    for expected in (0, 2):
        node, folder = draft(hand_place)
        (folder / "src/x.txt").write_text("6\n")
        refused = hand_place.loopty("run", node, code=expected).stderr
    assert "@3 is the same as @2 (kept), which `loopty measure replay @2` measures again" in refused
    assert hand_place.history()["1.2"].draft


def test_a_dropped_draft_is_gone_and_its_id_stays(hand_place):
    node, folder = draft(hand_place)
    assert hand_place.loopty("drop", node).stdout == "dropped @2\n"
    assert not folder.exists()
    again = hand_place.json("drop", node)
    assert again == {"node": "1.1", "handle": 2, "dropped": True}, "doing it again changes nothing"
    assert "was dropped: make a new one with `loopty draft new`" in hand_place.loopty("run", node, code=2).stderr
    assert "was dropped" in hand_place.loopty("new", "--parent", node, code=2).stderr
    assert "dropped" in hand_place.loopty("tree").stdout
    assert "is not a draft (kept)" in hand_place.loopty("drop", "1", code=2).stderr
    assert draft(hand_place)[0] == "1.2"
