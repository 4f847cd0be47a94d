"""The forms of answers: made from the real file, chosen by what may change, learned for each model."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from loopty.domain.model import Reply, Usage
from loopty.domain.proposal import Objection
from loopty.kit.records import replace
from loopty.proposers.code.answer_forms import Form, choose_form, form_text, usable_forms
from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.novelty import normalise
from loopty.proposers.code.options import Operator
from loopty.proposers.code.replies import parse_changes, parse_items
from loopty.proposers.code.reply_edits import ProposalFault
from loopty.proposers.code.source_files import FileView, ShownFile
from loopty.record.calls import FormCount, ReplyForms

PLAIN = '"""A doc."""\nimport os\n\n\ndef area(x):\n    y = x * 2\n    return y + 7\n'
MARKED = "import os\n# EVOLVE-BLOCK-START\ndef area(x):\n    return x * 2\n# EVOLVE-BLOCK-END\nprint(area(1))\n"


def view(text: str = PLAIN, path: str = "src/main.py", *others: str) -> FileView:
    marked = "EVOLVE" in text
    shown = [ShownFile(path, text, True, marked), *(ShownFile(other, "LIMIT = 10\n", True) for other in others)]
    names = frozenset({path, *others})
    return FileView(names, names, tuple(shown))


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("files", [view(), view(MARKED), view(PLAIN, "src/main.py", "src/other.py")])
def test_no_form_has_filler_that_a_model_could_copy(form: Form, files: FileView) -> None:
    if form is Form.BLOCK and files != view(MARKED):
        return
    text = form_text(form, files)
    assert "src/main.py" in text
    for filler in ("path/of", "lines of the file, exactly", "one line that says", "…"):
        assert filler not in text


@pytest.mark.parametrize("form", [Form.SEARCH, Form.DIFF])
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", PLAIN),
        ("a.py", MARKED),
        ("a.c", "int f(int x) {\n    return x * 2;\n}\n"),
        ("a.lua", "local x = 12\nreturn x\n"),
        ("a.txt", "alpha beta\ngamma\n"),
    ],
)
def test_a_copied_example_applies_and_changes_nothing_but_a_comment(form: Form, path: str, text: str) -> None:
    example = form_text(form, view(text, path))
    item = parse_items(example, True, 1)[0]
    changes = parse_changes(item, {path}, path)
    try:
        edits = apply_changes(changes, {path: text}.get, frozenset())
    except ProposalFault as fault:
        assert fault.objection is Objection.DUPLICATE  # noqa: PT017
    else:
        assert normalise(str(edits[path]), path) == normalise(text, path)
        assert path == "a.txt" or "example" in str(edits[path]), "it shows a change"


def test_the_block_form_names_the_real_marker_lines() -> None:
    text = form_text(Form.BLOCK, view(MARKED))
    assert "between the line `# EVOLVE-BLOCK-START` and the line `# EVOLVE-BLOCK-END`" in text
    assert "```python" in text
    assert "`def area(x):`" in text


def test_forms_fit_what_may_change() -> None:
    assert usable_forms(Operator.DIFF, view(MARKED)) == [Form.BLOCK, Form.WHOLE, Form.SEARCH, Form.DIFF]
    assert usable_forms(Operator.REWRITE, view(MARKED)) == [Form.BLOCK, Form.WHOLE]
    long = MARKED + "print(area(2))\n" * 400
    assert usable_forms(Operator.REWRITE, view(long, "src/main.py", "a.py")) == [Form.WHOLE], "the other file"
    assert usable_forms(Operator.DRAFT, view(long)) == [Form.BLOCK], "most of it must stay as it is"
    assert usable_forms(Operator.DIFF, view(MARKED, "a.py", "b.py")) == [Form.WHOLE, Form.SEARCH, Form.DIFF]
    assert usable_forms(Operator.DIFF, view("x = 1\n" * 9_000)) == [Form.SEARCH, Form.DIFF]
    assert usable_forms(Operator.DRAFT, view("x = 1\n" * 9_000)) == [Form.WHOLE]
    assert usable_forms(Operator.DIFF, view("")) == [Form.WHOLE]
    part = FileView(
        frozenset({"a"}), frozenset({"a"}), (ShownFile("a", "x = 1\n", True, line_range="lines 1 to 1"),)
    )
    assert usable_forms(Operator.REWRITE, part) == [Form.SEARCH, Form.DIFF]


def test_new_files_are_offered_only_where_they_are_allowed() -> None:
    for form in (Form.WHOLE, Form.SEARCH):
        files = view(PLAIN, "src/main.py", "src/other.py")
        assert "new file" in form_text(form, files)
        assert "new file" not in form_text(form, replace(files, may_add=False))


def drawn(counts: dict[str, FormCount], **options: str) -> Counter[str]:
    files = view(MARKED)
    return Counter(
        choose_form(random.Random(seed), Operator.DIFF, files, counts, **options) for seed in range(200)
    )


def test_the_task_file_can_fix_the_form() -> None:
    assert drawn({}, form="diff") == {"diff": 200}
    rewrite = choose_form(random.Random(0), Operator.DRAFT, view(MARKED), {}, "search")
    assert rewrite in (Form.BLOCK, Form.WHOLE), "a form that does not fit is not asked for"


def test_a_model_is_asked_in_the_forms_in_which_its_replies_are_usable() -> None:
    learned = {"block": FormCount(12, 1), "whole": FormCount(12, 1), "search": FormCount(12, 12)}
    shares = drawn(learned)
    assert shares["search"] > 100
    assert drawn({})["search"] < drawn({})["block"]


async def test_usable_replies_repeats_and_cut_off_ones_are_counted_for_the_form_of_their_prompt(
    world: Any, block: Any
) -> None:
    proposer = world.proposer(form="search")
    good = block("    y = x * 2", "    y = x * 3")
    world.end(world.add(await world.get_proposal(proposer, "no change", good)), 2.0)
    await world.get_refusal(proposer, *[block("    y = x * 3", "    y = x * 3  # example")] * 2)
    cut_off = Reply("src/main.py\n<<<<<<< SEARCH\n", Usage(10, 77), whole=False)
    refusal = await world.get_refusal(proposer, cut_off, cut_off)
    assert "cut off after 77 tokens" in refusal.reason
    assert "raise max_output_tokens" in refusal.reason
    forms = ReplyForms.of(world.recorder.history.runs[1])
    assert forms.of_model("scripted:model") == {"search": FormCount(6, 1)}
    assert world.role_model.prompts[-1].form == "search"


async def test_what_a_proposal_of_a_batch_is_worth_is_counted_once(world: Any, block: Any) -> None:
    proposer = world.proposer(batch=2, form="search")
    bodies = [block("    y = x * 2", f"    y = x * {factor}") for factor in (3, 4)]
    reply = "".join(f"=== PROPOSAL {n} ===\n{body}" for n, body in enumerate(bodies, 1)) + "=== END ===\n"
    world.add(await world.get_proposal(proposer, reply))
    world.add(await world.get_proposal(proposer))
    forms = ReplyForms.of(world.recorder.history.runs[1])
    assert forms.of_model("scripted:model") == {"search": FormCount(1, 1)}
