"""Choose the form of a model's answer: by what may change, and by how often its replies were usable so far.

A draw from the posterior of each form, divided by what a reply in it costs, decides. So does one for reasons first
or not. Both are counted over all of a model's replies in the run; the random generator is that of the question.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from loopty.kit.token_count import tokens
from loopty.proposers.code.answer_forms import AnswerForm, Form, block_file
from loopty.proposers.code.code_options import Operator
from loopty.proposers.code.source_files import FileView
from loopty.record.reply_forms import FormCount

_LONGEST_WHOLE = 4_000
"""Tokens of the writable files: longer ones are not asked for as a whole, unless they are to be rewritten."""
_TOKENS_PER_PRICE = 2_000
"""A reply of this many tokens costs twice as much as an empty one: the trial and the prompt cost as well."""
_PART_OF_FILE = 3
"""A change of some lines is about a third of a small file."""
_PRIOR = {Form.BLOCK: (3, 2), Form.WHOLE: (4, 2), Form.SEARCH: (2, 2), Form.DIFF: (2, 2)}
"""Usable and other replies, about as small models gave them before (docs/models.md)."""
_REASONS_PRIOR = {True: (2, 2), False: (3, 2)}
"""The same, with reasons first or not: few, because larger models may differ."""


def choose_form(
    rng: random.Random,
    operator: Operator,
    files: FileView,
    counts: Mapping[str, FormCount],
    form: str = "auto",
    reasons: str = "auto",
) -> AnswerForm:
    """The form for one question. `form` and `reasons` are the options of the task file; `auto` learns."""
    usable = usable_forms(operator, files)
    fixed = Form(form) if form != "auto" else None
    size = sum(tokens(file.text) for file in files.shown if file.writable)

    def form_worth(each: Form) -> float:
        return _draw(rng, _PRIOR[each], counts, lambda name: _form_of(name) == each) / _price(each, size)

    def reasons_worth(first: bool) -> float:
        return _draw(rng, _REASONS_PRIOR[first], counts, lambda name: _has_reasons(name) == first)

    chosen = fixed if fixed in usable else max(usable, key=form_worth) if len(usable) > 1 else usable[0]
    first = max((True, False), key=reasons_worth) if reasons == "auto" else reasons == "always"
    return AnswerForm(chosen, first)


def usable_forms(operator: Operator, files: FileView) -> list[Form]:
    """The forms that fit what may change; at least one."""
    shown = [file for file in files.shown if file.writable]
    whole = [file for file in shown if not file.line_range]
    size = sum(tokens(file.text) for file in shown)
    rewrites = operator in (Operator.REWRITE, Operator.DRAFT)
    forms = [Form.BLOCK] if block_file(files) else []
    if whole and (size <= _LONGEST_WHOLE or rewrites):
        forms.append(Form.WHOLE)
    has_lines = any(file.text.strip() for file in shown)
    if has_lines and not (rewrites and forms):
        forms += [Form.SEARCH, Form.DIFF]
    return forms or [Form.SEARCH]


def _draw(
    rng: random.Random, prior: tuple[int, int], counts: Mapping[str, FormCount], matches: Callable[[str], bool]
) -> float:
    matching = [count for name, count in counts.items() if matches(name)]
    usable, asked = sum(count.usable for count in matching), sum(count.asked for count in matching)
    return rng.betavariate(prior[0] + usable, prior[1] + asked - usable)


def _price(form: Form, size: int) -> float:
    length = size if form in (Form.BLOCK, Form.WHOLE) else size // _PART_OF_FILE
    return 1 + length / _TOKENS_PER_PRICE


def _form_of(name: str) -> str:
    return name.partition(",")[0]


def _has_reasons(name: str) -> bool:
    return "," in name
