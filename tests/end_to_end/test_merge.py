"""`loopty draft merge`: two nodes' changes in one draft, with conflicts marked."""

import pytest

from .conftest import CODE_TASK

TEXT = "".join(f"{number}\n" for number in range(1, 11))
BENCH = 'echo "{\\"score\\": $(cat src/a.txt src/b.txt | grep -c good)}" > "$EVO_RESULT_PATH"\n'


@pytest.fixture
def pair(place):
    """A repository whose score is the number of lines with `good`."""
    place.write("bench.sh", BENCH)
    place.write("src/a.txt", TEXT)
    place.write("src/b.txt", TEXT)
    place.write("loopty.toml", CODE_TASK.format(attempts=20) + '[noise]\nrepeat = "never"\n')
    place.commit()
    place.loopty("run", "1")
    return place


def make_node(place, parent: str, **files: str | None) -> str:
    """A node that ran, with this content of its files `src/NAME.txt`."""
    node = place.json("new", "--parent", parent, "-m", "a change")["node"]
    write(place, node, **files)
    place.loopty("run", node)
    return node


def write(place, node: str, **files: str | None) -> None:
    for name, text in files.items():
        file = place.top / ".loopty/drafts" / node / f"src/{name}.txt"
        if text is None:
            file.unlink()
        else:
            file.write_text(text)


def draft(place, node: str, name: str) -> str:
    return (place.top / ".loopty/drafts" / node / f"src/{name}.txt").read_text()


def test_changes_of_different_files_and_lines_come_together(pair):
    first = make_node(pair, "1", a=TEXT.replace("1\n", "good\n", 1), c="new\n")
    second = make_node(pair, "1", a=TEXT.replace("9\n", "good\n", 1), b=TEXT.replace("5\n", "good\n", 1), d="x\n")
    merged = pair.json("merge", first, second)
    assert merged["conflicts"] == []
    assert merged["parents"] == ["1.2", "1.1"], "the better one is the parent"
    assert merged["ancestor"] == "1"
    assert draft(pair, merged["node"], "a").splitlines()[0] == "good"
    assert draft(pair, merged["node"], "a").splitlines()[8] == "good"
    assert draft(pair, merged["node"], "b").count("good") == 1
    assert draft(pair, merged["node"], "c") == "new\n"
    pair.loopty("run", merged["node"])
    node = pair.history()["1.2.1"]
    assert node.outcome.metrics["score"] == 3
    assert node.merged == ("1.1",)
    assert "merges @2" in pair.loopty("tree").stdout
    assert "merges    @2" in pair.loopty("show", "1.2.1").stdout
    assert "merges @2" in pair.loopty("context").stdout


def test_conflicts_are_marked_in_the_draft(pair):
    first = make_node(pair, "1", a=TEXT.replace("5\n", "good\n", 1), b=None)
    second = make_node(pair, "1", a=TEXT.replace("5\n", "good good\n", 1), b=TEXT.replace("5", "good"))
    merged = pair.json("merge", first, second)
    assert sorted(merged["conflicts"]) == ["src/a.txt", "src/b.txt"]
    text = draft(pair, merged["node"], "a")
    assert "<<<<<<< @3" in text
    assert ">>>>>>> @2" in text
    assert "conflict: src/a.txt" in pair.loopty("merge", first, second).stderr


def test_what_holds_the_other_already_and_drafts_are_not_merged(pair):
    first = make_node(pair, "1", a="good\n")
    below = make_node(pair, first, b="good\n")
    assert "nothing to merge" in pair.loopty("merge", first, below, code=2).stderr
    assert "nothing to merge" in pair.loopty("merge", first, first, code=2).stderr
    open_one = pair.json("new", "--parent", "1")["node"]
    assert "is a draft" in pair.loopty("merge", first, open_one, code=2).stderr


def test_deep_relatives_meet_at_their_common_ancestor(pair):
    top = make_node(pair, "1", a=TEXT.replace("1\n", "good\n", 1))
    left = make_node(pair, top, a=TEXT.replace("1\n", "good\n", 1).replace("5\n", "good\n", 1))
    right = make_node(pair, top, b=TEXT.replace("2\n", "good\n", 1))
    merged = pair.json("merge", left, right)
    assert merged["ancestor"] == top
    assert merged["conflicts"] == []
    assert draft(pair, merged["node"], "a").count("good") == 2
    assert draft(pair, merged["node"], "b").count("good") == 1


def test_an_attribute_of_a_candidate_starts_no_merge_program(pair, tmp_path):
    pair.git("config", "merge.evil.driver", f"touch {tmp_path}/pwned")
    pair.trust()
    first = make_node(pair, "1", a=TEXT.replace("5\n", "good\n", 1))
    second = make_node(pair, "1", a=TEXT.replace("5\n", "good good\n", 1))
    pair.write("src/.gitattributes", "*.txt merge=evil\n")
    pair.json("merge", first, second)
    assert not (tmp_path / "pwned").exists()
