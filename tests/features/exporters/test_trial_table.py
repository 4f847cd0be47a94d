"""Trials as a table."""

import csv
import io

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.trial import Pool
from loopty.features.exporters.trials import write_trial_table
from loopty.kit.records import replace
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.show.trial_rows import trial_rows

from ...show.story import OWNER, Story


def rows_of(story: Story):
    return list(trial_rows(story.history, story.ledger.read(), 1))


def story_of_trials() -> Story:
    story = Story()
    story.ends(story.adds("1", summary="=cmd()", params={"lr": 0.5, "kind": "-x"}), 2.0, speed=3.0)
    story.tries("1", None, Pool.CONTROL)
    return story


def test_every_trial_is_a_row_with_its_parameters_and_metrics(tmp_path):
    write_trial_table(rows_of(story_of_trials()), tmp_path / "t.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert [row["node"] for row in rows] == ["1", "1.1", "1.2"]
    assert (rows[1]["param.lr"], rows[1]["metric.speed"], rows[0]["metric.speed"]) == ("0.5", "3.0", "")
    assert (rows[2]["pool"], rows[2]["ending"], rows[2]["ending_reason"]) == ("control", "failed", "exit code 1")


def test_no_cell_is_a_formula(tmp_path):
    write_trial_table(rows_of(story_of_trials()), tmp_path / "t.csv")
    row = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))[1]
    assert (row["summary"], row["param.kind"]) == ("'=cmd()", "'-x")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("value", ["\ud800", "a\0\x1b]0;owned\x07\r", 10**30, 10**400, "\n=cmd()", "\uff1dcmd()"])
def test_no_value_breaks_a_table_and_none_reaches_a_terminal_raw(tmp_path, ending, value):
    if ending == "parquet":
        pytest.importorskip("arro3.io")
    story = Story()
    story.ends(story.adds("1"), 2.0)
    rows = [replace(row, summary=str(value), params={str(value)[:9]: value}) for row in rows_of(story)]
    write_trial_table([*rows, replace(rows[0], params={str(value)[:9]: 0.5})], tmp_path / f"t.{ending}")
    raw = (tmp_path / f"t.{ending}").read_bytes()
    if ending == "csv":
        assert not set(raw) & {0, 7, 27}
        assert b',"\n=' not in raw
        assert ",\uff1d".encode() not in raw


def test_a_parquet_file_has_the_same_table_with_types(tmp_path):
    io_ = pytest.importorskip("arro3.io")
    write_trial_table(rows_of(story_of_trials()), tmp_path / "t.parquet")
    table = io_.read_parquet(str(tmp_path / "t.parquet")).read_all()
    columns = {name: table[name].to_pylist() for name in table.column_names}
    assert columns["node"] == ["1", "1.1", "1.2"]
    assert columns["trial"] == [1, 1, 1]
    assert columns["metric.score"] == [1.0, 2.0, None]
    assert columns["summary"][1] == "=cmd()"


def test_a_table_without_trials_has_its_head(tmp_path):
    write_trial_table([], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().startswith("run,node,handle,trial,")
    pytest.importorskip("arro3.io")
    write_trial_table([], tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size


def test_another_format_is_refused(tmp_path):
    with pytest.raises(Misuse, match=r"end it with .csv or .parquet"):
        write_trial_table([], tmp_path / "t.xls")


def test_audits_are_left_out():
    story = Story()
    trials = story.recorder.history["1"].trials
    story.tell(TrialStarted(story.recorder.history["1"].id, trials + 1, Pool.AUDIT, OWNER))
    story.tell(TrialEnded(story.recorder.history["1"].id, trials + 1, story._finished({"score": 9.0})))
    assert [row.trial for row in rows_of(story)] == [1]
