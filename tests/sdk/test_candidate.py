"""The candidate outside loopty, in a process of its own: each of its faults is one error of one line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopty_sdk import CandidateError, candidate

SDK = Path(__file__).parents[2] / "sdk" / "python"

Tree = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A function that writes the candidate's program."""
    monkeypatch.chdir(tmp_path)
    for name in ("LOOPTY_CANDIDATE", "EVO_WORKTREE"):
        monkeypatch.delenv(name, raising=False)
    return lambda text: (tmp_path / "program.py").write_text(text) and None


def fault(*args: Any, function: str = "f", **options: Any) -> CandidateError:
    with pytest.raises(CandidateError) as raised, candidate(f"program.py:{function}", **options) as called:
        called(*args)
    assert len(str(raised.value).splitlines()) == 1
    return raised.value


def test_a_function_gets_its_arguments_and_the_benchmark_measures_the_time(program: Tree) -> None:
    program(
        "import time\ntime.perf_counter = lambda: 0\ndef f(a, *, b):\n    time.sleep(0.05)\n    return (a, [b])\n"
    )
    with candidate("program.py:f") as f:
        assert f({"x": 1.5}, b=b"\0") == ({"x": 1.5}, [b"\0"])
        assert 0.05 <= f.seconds < 20


def test_only_modules_beside_the_program_can_be_imported(program: Tree, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "other.py").write_text("import top\nVALUE = top.VALUE + 1\n")
    (tmp_path / "top.py").write_text("VALUE = 1\n")
    (tmp_path / "src" / "here.py").write_text(
        "import other, sys\nclass K:\n    def m(self):\n"
        "        return other.VALUE, any(place.endswith('loopty_sdk') for place in sys.path)\nk = K()\n"
    )
    program("")
    with candidate("src/here.py:k.m") as method:
        assert method() == (2, False)
    with candidate("top:__name__.upper") as method:
        assert method() == "TOP"


def test_planted_bytecode_is_not_run(program: Tree, tmp_path: Path) -> None:
    program("def f():\n    return 'evil'\n")
    compile_script = (
        "import py_compile as c; c.compile('program.py', invalidation_mode=c.PycInvalidationMode.UNCHECKED_HASH)"
    )
    subprocess.run([sys.executable, "-c", compile_script], check=True)
    (tmp_path / "helper.py").write_text("def f():\n    return 'good'\n")
    for bytecode in list((tmp_path / "__pycache__").iterdir()):
        bytecode.rename(bytecode.with_name(bytecode.name.replace("program", "helper")))
    program("import helper\nf = helper.f\n")
    with candidate("program.py:f") as f:
        assert f() == "good"


