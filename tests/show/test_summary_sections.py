"""A run as a document to share: its sections, as Markdown and as one HTML page."""

import html.parser

from loopty.domain.objective import Direction
from loopty.domain.trial import Pool
from loopty.show.chart import svg_chart
from loopty.show.documents import html_page, markdown_text
from loopty.show.goodput import goodput
from loopty.show.node import detail
from loopty.show.rated_nodes import points
from loopty.show.run_status import status
from loopty.show.run_summary import (
    Bullets,
    CodeBlock,
    RunSummary,
    Section,
    SummaryDocument,
    Table,
    WholeChange,
    summary_document,
    summary_steps,
)
from loopty.show.tally import tally

from .story import Story

HOSTILE = (
    "<script>alert(1)</script> [x](javascript:alert(1)) @maintainers #12 ![i](https://e.example/p) `x` \x1b[2J"
)


def summarize(story: Story, winner: str | None = "1.1", patch: str = "") -> RunSummary:
    history = story.history
    run = history.runs[1]
    found = history[winner].id if winner else None
    return RunSummary(
        "Make it fast.",
        status(history, run, story.now, lambda _: True),
        tally(history, 1),
        goodput(history, run, 10.0),
        points(history, 1),
        detail(history, found) if found else None,
        WholeChange(patch, {"lr": (0.1, 0.2)}) if found else None,
        *(summary_steps(history, found) if found else ((), 0)),
        tuple(history[node] for node in history.ids if history[node].verdict == "discarded"),
        (),
    )


def story_with_a_winner(summary: str = "use a heap", direction: Direction = Direction.MAX) -> Story:
    story = Story(direction)
    better, worse = (2.0, 0.5) if direction is Direction.MAX else (0.5, 2.0)
    story.ends(story.adds("1", summary=summary), better)
    story.ends(story.adds("1", summary=f"lost: {summary}"), worse)
    story.ends(story.adds("1", Pool.CONTROL), worse)
    story.tries("1", None)
    return story


def test_the_text_says_what_changed_by_how_much_what_it_cost_and_what_failed():
    text = markdown_text(summary_document(summarize(story_with_a_winner(), patch="+++ b/x\n+new\n-old\n")))
    assert text.startswith("# Improve score from 1 to 2 (+100.0 %)\n")
    assert "- `@2`: use a heap (+100.0 % over its parent)" in text
    assert "| lr | 0.1 | 0.2 |" in text
    assert "The whole change: 1 line added, 1 removed" in text
    assert "| score | 1 | 2 | +100.0 % |" in text
    assert "- 3 attempts (2 finished, 1 failed)" in text
    assert "- `@3` discarded: lost: use a heap" in text
    assert "`loopty measure replay @2`" in text


def test_a_gain_where_lower_is_better_has_a_plus_and_a_sentence_that_says_so():
    text = markdown_text(summary_document(summarize(story_with_a_winner(direction=Direction.MIN))))
    assert text.startswith("# Improve score from 1.0 to 0.5 (+50.0 %)\n")
    assert "Lower values of the first metric are better; in the last column, + means better." in text


def test_without_a_winner_the_text_says_so():
    story = Story()
    story.tries("1", 0.5)
    text = markdown_text(summary_document(summarize(story, None)))
    assert text.startswith("# Run 1: nothing better than the baseline was found")
    assert "there is no change to take over" in text
    assert "loopty measure replay" not in text


def test_what_a_candidate_wrote_stays_text_in_markdown():
    text = markdown_text(summary_document(summarize(story_with_a_winner(HOSTILE), patch="+```\n+</details>")))
    assert "<script>" not in text
    assert "\\[x\\](javascript:alert(1))" in text
    assert "@&#8203;maintainers #&#8203;12" in text
    assert "https:&#8203;//e.example" in text
    assert "\x1b" not in text
    assert "\n````diff\n+```\n" in text  # its fence is longer than any in the text


def test_a_table_cell_cannot_end_its_cell():
    table = SummaryDocument("t", (Section("s", (Table(("a|b", "c"), (("x|y\nz", "1"),)),)),))
    assert markdown_text(table).count("\n") == 7
    assert "| x\\|y z | 1 |" in markdown_text(table)


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_what_a_candidate_wrote_stays_text_in_the_page():
    summary = summarize(story_with_a_winner(HOSTILE), patch=f"+{HOSTILE}")
    page = html_page(summary_document(summary), svg_chart(summary.points))
    tags = _Tags()
    tags.feed(page)
    assert not tags.names & {"script", "img", "a", "iframe", "link", "form"}
    assert not {name for name in tags.attributes if name.startswith("on") or name in ("href", "src")}
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page


def test_the_chart_has_a_mark_for_every_experiment_and_the_best_so_far():
    chart = svg_chart(summarize(story_with_a_winner()).points)
    assert chart.count('<circle class="kept"') == 2  # the baseline and the winner
    assert chart.count('<circle class="discarded"') == 1
    assert chart.count('<circle class="control"') == 1
    assert chart.count('<path class="failed"') == 1
    assert chart.count('class="best"') == 1


def test_without_scores_there_is_no_chart():
    story = Story(baseline=None)
    assert svg_chart(points(story.history, 1)) == ""
    assert "<figure>" not in html_page(SummaryDocument("t", (Section("s", (Bullets(("a",)),)),)), "")


def test_a_long_diff_is_cut_and_says_so():
    summary = summarize(story_with_a_winner(), patch="+a\n" * 2_000)
    (block,) = [
        part
        for section in summary_document(summary).sections
        for part in section.parts
        if isinstance(part, CodeBlock)
    ]
    assert "2,000 lines added" in block.title
    assert "the first 600 lines" in block.title
    assert len(block.text.splitlines()) == 600
