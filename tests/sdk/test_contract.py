"""What the SDKs of all languages have in common."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

PYTHON = "from loopty_sdk import Run\nrun = Run()\n"
NODE = 'import { Run } from "loopty-sdk";\nconst run = new Run();\n'
SH = "set -e\n. loopty.sh\n"

LANGUAGES = ["python", "node", "sh"]
PREAMBLE = {"python": PYTHON, "node": NODE, "sh": SH}
FINISH = {"python": "run.finish({})\n", "node": "run.finish({});\n", "sh": "loopty_finish {}\n"}


def finish_code(language: str, *scores: str) -> str:
    return PREAMBLE[language] + "".join(FINISH[language].format(score) for score in scores)


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_result_is_published_complete_with_its_times(trial: Any, language: str) -> None:
    ended = trial.run(language, finish_code(language, "0.5"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    result = trial.result()
    assert result["score"] == 0.5
    assert result["tasks"] == {}
    started, finished = (datetime.fromisoformat(result[key]) for key in ("started_at", "ended_at"))
    assert started.tzinfo is not None
    assert started <= finished
    assert not list(trial.root.glob("*.tmp"))


def test_outside_a_trial_the_result_goes_to_standard_output(trial: Any, language: str) -> None:
    ended = trial.run(language, finish_code(language, "0.5"), bare=True)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["score"] == 0.5
    assert not trial.result_path.exists()


def test_a_second_finish_fails_and_the_first_result_stays(trial: Any, language: str) -> None:
    ended = trial.run(language, finish_code(language, "0.5", "0.9"))
    assert ended.returncode != 0
    assert "one result" in ended.stderr
    assert trial.result()["score"] == 0.5


def test_a_result_that_another_process_claimed_is_not_overwritten(trial: Any, language: str) -> None:
    trial.result_path.write_text("planted")
    ended = trial.run(language, finish_code(language, "0.5"))
    assert ended.returncode != 0
    assert "claimed" in ended.stderr
    assert trial.result_path.read_text() == "planted"


def test_a_link_planted_at_the_result_is_not_followed(trial: Any, language: str) -> None:
    elsewhere = trial.root / "elsewhere"
    trial.result_path.symlink_to(elsewhere)
    assert trial.run(language, finish_code(language, "0.5")).returncode != 0
    assert not elsewhere.exists()


def test_a_link_planted_at_the_temporary_file_is_not_followed(trial: Any, language: str) -> None:
    elsewhere = trial.root / "elsewhere"
    trial.result_path.with_name("result.json.tmp").symlink_to(elsewhere)
    assert trial.run(language, finish_code(language, "0.5")).returncode != 0
    assert not elsewhere.exists()
    assert trial.result_path.read_bytes() == b""


def test_a_crash_between_claim_and_rename_leaves_an_empty_result(trial: Any, language: str) -> None:
    # With a file size limit of zero the claim succeeds and the first byte ends the process.
    ended = trial.run(language, finish_code(language, "0.5"), before="ulimit -f 0")
    assert ended.returncode != 0
    assert trial.result_path.read_bytes() == b""


@pytest.mark.parametrize(
    ("language", "score"),
    [("python", text) for text in ["float('nan')", "float('-inf')", "True", "'1'", "10**400"]]
    + [("node", text) for text in ["NaN", "-Infinity", "true", '"1"', "null"]]
    + [("sh", text) for text in ["nan", "-inf", "true", "''", "1e999", "007", "0x1", '"1\n2"', '"1 2"']],
)
def test_a_score_that_is_not_a_finite_number_is_refused_before_the_claim(
    trial: Any, language: str, score: str
) -> None:
    ended = trial.run(language, finish_code(language, score))
    assert ended.returncode != 0
    assert "must be a" in ended.stderr or "must be finite" in ended.stderr
    assert not trial.result_path.exists()


ROW = {
    "python": 'run.report({step}, {{"ms, p99 (lower is better)": {latency}, "accuracy": {accuracy}}})\n',
    "node": 'run.report({step}, {{"ms, p99 (lower is better)": {latency}, accuracy: {accuracy}}});\n',
    "sh": 'loopty_report {step} "ms, p99 (lower is better)={latency}" accuracy={accuracy}\n',
}
OTHER_ROW = {
    "python": "run.report(3, loss=1)\n",
    "node": "run.report(3, { loss: 1 });\n",
    "sh": "loopty_report 3 loss=1\n",
}


def report_code(language: str, *steps: int) -> str:
    return PREAMBLE[language] + "".join(
        ROW[language].format(step=step, latency=step / 4, accuracy=0.9) for step in steps
    )


def test_each_report_adds_one_row_under_one_header(trial: Any, language: str) -> None:
    assert trial.run(language, report_code(language, 1, 2)).returncode == 0
    assert trial.run(language, report_code(language, 3)).returncode == 0
    assert trial.rows() == [
        ["iteration", "ms, p99 (lower is better)", "accuracy"],
        ["1", "0.25", "0.9"],
        ["2", "0.5", "0.9"],
        ["3", "0.75", "0.9"],
    ]


def test_all_languages_continue_a_curve_that_another_began(trial: Any, language: str) -> None:
    for writer in [language, *LANGUAGES]:
        assert trial.run(writer, report_code(writer, 1)).returncode == 0
    assert [row[0] for row in trial.rows()] == ["iteration", "1", "1", "1", "1"]


def test_a_row_with_other_columns_is_refused_and_the_message_says_what_to_do(trial: Any, language: str) -> None:
    ended = trial.run(language, report_code(language, 1, 2) + OTHER_ROW[language])
    assert ended.returncode != 0
    assert "report the same" in ended.stderr
    assert len(trial.rows()) == 3


def test_a_curve_whose_header_is_cut_short_is_not_continued(trial: Any, language: str) -> None:
    trial.metrics.write_text("iteration,lo")
    assert "cut short" in trial.run(language, PREAMBLE[language] + OTHER_ROW[language]).stderr
    assert trial.metrics.read_text() == "iteration,lo"


def test_reports_outside_a_trial_are_harmless(trial: Any, language: str) -> None:
    ended = trial.run(language, report_code(language, 1, 2), bare=True)
    assert (ended.returncode, ended.stdout) == (0, "")


MANY_ROWS = {
    "python": "for step in range(100): run.report(step, value=1234567.125, other=step)\n",
    "node": "for (let step = 0; step < 100; step++) run.report(step, { value: 1234567.125, other: step });\n",
    "sh": "for step in $(seq 0 9); do loopty_report $step value=1234567.125 other=$step; done\n",
}


def test_the_lines_of_eight_processes_never_mix(trial: Any, language: str) -> None:
    code = PREAMBLE[language] + MANY_ROWS[language]
    if language != "python":
        trial.metrics.write_text("iteration,value,other\n")
    writers = [trial.start(language, code) for _ in range(8)]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert (writer.returncode, err) == (0, "")
    header, *rows = trial.rows()
    steps = 10 if language == "sh" else 100
    assert header == ["iteration", "value", "other"]
    assert len(rows) == 8 * steps
    assert {tuple(row) for row in rows} == {(str(step), "1234567.125", str(step)) for step in range(steps)}


STOPPED = {
    "python": "run.finish(1 if run.should_stop() else 0)\n",
    "node": "run.finish(run.shouldStop() ? 1 : 0);\n",
    "sh": "if loopty_should_stop; then loopty_finish 1; else loopty_finish 0; fi\n",
}


@pytest.mark.parametrize("should_stop", [True, False])
def test_a_benchmark_sees_that_it_should_stop(trial: Any, language: str, should_stop: bool) -> None:
    if should_stop:
        trial.stop.touch()
    assert trial.run(language, PREAMBLE[language] + STOPPED[language]).returncode == 0
    assert trial.result()["score"] == int(should_stop)


PARAMETERS = {
    "python": "print(run.params['rate'], run.params['name'], run.params.get('absent', 'none'), sep='|')\n",
    "node": "console.log([run.params.rate, run.params.name, run.params.absent ?? 'none'].join('|'));\n",
    "sh": 'echo "$(loopty_param rate)|$(loopty_param name)|$(loopty_param absent none)"\n',
}
NO_PARAMETERS = {
    "python": "print(run.params.get('rate', 'default'))\n",
    "node": "console.log(run.params.rate ?? 'default');\n",
    "sh": "loopty_param rate default\n",
}


def test_parameters_reach_the_benchmark(trial: Any, language: str) -> None:
    ended = trial.run(language, PREAMBLE[language] + PARAMETERS[language])
    assert ended.stdout == '0.25|a "b" \\ {c}|none\n'


def test_there_are_no_parameters_outside_a_trial(trial: Any, language: str) -> None:
    ended = trial.run(language, PREAMBLE[language] + NO_PARAMETERS[language], bare=True)
    assert ended.stdout == "default\n"
