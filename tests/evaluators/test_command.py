"""The benchmark command in the real sandbox: everything it does becomes one outcome with a one-line reason."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.ids import NodeId
from loopty.domain.launch import Mount
from loopty.domain.objective import Direction, Directions
from loopty.domain.trial import Ending, Outcome, Pool, Row
from loopty.engine.protocols import OnMetrics, Stage, Trial
from loopty.evaluators.command import CommandEvaluator
from loopty.evaluators.contract import SandboxPaths
from loopty.kit.process import trial_owner
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.record.node_record import Node
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.toolchain import user_toolchain

from ..needs import needs

pytestmark = needs("bwrap")

LIMITS = Limits(memory_mb=512, processes=32, output_mb=1, disk_mb=16)


def never(_rows: Sequence[Row], _directions: Directions) -> str | None:
    return None


@dataclass(frozen=True)
class Place:
    """Where one trial runs."""

    root: Path
    keep: Callable[[Mapping[str, bytes]], None] | None = None

    @contextmanager
    def stage(self, _trial: Trial) -> Iterator[Stage]:
        inbox, outbox, tree, folder = (self.root / name for name in ("in", "out", "tree", "node"))
        for path in (inbox, outbox, tree, folder, outbox / "traces", outbox / "checkpoint"):
            path.mkdir()
        (inbox / "params.json").write_text('{"lr": 0.5}')
        if owner := trial_owner():
            for owned in (outbox, outbox / "traces", outbox / "checkpoint"):
                os.chown(owned, *owner)
        yield Stage(
            (Mount(tree, "/t/tree"), Mount(inbox, "/t/in"), Mount(outbox, "/t/out", writable=True)),
            SafeFolder(inbox),
            SafeFolder(outbox).written_by(owner[0] if owner else None),
            SafeFolder(folder),
            keep=self.keep,
        )

    async def run(
        self, command: str, on_metrics: OnMetrics = never, cancel: asyncio.Event | None = None, **changes: object
    ) -> Outcome:
        tools = user_toolchain()
        benchmark = replace(Benchmark(command, 20.0), **changes)  # type: ignore[arg-type]
        evaluator = CommandEvaluator(
            benchmark,
            LIMITS,
            Bubblewrap(),
            self.stage,
            lambda _: None,
            SandboxPaths("/t/tree", "/t/benchmark", "/t/in", "/t/out", "/t/candidate", "/t/sdk/loopty_sdk"),
            env={"PATH": tools.path},
            mounts=[Mount(prefix, str(prefix)) for prefix in tools.prefixes],
        )
        node = Node(NodeId("1.2"), Pool.ATTEMPT, "o", "", "commit", "tree", 0.0, order=1, position=0)
        outcome = await evaluator.evaluate(
            Trial(node, node, 3, Pool.ATTEMPT, 7), on_metrics, cancel or asyncio.Event()
        )
        assert len(outcome.reason.splitlines()) <= 1
        assert len(outcome.reason) < 300
        return outcome

    def python(self, script: str) -> str:
        return f"exec python3 -c '{script}'"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


async def test_a_result_is_read_with_the_metrics_after_it(place: Place) -> None:
    outcome = await place.run(
        'printf "i,ms (lower is better),score\\n1,5,9\\n2,4,9\\n" > $LOOPTY_METRICS_CSV; '
        """echo '{"score": 1, "tasks": {"t": 2}, "tasks_meta": {"t": {"direction": "min"}}}' """
        "> $EVO_RESULT_PATH; "
        "echo '{}' > $EVO_TRACES_DIR/task_t.json; echo printed"
    )
    assert outcome.ending is Ending.FINISHED
    assert list(outcome.metrics.items()) == [("score", 1.0), ("tasks.t", 2.0), ("ms", 4.0)]
    assert outcome.directions["tasks.t"] is Direction.MIN
    assert outcome.directions["ms"] is Direction.MIN
    kept = {str(path.relative_to(place.root / "node")) for path in (place.root / "node").rglob("*.*")}
    assert kept == {"result.json", "metrics.csv", "traces/task_t.json", "stdout.log"}
    assert (place.root / "node" / "stdout.log").read_text() == "printed\n"


async def test_a_small_result_is_kept_without_a_folder_and_a_large_one_is_a_file(tmp_path: Path) -> None:
    kept: dict[str, bytes] = {}
    for name, size, is_small in (("small", 10, True), ("large", 100_000, False)):
        (tmp_path / name).mkdir()
        place = Place((tmp_path / name).resolve(), kept.update)
        words = json.dumps({"score": 1, "text": size * "x"})
        outcome = await place.run(f"""echo '{words}' > $EVO_RESULT_PATH""")
        assert outcome.ending is Ending.FINISHED
        assert (tmp_path / name / "node" / "result.json").exists() is not is_small
        assert (kept.pop("result.json", b"") != b"") is is_small


async def test_metrics_alone_are_a_result_and_so_is_stdout(place: Place, tmp_path: Path) -> None:
    alone = await place.run("printf 'i,ms\\n1,5\\n2,4\\n3,' > $LOOPTY_METRICS_CSV")
    assert (alone.ending, alone.metrics) == (Ending.FINISHED, {"ms": 4.0})
    (tmp_path / "second").mkdir()
    printed = await Place(tmp_path.resolve() / "second").run("""echo '{"score": 3}'""", result="stdout")
    assert (printed.ending, printed.metrics) == (Ending.FINISHED, {"score": 3.0})


async def test_the_contract_is_in_the_environment(place: Place) -> None:
    outcome = await place.run(
        'test "$EVO_EXPERIMENT_ID $EVO_ATTEMPT $LOOPTY_SEED $LOOPTY_MODE $A" = "1.2 3 7 attempt b" && '
        'test "$(cat $LOOPTY_PARAMS)" = \'{"lr": 0.5}\' && test "$PWD" = "$EVO_WORKTREE" && '
        "test -w $EVO_CHECKPOINT_DIR && test ! -e $LOOPTY_STOP_PATH && ! touch $LOOPTY_STOP_PATH && "
        """! touch new && echo '{"score": 1}' > $EVO_RESULT_PATH""",
        env={"A": "b", "LOOPTY_SEED": "forged"},
    )
    assert outcome.is_finished, outcome


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 3", "exit code 3"),
        ("echo first >&2; printf 'the \\033[31mreason\\n' >&2; exit 3", "exit code 3: the reason"),
        ("kill -SEGV $$", "exit code "),
        ("true", "the result file was not written, and neither was the metrics CSV"),
        (": > $EVO_RESULT_PATH", "the result file is empty: it was created and never written"),
        ("echo '{\"score\": NaN}' > $EVO_RESULT_PATH", "the result file is not valid JSON"),
        ("echo '{\"score\": true}' > $EVO_RESULT_PATH", "the result file has a score that is not a number"),
        ("ln -s /etc/passwd $EVO_RESULT_PATH", "the result file is a link"),
        ("mkfifo $EVO_RESULT_PATH", "the result file is not a regular file"),
        ("mkdir $EVO_RESULT_PATH", "the result file is not a regular file"),
        ("ln -s /dev/zero $EVO_RESULT_PATH", "the result file is a link"),
        (
            "echo '{\"score\": 1}' > $EVO_RESULT_PATH; ln $EVO_RESULT_PATH $EVO_RESULT_PATH.2",
            "the result file has a second name",
        ),
        (
            "truncate -s 8M $EVO_RESULT_PATH",
            "the result file holds 8388608 bytes",
        ),
        (
            "echo '{\"score\": 1}' > $EVO_RESULT_PATH; printf 'i,a\\n1,x\\n' > $LOOPTY_METRICS_CSV",
            "the metrics CSV has a cell that is not a number",
        ),
        ("printf 'i,a\\n1,2\\n' > $LOOPTY_METRICS_CSV; exit 1", "exit code 1"),
        ("yes", "printed more than 1 MB"),
    ],
)
async def test_any_failure_is_one_failed_outcome_without_a_score(place: Place, command: str, reason: str) -> None:
    outcome = await place.run(command)
    assert (outcome.ending, outcome.metrics) == (Ending.FAILED, {})
    assert outcome.reason.startswith(reason)


async def test_a_failure_has_the_lines_of_its_error_and_the_name_of_its_log(place: Place) -> None:
    outcome = await place.run(place.python("print(1); import nothing_of_the_kind"))
    assert outcome.reason == "exit code 1: ModuleNotFoundError: No module named 'nothing_of_the_kind'"
    assert outcome.error_lines[0] == '  File "<string>", line 1, in <module>'
    assert outcome.error_lines[-1] == "ModuleNotFoundError: No module named 'nothing_of_the_kind'"
    assert outcome.log == "stderr.log"


async def test_a_failure_without_an_error_has_the_last_lines_that_were_printed(place: Place) -> None:
    outcome = await place.run("seq 9; echo note >&2")
    assert (outcome.error_lines, outcome.log) == (("5", "6", "7", "8", "9"), "stdout.log")
    assert (await Place(place.root / "tree").run("sleep 9", timeout_seconds=0.5)).log == "stderr.log"


async def test_a_premature_exit_is_judged_by_what_was_written(place: Place) -> None:
    outcome = await place.run(place.python("import os; os._exit(0)"))
    assert outcome.ending is Ending.FAILED


async def test_stdout_with_more_than_one_object_is_no_result(place: Place) -> None:
    outcome = await place.run("""echo '{"score": 2}'; echo '{"score": 1}'""", result="stdout")
    assert outcome.ending is Ending.FAILED
    assert outcome.reason.startswith("stdout is not valid JSON")


async def test_a_hang_times_out_and_keeps_what_it_reported(place: Place) -> None:
    outcome = await place.run("printf 'i,a\\n1,2\\n' > $LOOPTY_METRICS_CSV; sleep 600", timeout_seconds=1.0)
    assert (outcome.ending, outcome.metrics) == (Ending.TIMED_OUT, {"a": 2.0})
    assert outcome.reason == "still running after 1 s"


async def test_a_cancelled_trial_ends_at_once_without_a_result(place: Place) -> None:
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, cancel.set)
    outcome = await place.run("""echo '{"score": 1}' > $EVO_RESULT_PATH; sleep 600""", cancel=cancel)
    assert (outcome.ending, outcome.metrics) == (Ending.CANCELLED, {})


def prune_at(step: float) -> Callable[[Sequence[Row], Directions], str | None]:
    return lambda rows, _: "worse than the median" if rows and rows[-1].step >= step else None


REPORTS = """
import os, sys, time
with open(os.environ["LOOPTY_METRICS_CSV"], "w", buffering=1) as metrics:
    print("i,a (lower is better)", file=metrics)
    for step in range(6000):
        print(f"{step},{step / 2}", file=metrics)
        if STOPS and os.path.exists(os.environ["LOOPTY_STOP_PATH"]):
            print("asked to stop", flush=True)
            break
        time.sleep(0.05)
