"""What a trial sees, and what it may do."""

import json

import pytest

TASK = """
seed = 11
[benchmark]
command = ["python3", "bench.py", "one argument"]
files = ["bench.py", "answers/**"]
timeout_seconds = 20
scratch = ["build", "made/deep"]
env = { MINE = "given" }
[access]
write = ["src/**"]
read = ["docs/**"]
hidden = ["answers/**", "docs/secret.txt", "src/secret.txt"]
[parameters.depth]
type = "int"
low = 1
high = 9
default = 4
[pools]
attempts = 0
"""
BENCH = """\
import json, os, pathlib, socket, sys
from loopty_sdk import Run

def refused(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return None

def written(path):
    return lambda: pathlib.Path(path).write_text("x")

def connected(address):
    return lambda: socket.create_connection((address, 53), timeout=2).close()

seen = {
    "argv": sys.argv[1:],
    "cwd": os.getcwd(),
    "env": dict(os.environ),
    "files": sorted(os.path.relpath(os.path.join(d, n)) for d, _, names in os.walk(".") for n in names),
    "refused": {path: refused(written(path)) for path in (
        "new.txt", "src/x.txt", "bench.py", "build/out", "made/deep/out", "/tmp/out", "/etc/out",
        os.environ["EVO_TRACES_DIR"] + "/task_y.json", os.environ["LOOPTY_PARAMS"],
    )},
    "network": [refused(connected("1.1.1.1")), refused(lambda: socket.getaddrinfo("example.org", 80))],
    "interfaces": [name for _, name in socket.if_nameindex()],
    "home": os.path.exists(HOME) and os.path.realpath(HOME),
    "uid": os.getuid(),
}
with Run() as run:
    seen["params"], seen["seed"] = dict(run.params), run.seed
    run.log_task("seen", 1.0, log=seen)
print("printed on stdout")
print("printed on stderr", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the benchmark of a finished trial saw."""
    from .conftest import Place

    place = Place(tmp_path_factory.mktemp("seen") / "repo")
    place.top.mkdir()
    place.git("init", "-q", "-b", "main")
    place.write("loopty.toml", TASK)
    place.write("bench.py", BENCH.replace("HOME", repr(str(place.top))))
    for path in ("src/x.txt", "src/secret.txt", "docs/a.txt", "docs/secret.txt", "answers/gold.txt", "other.txt"):
        place.write(path, path)
    place.commit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A_SECRET_OF_THE_HOST", "token")
        place.loopty("optimize", "--quiet")
    trace = json.loads((place.top / ".loopty/nodes/1/traces/task_seen.json").read_text())
    return trace["log"] | {"place": place}


def test_hidden_files_are_absent_and_the_benchmarks_files_are_present(seen):
    files = [path for path in seen["files"] if not path.startswith("__pycache__/bench.")]  # loopty's byte code
    assert files == ["answers/gold.txt", "bench.py", "docs/a.txt", "src/x.txt"]


def test_only_scratch_temporary_and_result_directories_can_be_written(seen):
    allowed = [path for path, error in seen["refused"].items() if error is None]
    traces = seen["env"]["EVO_TRACES_DIR"]
    assert allowed == ["build/out", "made/deep/out", "/tmp/out", f"{traces}/task_y.json"]


def test_there_is_no_network(seen):
    assert all(seen["network"])
    assert set(seen["interfaces"]) <= {"lo"}


def test_the_environment_has_the_contract_and_no_variable_of_the_host(seen):
    env = seen["env"]
    assert env["MINE"] == "given"
    assert env["EVO_EXPERIMENT_ID"] == "1"
    assert env["EVO_WORKTREE"] == seen["cwd"]
    others = {name for name in env if not name.startswith(("EVO_", "LOOPTY_", "PYTHON"))}
    assert others == {"HOME", "LANG", "MINE", "PATH", "PWD", "TMPDIR"}
    assert env["HOME"].startswith("/tmp/")
    assert str(seen["place"].top) not in json.dumps(env)
    assert seen["home"] in (False, seen["cwd"])  # an environment may name the path: it leads to the trial's files


def test_parameters_seed_and_arguments_arrive(seen):
    assert (seen["params"], seen["seed"], seen["argv"]) == ({"depth": 4}, 11, ["one argument"])


def test_a_trial_is_never_root(seen):
    assert seen["uid"] != 0


def test_its_output_is_kept(seen):
    folder = seen["place"].top / ".loopty/nodes/1"
    assert (folder / "stdout.log").read_text() == "printed on stdout\n"
    assert (folder / "stderr.log").read_text() == "printed on stderr\n"


@pytest.mark.parametrize(
    ("printed", "code", "word"),
    [
        ('{"score": 3, "tasks": {"a": 1}}', 0, "score 3"),
        ('{"score": 3}\\n{"score": 4}', 1, "stdout"),
        ('{"score": 3} trailing', 1, "stdout"),
        ("", 1, "stdout"),
    ],
)
def test_a_result_on_stdout_is_exactly_one_object(code_place, printed, code, word):
    toml = (code_place.top / "loopty.toml").read_text()
    code_place.write("loopty.toml", toml.replace("[access]", 'result = "stdout"\n[access]'))
    code_place.write("bench.sh", f"test -z \"$EVO_RESULT_PATH\" && printf '{printed}'\n")
    done = code_place.loopty("run", "1", code=code)
    assert word in done.stdout