def test_output_of_the_candidate_is_not_an_answer(program: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    program(
        "import os, sys\nprint('on loading')\ndef f():\n    print('hello')\n    os.write(1, b'raw\\n')\n"
        "    os.system('echo child')\n    return sys.stdin.read()\n"
    )
    with candidate("program.py:f") as f:
        assert f() == ""
    assert capfd.readouterr().err.split() == ["on", "loading", "raw", "child", "hello"]


def test_an_exception_is_reported_and_the_process_stays(program: Tree) -> None:
    program(
        "calls = []\ndef f():\n    calls.append(1)\n    assert len(calls) > 1, 'not the first time'\n"
        "    return len(calls)\n"
    )
    with candidate("program.py:f") as f:
        with pytest.raises(
            CandidateError, match=r"^program\.py:f raised AssertionError: not the first time$"
        ) as raised:
            f()
        assert raised.value.kind == "raised"
        assert f() == 2


def test_a_call_that_takes_too_long_is_killed_and_the_next_one_starts_a_new_process(program: Tree) -> None:
    program(
        "import time\ncalls = []\ndef f(wait):\n    calls.append(1)\n    time.sleep(wait)\n    return len(calls)\n"
    )
    with candidate("program.py:f", seconds=1.0) as f:
        assert f(0) == 1
        with pytest.raises(CandidateError, match=r"took more than 1 s") as raised:
            f(100)
        assert raised.value.kind == "time"
        assert f(0) == 1


CHANNEL = "import os, stat\nfds = [fd for fd in range(3, 20) if os.path.exists(f'/proc/self/fd/{fd}')\n" \
    "       and stat.S_ISSOCK(os.fstat(fd).st_mode)]\ndef f(*args):\n    "  # fmt: skip


@pytest.mark.parametrize(
    ("program_text", "kind", "message"),
    [
        ("import os\ndef f():\n    os._exit(3)\n", "crashed", "ended without an answer (exit code 3)"),
        (
            "import os, sys\ndef f():\n    print('last words', file=sys.stderr, flush=True)\n    os.abort()\n",
            "crashed",
            "ended without an answer (exit code 134: last words)",
        ),
        (CHANNEL + "os.write(fds[0], b'x' * 1000)\n", "garbage", "answered a question that was not asked"),
        (CHANNEL + "os.write(fds[0], bytes(25))\n", "garbage", "answered a question that was not asked"),
        (
            CHANNEL + "[os.close(fd) for fd in fds]; import time; time.sleep(100)",
            "crashed",
            "ended without an answer",
        ),
        ("def f():\n    return lambda: 1\n", "raised", "raised NotData: a function is not data"),
        ("def f():\n    return bytes(1 << 20)\n", "garbage", "answered with 1048585 bytes; the limit is 100000"),
        ("import sys\ndef f():\n    sys.exit('bye')\n", "raised", "raised SystemExit: bye"),
        (
            "def f():\n    raise ValueError('two\\nlines\\x1b[31m')\n",
            "raised",
            "raised ValueError: two lines [31m",
        ),
        ("1 / 0", "raised", "raised ZeroDivisionError: division by zero (while loading)"),
        ("def g():\n    pass\n", "raised", "has no attribute 'f' (while loading)"),
        (
            "import sys\nsys.modules['loopty_values'].encode = lambda value: b'junk'\ndef f():\n    return 1\n",
            "garbage",
            "answered with malformed data: no value begins with b'j' (while loading)",
        ),
        (
            "import sys\nsys.modules['loopty_frames'].VALUE = b'?'\ndef f():\n    return 1\n",
            "garbage",
            "answered with neither a value nor an exception",
        ),
    ],
)
def test_each_fault_has_its_kind_and_its_message(
    program: Tree, program_text: str, kind: str, message: str
) -> None:
    program(program_text)
    error = fault(limit=100_000, seconds=20.0)
    assert (error.kind, message in str(error)) == (kind, True), error


def test_an_answer_sent_before_the_question_is_refused(program: Tree) -> None:
    program(CHANNEL + "os.write(fds[0], bytes(8) + bytes(16) + b'v') if args[0] == 1 else 0\n    return args[0]\n")
    with candidate("program.py:f") as f:
        with pytest.raises(CandidateError, match="not asked"):
            f(1)
        assert f(2) == 2, "a new process answers"
    program(
        "import os, time\ndef f(x):\n    if x == 1 and os.fork() == 0:\n        time.sleep(0.3)\n    return x\n"
    )
    with candidate("program.py:f") as f:
        assert f(1) == 1
        time.sleep(1.0)
        with pytest.raises(CandidateError, match="not asked"):
            f(3)


def test_loading_a_module_has_a_time_limit(program: Tree) -> None:
    program("import time\ntime.sleep(100)\n")
    assert "took more than 0.5 s (while loading)" in str(fault(start_seconds=0.5))


def test_a_session_exchanges_exact_sizes_and_refuses_early_output(program: Tree) -> None:
    program("")
    with candidate.open(["cat"]) as echo:
        assert echo.exchange(b"ab" * 300_000, 600_000) == b"ab" * 300_000
        echo.send(b"12")
        assert echo.receive(1) + echo.receive(1) == b"12"
    with pytest.raises(CandidateError, match="has ended"):
        echo.send(b"x")
    with candidate.open(["sh", "-c", "echo early; cat"]) as eager:
        time.sleep(0.5)
        with pytest.raises(CandidateError, match="sent output before it was asked"):
            eager.exchange(b"early\n", 6)
    with (
        candidate.open(["cat"], seconds=0.5) as slow,
        pytest.raises(CandidateError, match=r"took more than 0\.5 s"),
    ):
        slow.exchange(b"x", 2)


def test_a_command_has_limits_and_its_exit_code_is_an_answer(program: Tree) -> None:
    program("")
    result = candidate.run(["sh", "-c", "cat; echo why >&2; exit 3"], input=b"x" * 500_000)
    assert (len(result.stdout), result.code, result.stderr) == (500_000, 3, "why")
    assert candidate.run(["true"], input=b"x" * 5_000_000).code == 0, "a command need not read its input"
    for kind, options in {
        "time": {"argv": ["sleep", "100"], "seconds": 0.3},
        "output": {"argv": ["yes"], "limit": 1000},
        "refused": {"argv": ["no-such-command"]},
    }.items():
        with pytest.raises(CandidateError) as raised:
            candidate.run(**options)  # type: ignore[arg-type]
        assert raised.value.kind == kind


def test_files_and_functions_come_from_the_worktree_that_the_environment_names(
    program: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "program.py").write_text("def f():\n    return 'elsewhere'\n")
    program("def f():\n    return 'here'\n")
    monkeypatch.setenv("EVO_WORKTREE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("EVO_RESULT_PATH", "secret")
    assert "elsewhere" in candidate.read("program.py")
    with candidate("program.py:f") as f:
        assert f() == "elsewhere"
    assert candidate.run(["sh", "-c", "echo $EVO_RESULT_PATH"]).stdout == b"\n"
    with pytest.raises(CandidateError, match="more than 3 bytes"):
        candidate.read("program.py", limit=3)
    with pytest.raises(CandidateError, match="No such file"):
        candidate.read("none.py")


def test_a_name_without_a_function_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"program\.py:solve"):
        candidate("program.py")


def run_module(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SDK)}
    command = [sys.executable, "-m", f"loopty_sdk.{name}", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_the_exit_code_of_a_command_is_passed_on(program: Tree) -> None:
    program("")
    result = run_module("candidate", "--seconds", "20", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr.split()) == (7, "out\n", ["err", "err"])
    slow = run_module("candidate", "--seconds", "0.3", "--", "sleep", "100")
    assert (slow.returncode, slow.stderr) == (126, "sleep took more than 0.3 s\n")


REFERENCE = """
def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]
def inputs(rng):
    return tuple([[rng.randint(-9, 9) for _ in range(2)] for _ in range(2)] for _ in range(2))
"""
STRASSEN = """
def product(a, b):
    (a11, a12), (a21, a22) = a
    (b11, b12), (b21, b22) = b
    m1, m2, m3 = (a11 + a22) * (b11 + b22), (a21 + a22) * b11, a11 * (b12 - b22)
    m4, m5, m6 = a22 * (b21 - b11), (a11 + a12) * b22, (a21 - a11) * (b11 + b12)
    m7 = (a12 - a22) * (b21 + b22)
    return [[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]]
"""
ELEMENTWISE = "def product(a, b):\n    return [[x * y for x, y in zip(p, q)] for p, q in zip(a, b)]\n"


def certify(*options: str) -> subprocess.CompletedProcess[str]:
    return run_module(
        "certify", "program.py:product", "reference.py:product", "--inputs", "reference.py:inputs", *options
    )


def test_a_correct_function_is_certified_and_a_wrong_one_is_not(program: Tree, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    program(STRASSEN)
    assert certify().returncode == 0
    program(ELEMENTWISE)
    wrong = certify()
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("round 0: program.py:product returns [[")
    assert len(wrong.stderr.splitlines()) == 1


def test_numbers_may_differ_by_the_tolerance_and_no_more(program: Tree, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    program(STRASSEN.replace("m3 + m5]", "m3 + m5 + 1e-9]"))
    assert certify().returncode == 1
    assert certify("--tolerance", "1e-6").returncode == 0


def test_a_function_that_crashes_is_not_certified(program: Tree, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    program("import os\ndef product(a, b):\n    os._exit(0)\n")
    ended = certify("--seconds", "20")
    assert ended.returncode == 1
    assert "ended without an answer" in ended.stderr