print("the end", flush=True)
"""


async def test_a_pruned_trial_is_asked_to_stop_and_may_end_by_itself(place: Place) -> None:
    outcome = await place.run(
        f"cat > /tmp/x.py <<'E'\n{REPORTS.replace('STOPS', 'True')}\nE\nexec python3 /tmp/x.py",
        on_metrics=prune_at(2),
        grace_seconds=20.0,
    )
    assert (outcome.ending, outcome.reason) == (Ending.PRUNED, "worse than the median")
    assert outcome.metrics["a"] >= 1.0
    assert outcome.directions == {"a": Direction.MIN}
    assert (place.root / "node" / "stdout.log").read_text() == "asked to stop\nthe end\n"
    assert (place.root / "node" / "metrics.csv").exists()
    assert outcome.seconds < 18


async def test_a_pruned_trial_that_does_not_stop_is_killed_after_the_grace_period(place: Place) -> None:
    outcome = await place.run(
        f"cat > /tmp/x.py <<'E'\n{REPORTS.replace('STOPS', 'False')}\nE\nexec python3 /tmp/x.py",
        on_metrics=prune_at(2),
        grace_seconds=0.3,
    )
    assert (outcome.ending, outcome.reason) == (Ending.PRUNED, "worse than the median")
    assert outcome.metrics["a"] >= 1.0
    assert not (place.root / "node" / "stdout.log").exists()


async def test_traces_replaced_by_a_link_copy_nothing_of_the_host(place: Place, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "task_gold.json").write_text("gold")
    outcome = await place.run(
        f"rmdir $EVO_TRACES_DIR; ln -s {secrets} $EVO_TRACES_DIR; " """echo '{"score": 1}' > $EVO_RESULT_PATH"""
    )
    assert outcome.is_finished
    assert not (place.root / "node" / "traces").exists()


async def test_a_trial_is_killed_when_the_watch_of_its_metrics_fails(place: Place) -> None:
    def broken(_rows: Sequence[Row], _directions: Directions) -> str | None:
        raise ZeroDivisionError("a pruner with a bug")

    with pytest.raises(ZeroDivisionError):
        await place.run('printf "i,a\\n1,2\\n" > "$LOOPTY_METRICS_CSV"; sleep 600', broken, timeout_seconds=600)
