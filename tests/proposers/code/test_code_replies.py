"""Replies of models: a clear one is understood, a doubtful one is an error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.proposal import Objection
from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.replies import SEPARATOR, FileChange, no_change, parse_changes, parse_items, summary
from loopty.proposers.code.reply_edits import Block, Patch, ProposalFault, Removal, WholeFile

KNOWN = ("src/a.py", "b.py", "my file.txt", "Makefile")
SEARCH = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"


def read(text: str, sole: str | None = None) -> list[FileChange]:
    (item,) = parse_items(text, whole=True, limit=1)
    return parse_changes(item, KNOWN, sole)


def objection(text: str) -> str:
    with pytest.raises(ProposalFault) as caught:
        read(text)
    assert caught.value.objection is Objection.REPLY
    return caught.value.reason


@pytest.mark.parametrize(
    "above",
    [
        "src/a.py",
        "`src/a.py`",
        "**src/a.py**",
        "### src/a.py",
        "File: src/a.py",
        "**File: `src/a.py`**",
        "./src/a.py:",
        "First src/a.py changes.\n\nsrc/a.py\n",
        "src/a.py\n```python",
        "```\nsrc/a.py",
    ],
)
def test_the_path_above_a_block_may_be_decorated(above: str) -> None:
    close = "\n```" if "```" in above else ""
    assert read(f"{above}\n{SEARCH}{close}\n") == [Block("src/a.py", ("old",), ("new",))]


def test_paths_with_spaces_or_without_a_dot_are_known_by_name() -> None:
    assert [change.path for change in read(f"my file.txt\n{SEARCH}\nMakefile\n{SEARCH}\n")] == [
        "my file.txt",
        "Makefile",
    ]


def test_blocks_follow_each_other_under_one_path() -> None:
    assert [change.path for change in read(f"b.py\n{SEARCH}\nand then\n{SEARCH}\nsrc/a.py\n{SEARCH}")] == [
        "b.py",
        "b.py",
        "src/a.py",
    ]


def test_the_only_writable_file_needs_no_path() -> None:
    assert read(SEARCH, "b.py") == [Block("b.py", ("old",), ("new",))]
    assert read("```python\nx = 1\n```", "b.py") == [WholeFile("b.py", ("x = 1",))]
    assert "no line with the path" in objection(SEARCH)
    assert objection("```python\nx = 1\n```") == "the reply holds no change"


@pytest.mark.parametrize(
    "opening", ["src/a.py\n```python", "```python src/a.py", "```python:src/a.py", "```src/a.py"]
)
def test_a_fence_with_a_path_is_a_whole_file(opening: str) -> None:
    assert read(f"{opening}\nx = 1\n\n```\n") == [WholeFile("src/a.py", ("x = 1", ""))]


def test_a_longer_fence_holds_shorter_ones() -> None:
    text = "src/a.py\n````markdown\n```\ninside\n```\n````\n"
    assert read(text) == [WholeFile("src/a.py", ("```", "inside", "```"))]


def test_blocks_in_fences_may_hold_fences() -> None:
    text = "b.py\n```python\n<<<<<<< SEARCH\n```\n=======\n```x\n>>>>>>> REPLACE\n```\nsrc/a.py\n```\nx\n```\n"
    assert read(text) == [Block("b.py", ("```",), ("```x",)), WholeFile("src/a.py", ("x",))]


def test_a_diff_may_be_in_any_fence_and_of_several_files() -> None:
    diff = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    for info in ("diff", "patch", ""):
        patch, removal = read(f"```{info}\n{diff}```\n")
        assert isinstance(patch, Patch)
        assert removal == Removal("b.py")


def test_one_line_deletes_a_file() -> None:
    assert read("<<<<<<< DELETE src/a.py\n<<<<<<< DELETE `my file.txt`") == [
        Removal("src/a.py"),
        Removal("my file.txt"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "src/a.py\n<<<<<<< SEARCH\nold\n<<<<<<< SEARCH\nx\n=======\nnew\n>>>>>>> REPLACE",
        "src/a.py\n<<<<<<< SEARCH\nold\n>>>>>>> REPLACE",
        "src/a.py\n<<<<<<< SEARCH\nold\n=======\nnew\n=======\nnewer\n>>>>>>> REPLACE",
        f"src/a.py\n{SEARCH}\n>>>>>>> REPLACE",
        f"src/a.py\n=======\n{SEARCH}",
        "src/a.py\n```\nx = 1\n>>>>>>> REPLACE\n```",
    ],
)
def test_a_stray_separator_is_an_error(text: str) -> None:
    assert "a separator is out of place" in objection(text)


def test_an_incomplete_change_is_an_error() -> None:
    assert "======= is missing" in objection("src/a.py\n<<<<<<< SEARCH\nold")
    assert ">>>>>>> REPLACE is missing" in objection("src/a.py\n<<<<<<< SEARCH\nold\n=======\nnew")
    assert objection("src/a.py\n```python\nx = 1") == "a fence is not closed"


def test_a_file_may_keep_its_separators_but_gets_no_new_one() -> None:
    heading = "Title\n=======\n"
    assert apply_changes([WholeFile("b.md", ("Other", "======="))], {"b.md": heading}.get, frozenset())
    with pytest.raises(ProposalFault, match="separator"):
        apply_changes([WholeFile("b.py", ("x", "======="))], {"b.py": "x\n"}.get, frozenset())


def test_reasoning_and_line_ends_do_not_matter() -> None:
    text = f"<think>\nsrc/b.py\n<<<<<<< SEARCH\n</think>\r\nsrc/a.py\r\n{SEARCH}".replace("\n", "\r\n")
    assert read(text) == [Block("src/a.py", ("old",), ("new",))]


def test_a_file_given_twice_is_an_error() -> None:
    with pytest.raises(ProposalFault, match="more than once"):
        apply_changes([WholeFile("a", ("x",)), WholeFile("a", ("y",))], lambda _: None, frozenset())


def test_several_blocks_of_one_file_build_on_each_other() -> None:
    blocks = [Block("a", ("1",), ("2", "3")), Block("a", ("3",), ("4",)), Removal("b")]
    assert apply_changes(blocks, {"a": "1\n", "b": "x\n"}.get, frozenset()) == {"a": "2\n4\n", "b": None}


def test_a_change_that_changes_nothing_is_not_a_proposal() -> None:
    with pytest.raises(ProposalFault, match="changes nothing") as caught:
        apply_changes([Block("a", ("1",), ("1",))], lambda _: "1\n", frozenset())
    assert caught.value.objection is Objection.DUPLICATE


def test_a_change_that_is_too_large_is_refused() -> None:
    with pytest.raises(ProposalFault, match="too large"):
        apply_changes([WholeFile("a", ("x" * 2_000_000,))], lambda _: None, frozenset())
    with pytest.raises(ProposalFault, match="too large"):
        apply_changes([WholeFile(f"{number}.py", ("x",)) for number in range(200)], lambda _: None, frozenset())


def test_headings_separate_the_proposals() -> None:
    text = (
        "Sure!\n=== PROPOSAL 1: faster ===\none\n**=== Proposal 2 – smaller ===**\ntwo\n"
        "## === PROPOSAL 3 ===\nthree\n=== END ===\nbye\n=== PROPOSAL 4: more ===\nfour\n"
    )
    found = parse_items(text, whole=True, limit=3)
    assert [(item.title, item.lines[0]) for item in found] == [
        ("faster", "one"),
        ("smaller", "two"),
        ("", "three"),
    ]
    assert "bye" not in found[2].lines


def test_the_last_proposal_of_a_cut_reply_counts_only_with_its_end() -> None:
    two = "=== PROPOSAL 1: a ===\nx\n=== PROPOSAL 2: b ===\ny\n"
    assert [item.title for item in parse_items(two, whole=False, limit=9)] == ["a"]
    assert [item.title for item in parse_items(f"{two}=== END ===\n", whole=False, limit=9)] == ["a", "b"]
    assert parse_items(SEARCH, whole=False, limit=9) == []


def test_a_huge_reply_counts_as_cut_off() -> None:
    assert parse_items("x\n" * 1_000_000, whole=True, limit=9) == []
    assert (
        len(parse_items("=== PROPOSAL 1: a ===\n=== PROPOSAL 2: b ===\n" + "x\n" * 1_000_000, whole=True, limit=9))
        == 1
    )


def test_the_summary_is_the_title_or_the_first_prose_or_the_files() -> None:
    def summary_of(text: str) -> str:
        return summary(parse_items(text, whole=True, limit=1)[0], ["b", "a"])

    assert summary_of("=== PROPOSAL 1: **Use a table** ===\nx") == "Use a table"
    assert summary_of(f"# Use a table\nsrc/a.py\n{SEARCH}") == "Use a table"
    assert summary_of(f"src/a.py\n{SEARCH}\nThat was it.").startswith("changes a, b: ")
    said = "LIMIT: **too many copies** of x\n**IDEA:** use a view, and `copy` once: at the end\n"
    assert summary_of(said + SEARCH) == "use a view, and `copy` once: at the end (limit: too many copies** of x)"
    assert summary_of(f"IDEA: {'long ' * 80}\n{SEARCH}").count("long") == 80, "it is kept whole"


def test_an_answer_that_nothing_better_is_known_is_no_change() -> None:
    assert no_change("NO CHANGE: 26.256 is the optimum.\nReally.") == "26.256 is the optimum. Really."
    assert no_change("**NO CHANGE:** it is optimal") == "it is optimal"
    assert no_change(f"NO CHANGE: but look\n{SEARCH}") == ""
    assert no_change("I make no change: none") == ""


PIECES = st.sampled_from(
    [
        "src/a.py",
        "b.py",
        "../out.py",
        "<<<<<<< SEARCH",
        "=======",
        ">>>>>>> REPLACE",
        "<<<<<<< DELETE b.py",
        "```",
        "```python",
        "```diff",
        "````",
        "~~~",
        "--- a/b.py",
        "+++ b/b.py",
        "--- /dev/null",
        "@@ -1 +1 @@",
        "-old",
        "+new",
        " old",
        "old",
        "new",
        "",
        "=== PROPOSAL 1: x ===",
        "=== END ===",
        "# EVOLVE-BLOCK-START",
        "# EVOLVE-BLOCK-END",
        "\u2028ünï\x00",
        "\ud800",
    ]
)
FILES = {"src/a.py": "old\nnew\n", "b.py": "# EVOLVE-BLOCK-START\nold\n# EVOLVE-BLOCK-END\r\n"}


@given(st.lists(PIECES, max_size=25), st.booleans())
def test_every_reply_gives_valid_edits_or_a_reason(lines: list[str], whole: bool) -> None:
    for item in parse_items("\n".join(lines), whole, limit=3):
        edits: dict[str, str | None] = {}
        with contextlib.suppress(ProposalFault):
            edits = apply_changes(parse_changes(item, FILES, None), FILES.get, frozenset())
        assert summary(item, edits or ["a.py"])
        for path, text in edits.items():
            assert text != FILES.get(path)
            assert not any(SEPARATOR.match(line) for line in (text or "").split("\n"))


@given(st.text(max_size=400))
def test_any_text_is_parsed_without_a_crash(text: str) -> None:
    for item in parse_items(text, whole=True, limit=3):
        with contextlib.suppress(ProposalFault):
            assert parse_changes(item, FILES, "b.py")


@pytest.mark.parametrize(
    "piece",
    [
        "=== PROPOSAL 1 " + "= " * 300_000,
        "```" + " " * 500_000 + "x`",
        "." * 500_000,
        "<<<<<<< DELETE " + " x" * 300_000,
    ],
)
def test_one_endless_line_is_parsed_as_fast_as_any_other(piece: str) -> None:
    for item in parse_items(f"{piece}\n{piece}", whole=True, limit=3):
        summary(item, ["a.py"])
        with contextlib.suppress(ProposalFault):
            parse_changes(item, FILES, None)


@pytest.mark.parametrize("path", ["src/\x1b[31m.py", "src/a\u200b.py", "src/\u202eyp.py", "src/a\x00.py"])
def test_a_name_with_invisible_characters_is_refused(path: str) -> None:
    for change in (WholeFile(path, ("x",)), Removal(path), Block(path, (), ("x",))):
        with pytest.raises(ProposalFault, match="invisible characters"):
            apply_changes([change], lambda _: None, frozenset())


def test_the_summary_is_the_sentence_with_the_idea() -> None:
    reply = "The loop is slow. I will sort the items first. Here is the code:\n```python\nx = 1\n```"
    item = parse_items(reply, True, 1)[0]
    assert summary(item, ["a.py"]) == "I will sort the items first"
    assert summary(parse_items("```\nx\n```", True, 1)[0], ["a.py"]) == "changes a.py"
