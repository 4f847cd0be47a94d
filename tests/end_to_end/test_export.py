"""A winner is exported as an artifact and measured again in another place."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from loopty.record.trials import Cohorts

from .conftest import CODE_TASK, NUMBER_BENCH, PARAMETER_TASK, Place
from .serving import model, table, vendor

NOISY = 'echo "{\\"score\\": $(cat src/x.txt).$(od -An -N1 -tu1 /dev/urandom | tr -d " ")}" > "$EVO_RESULT_PATH"\n'


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A repository with a better node, 1.1."""
    place = Place(tmp_path_factory.mktemp("measured"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    place.commit()
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1", "-m", "six is more")
    (place.top / made["workspace"] / "src/x.txt").write_text("6\n")
    (place.top / made["workspace"] / "src/raw.bin").write_bytes(b"\0\xff\r\n")
    place.loopty("run", "1.1")
    return place


@pytest.fixture
def won(measured, tmp_path):
    return Place(shutil.copytree(measured.top, tmp_path / "repo"))


@pytest.fixture
def elsewhere(tmp_path):
    """An empty directory outside any repository."""
    place = Place(tmp_path / "elsewhere")
    place.top.mkdir()
    return place


def rewrite_sums(folder: Path) -> None:
    """Rewrite the checksums, as a careful tamperer would."""
    names = sorted(p.name for p in folder.iterdir() if p.name != "SHA256SUMS")
    lines = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text("".join(lines))


def restated(folder: Path, **changes) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    rewrite_sums(folder)


def test_the_best_node_is_packed_into_one_file_below_the_state_folder(won, elsewhere):
    output = won.loopty("export", "node", "best").stdout
    assert output.startswith(f"{won.top}/.git/loopty/artifacts/loopty-1.1.tar.gz holds @2, digest ")
    result = won.json("export", "node", "1.1", "--to", str(elsewhere.top / "w"))
    assert result["path"] == str(elsewhere.top / "w")
    assert result["digest"].startswith(output.split()[-1])
    manifest = json.loads((elsewhere.top / "w/manifest.json").read_text())
    found = won.history()["1.1"]
    assert manifest["node"] == "1.1"
    assert manifest["tree"] == found.tree
    assert manifest["outcome"]["metrics"] == {"score": 6.0}
    assert manifest["outcome"]["fingerprint"] == found.outcome.fingerprint
    assert manifest["machines"] == {
        found.outcome.fingerprint: dict(Cohorts.of(won.history().run).machines[found.outcome.fingerprint])
    }
    assert manifest["benchmark"] == won.history().run.benchmark


def test_an_artifact_replays_outside_its_repository(won, elsewhere):
    won.loopty("export", "node", "best", "--to", str(elsewhere.top / "winner.tar.gz"))
    shutil.rmtree(won.top)
    output = elsewhere.loopty("replay", "winner.tar.gz").stdout
    assert output == "1.1 reproduced\n  score: 6 (3 times) then, 6 now\n"
    result = elsewhere.json("replay", "./winner.tar.gz")
    assert result["same"] is True
    assert result["samples"] == [{"score": 6.0}]
    assert [entry.name for entry in elsewhere.top.iterdir()] == ["winner.tar.gz"]


def test_a_folder_replays_like_a_tarball_and_can_be_kept(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "loopty-1.1"))
    assert "reproduced" in elsewhere.loopty("replay", "loopty-1.1", "--keep", "kept").stdout
    kept = Place(elsewhere.top / "kept")
    assert (kept.top / "src/x.txt").read_text() == "5\n"
    assert kept.git("show", "winner:src/x.txt") == "6\n"
    assert (kept.top / ".loopty/nodes/1.1/replay-1/result.json").exists()
    assert "already a repository" in elsewhere.loopty("replay", "loopty-1.1", "--keep", "kept", code=2).stderr


def test_a_baseline_can_be_an_artifact(won, elsewhere):
    won.loopty("export", "node", "1", "--to", str(elsewhere.top / "baseline.tar.gz"))
    assert (
        elsewhere.loopty("replay", "baseline.tar.gz").stdout == "1 reproduced\n  score: 5 (3 times) then, 5 now\n"
    )


def test_an_artifact_includes_parameters_and_seed(place, elsewhere):
    pattern = 's/.*"x": *\\([0-9.e-]*\\).*/{"score": \\1, "tasks": {"seed": \'$LOOPTY_SEED\'}}/'
    line = f"sed '{pattern}' $LOOPTY_PARAMS > $EVO_RESULT_PATH"
    place.write("loopty.toml", "seed = 11\n" + PARAMETER_TASK.format(attempts=4, command=json.dumps(line)))
    place.commit()
    place.loopty("optimize", "--quiet")
    best = place.json("best")
    place.loopty("export", "node", "best", "--to", str(elsewhere.top / "w"))
    assert json.loads((elsewhere.top / "w/params.json").read_text()) == best["params"]
    result = elsewhere.json("replay", "./w")
    assert result["same"] is True
    assert result["now"]["metrics"] == {"score": best["params"]["x"], "tasks.seed": 11.0}


def test_a_task_file_that_git_ignores_is_exported_too(place, elsewhere):
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write(".git/info/exclude", "loopty.toml\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    place.commit()
    place.loopty("run", "1")
    place.loopty("export", "node", "1", "--to", str(elsewhere.top / "w"))
    assert "reproduced" in elsewhere.loopty("replay", "./w").stdout
    place.write("loopty.toml", CODE_TASK.format(attempts=8).replace("20", "30"))
    assert "restore the old one" in place.loopty("export", "node", "1", code=2).stderr


def test_an_artifact_includes_the_gates_added_to_the_node(won, elsewhere):
    won.loopty("gate", "add", "1.1", "--name", "modest", "--metric", "score", "--maximum", "5.5")
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w"))
    output = elsewhere.loopty("replay", "./w", code=1).stdout
    assert output.startswith("1.1 differs: refused: gate modest")


def test_another_score_is_reported_with_its_difference(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w"))
    outcome = json.loads((elsewhere.top / "w/manifest.json").read_text())["outcome"]
    restated(elsewhere.top / "w", outcome={**outcome, "metrics": {"score": 8.0}}, samples=[{"score": 8.0}])
    output = elsewhere.loopty("replay", "./w", code=1).stdout
    assert output == "1.1 differs\n  score: 8 then, 6 now (-25.0 %)\n"


def test_a_changed_benchmark_is_reported_even_with_the_same_score(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w"))
    source = Place(elsewhere.top / "source")
    source.top.mkdir()
    source.git("init", "-q", "-b", "baseline")
    source.git("pull", "-q", str(elsewhere.top / "w/source.bundle"), "baseline")
    source.write("bench.sh", "sleep 0\n" + NUMBER_BENCH)
    source.commit("a kinder benchmark")
    source.git("checkout", "-q", "-b", "winner")
    source.write("src/x.txt", "6\n")
    source.commit("the same change")
    source.git("bundle", "create", "-q", str(elsewhere.top / "w/source.bundle"), "--all")
    rewrite_sums(elsewhere.top / "w")
    output = elsewhere.loopty("replay", "./w", code=1).stdout
    assert output.startswith("1.1 differs\n")
    assert "\n  tree: " in output
    assert "\n  baseline's tree: " in output
    assert "\n  benchmark files: " in output
    assert output.endswith("  score: 6 (3 times) then, 6 now\n")


def test_another_machine_is_reported_but_is_not_a_difference_by_itself(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w"))
    manifest = json.loads((elsewhere.top / "w/manifest.json").read_text())
    facts = {**manifest["machines"][manifest["outcome"]["fingerprint"]], "cpu": "an abacus\x1b[2J"}
    outcome = {**manifest["outcome"], "fingerprint": "0" * 12}
    restated(elsewhere.top / "w", machines={"0" * 12: facts}, outcome=outcome)
    output = elsewhere.loopty("replay", "./w").stdout
    assert output.startswith("1.1 reproduced\n  cpu: an abacus")
    assert "\x1b" not in output


def test_noise_within_the_recorded_spread_is_not_a_difference(place, elsewhere):
    place.write("bench.sh", NOISY)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    place.commit()
    place.loopty("run", "1")
    place.loopty("export", "node", "1", "--to", str(elsewhere.top / "w"))
    restated(elsewhere.top / "w", samples=[{"score": 5.1}, {"score": 5.9}])
    output = elsewhere.loopty("replay", "./w", "--repeats", "3").stdout
    assert "1 reproduced\n" in output
    assert " in 3)" in output
    restated(elsewhere.top / "w", samples=[{"score": 7.1}, {"score": 7.2}])
    elsewhere.loopty("replay", "./w", "--repeats", "3", code=1)


def test_an_artifact_gets_access_to_the_machine_only_with_trust(place, elsewhere):
    secret = elsewhere.top / "secret"
    secret.write_text("7\n")
    place.write("bench.sh", f'echo "{{\\"score\\": $(cat {secret})}}" > "$EVO_RESULT_PATH"\n')
    place.write("src/x.txt", "5\n")
    mounts = f'timeout_seconds = 20\nnetwork = true\nmounts = ["{secret}"]'
    place.write("loopty.toml", CODE_TASK.format(attempts=8).replace("timeout_seconds = 20", mounts))
    place.commit()
    place.loopty("run", "1")
    place.loopty("export", "node", "1", "--to", str(elsewhere.top / "w"))
    output = elsewhere.loopty("replay", "./w", code=2).stderr
    assert "the network" in output
    assert str(secret) in output
    assert "--trust" in output
    assert "reproduced" in elsewhere.loopty("replay", "./w", "--trust").stdout


def test_an_artifact_chooses_no_model(place, elsewhere, monkeypatch):
    """The benchmark's model belongs to whoever replays: an artifact names no address."""
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    with vendor() as server:
        own = model(server)
        place.write("loopty.toml", CODE_TASK.format(attempts=8) + own + table("roles.user", model="near"))
        place.commit()
        place.loopty("run", "1")
        place.loopty("export", "node", "1", "--to", str(elsewhere.top / "w"))
        for trust in ((), ("--trust",)):
            refused = elsewhere.loopty("replay", "./w", *trust, code=2).stderr
            assert f"{server.url}/v1" in refused
            assert "config.toml" in refused
        monkeypatch.setenv("XDG_CONFIG_HOME", str(elsewhere.top / "config"))
        elsewhere.write("config/loopty/config.toml", own)
        assert "reproduced" in elsewhere.loopty("replay", "./w").stdout
        assert not server.requests


def test_data_outside_the_artifact_is_required_and_compared(place, elsewhere):
    place.write(".gitignore", "gold/\n")
    place.write("gold/answer", "4")
    place.write("bench.sh", 'echo "{\\"score\\": $(cat gold/answer)}" > "$EVO_RESULT_PATH"\n')
    place.write("src/x.txt", "5\n")
    data = 'timeout_seconds = 20\ndata = ["gold"]'
    place.write("loopty.toml", CODE_TASK.format(attempts=8).replace("timeout_seconds = 20", data))
    place.commit()
    place.loopty("run", "1")
    place.loopty("export", "node", "1", "--to", str(elsewhere.top / "w"))
    assert "your 'gold'" in elsewhere.loopty("replay", "./w", code=2).stderr
    assert "--keep" in elsewhere.loopty("replay", "./w", "--trust", "--keep", "new", code=2).stderr
    assert not (elsewhere.top / "new").exists()
    elsewhere.write("same/gold/answer", "4")
    assert "reproduced" in elsewhere.loopty("replay", "./w", "--trust", "--keep", "same").stdout
    elsewhere.write("other/gold/answer", "4 ")
    output = elsewhere.loopty("replay", "./w", "--trust", "--keep", "other", code=1).stdout
    assert output.startswith("1 differs\n  benchmark data: ")


def test_there_must_be_something_to_export(won):
    made = won.json("new", "--parent", "1.1")
    assert "`loopty run" in won.loopty("export", "node", made["node"], code=2).stderr
    assert "no node 9.9" in won.loopty("export", "node", "9.9", code=2).stderr


def test_nothing_is_overwritten_without_force(won, elsewhere):
    won.loopty("export", "node", "1.1")
    first = (won.state / "artifacts/loopty-1.1.tar.gz").read_bytes()
    assert "--force" in won.loopty("export", "node", "1.1", code=2).stderr
    won.loopty("export", "node", "1.1", "--force")
    assert (won.state / "artifacts/loopty-1.1.tar.gz").read_bytes() == first
    assert "--to" in won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "no/such"), code=2).stderr


@pytest.mark.parametrize("path", ["none.tar.gz", "./none", "here.txt"])
def test_a_path_without_an_artifact_is_reported_in_one_line(elsewhere, path):
    elsewhere.write("here.txt", "not one")
    output = elsewhere.loopty("replay", path, code=2).stderr
    assert "artifact" in output
    assert output.count("\n") == 1


def test_a_tampered_artifact_is_refused_and_nothing_of_it_runs(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w"))
    (elsewhere.top / "w/result.json").write_text('{"score": 1000}')
    output = elsewhere.loopty("replay", "./w", code=2).stderr
    assert "SHA256SUMS" in output
    assert output.count("\n") == 1


def test_a_replay_that_is_killed_leaves_the_artifact_and_runs_again(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w.tar.gz"))
    before = (elsewhere.top / "w.tar.gz").read_bytes()
    rng = random.Random(2)
    for _ in range(4):
        process = elsewhere.start("replay", "w.tar.gz")
        time.sleep(rng.uniform(0.1, 0.8))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert (elsewhere.top / "w.tar.gz").read_bytes() == before
    assert "reproduced" in elsewhere.loopty("replay", "w.tar.gz").stdout


def test_a_full_disk_fails_a_kept_replay_in_one_line_and_leaves_the_artifact(won, elsewhere):
    won.loopty("export", "node", "1.1", "--to", str(elsewhere.top / "w.tar.gz"))
    disk = elsewhere.top / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("only root can make a small disk")
    try:
        output = elsewhere.loopty("replay", "w.tar.gz", "--keep", "disk/kept", code=2).stderr
        assert output.count("\n") == 1
    finally:
        subprocess.run(["umount", disk], check=True)
    assert "reproduced" in elsewhere.loopty("replay", "w.tar.gz").stdout
