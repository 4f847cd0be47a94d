"""A pull request: the branch and its text; a summary to print, and a page to share."""

import pytest

from .conftest import Place


@pytest.fixture
def won(code_place) -> Place:
    """A repository with a better node, 1.1."""
    code_place.loopty("run", "1")
    made = code_place.json("new", "--parent", "1", "-m", "six is more")
    (code_place.top / made["workspace"] / "src/x.txt").write_text("6\n")
    code_place.loopty("run", "1.1")
    return code_place


def test_a_pull_request_has_a_branch_and_a_text(won):
    done = won.loopty("pr")
    assert done.stdout.startswith("# Improve score from 5 to 6 (+20.0 %)\n")
    assert "+6" in done.stdout
    assert "git push -u origin loopty-best-@2" in done.stderr
    assert won.git("show", "loopty-best-@2:src/x.txt") == "6\n"
    again = won.loopty("pr", code=2)
    assert "--force" in again.stderr
    made = won.json("pr", "1.1", "--force", "--to", "text.md")
    assert made["branch"] == "loopty-best-@2"
    assert (won.top / "text.md").read_text() == made["text"]


def test_the_summary_is_printed_and_written_as_a_page(won):
    text = won.loopty("report", "--markdown").stdout
    assert "six is more" in text
    assert won.json("report", "--markdown")["markdown"] == text
    said = won.loopty("report", "--html", "page.html").stdout
    assert said == "page.html has the report; it needs no other file\n"
    assert (won.top / "page.html").read_text().startswith("<!doctype html>")


def test_there_is_no_pull_request_about_the_baseline(code_place):
    code_place.loopty("run", "1")
    assert "nothing better than the baseline" in code_place.loopty("pr", code=2).stderr
    assert "name a node that changes something" in code_place.loopty("pr", "1", code=2).stderr


def test_watching_needs_a_terminal(won):
    assert "leave it out" in won.loopty("report", "--watch", code=2).stderr


def test_all_trials_are_exported_as_a_table(won):
    count = won.json("export", "trials", "t.csv")["count"]
    assert count >= 2
    assert len((won.top / "t.csv").read_text().splitlines()) == count + 1


def test_a_file_that_cannot_be_written_is_named_and_no_branch_is_left(won):
    there = "bench.sh/text.md"
    for verb in (("export", "pr", "--to"), ("report", "--html"), ("export", "trials")):
        name = there if verb[1] != "trials" else "bench.sh/t.csv"
        assert f"cannot write {name}" in won.loopty(*verb, name, code=2).stderr
    assert won.git("branch", "--list", "loopty-best-*") == ""
