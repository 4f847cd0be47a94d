"""Models that cost nothing: from a script, and from what was recorded."""

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelFault, Outage, Prompt, Reply, Speaker, Usage
from loopty.models.recorded_model import RecordedModel, make_recorded_model
from loopty.models.scripted_model import ScriptedModel, make_scripted_model

from .spending import RunWithModels


def prompt(text, **how):
    return Prompt("terse", (Message(Speaker.ASKER, text),), **how)


async def test_replies_come_in_their_order_and_then_the_script_is_used_up():
    model = ScriptedModel(["one", Reply("two", Usage(1, 2))], Usage(5, 5))
    assert await model.reply(prompt("a")) == Reply("one", Usage(5, 5))
    assert await model.reply(prompt("b")) == Reply("two", Usage(1, 2))
    with pytest.raises(ModelFault, match="the script is used up: it holds 2 replies") as caught:
        await model.reply(prompt("c"))
    assert not caught.value.transient
    assert [asked.messages[0].text for asked in model.prompts] == ["a", "b", "c"]


async def test_a_function_answers_the_prompt_and_usage_is_estimated():
    model = ScriptedModel(lambda asked: asked.messages[0].text.upper())
    assert await model.reply(prompt("what")) == Reply("WHAT", Usage(3, 1))


async def test_a_script_is_a_file_of_lines(tmp_path):
    file = tmp_path / "replies.jsonl"
    file.write_text(
        '{"text": "one"}\n\n'
        '{"text": "two", "usage": {"input_tokens": 3, "output_tokens": 4}, "whole": false}\n'
        '{"fault": "429: slow", "transient": true, "retry_after_seconds": 7, "usage": {"input_tokens": 1}}\n'
        '{"fault": "400: no"}\n'
    )
    model = make_scripted_model("fake", file)
    assert model.name == "scripted:replies"
    assert (await model.reply(prompt("?"))).text == "one"
    assert await model.reply(prompt("?")) == Reply("two", Usage(3, 4), whole=False)
    with pytest.raises(ModelFault, match="429: slow") as slow:
        await model.reply(prompt("?"))
    assert (slow.value.transient, slow.value.retry_after_seconds, slow.value.usage) == (True, 7, Usage(1))
    with pytest.raises(ModelFault) as refused:
        await model.reply(prompt("?"))
    assert not refused.value.transient


@pytest.mark.parametrize("line", ["text", "[]", "{}", '{"text": "a", "usage": 3}', '"text"'])
def test_a_line_that_is_none_is_named(tmp_path, line):
    (tmp_path / "s").write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(Misuse, match=r"s:2 is no line of a script"):
        make_scripted_model("fake", tmp_path / "s")


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(Misuse, match="there is no script at"):
        make_scripted_model("fake", tmp_path / "none")
    with pytest.raises(Misuse, match="there is no folder"):
        make_recorded_model("old", tmp_path / "none")


async def test_what_was_recorded_is_answered_again_word_for_word(tmp_path):
    desk = RunWithModels(tmp_path)
    said = [
        Reply("one", Usage(9, 2, 1, 1)),
        ModelFault("503", transient=True),
        Reply("two", Usage(8, 8), whole=False),
    ]
    line = desk.line(ScriptedModel(said))
    first, second = await line.ask(prompt("a"), "guess"), await line.ask(prompt("b"), "guess")
    again = RecordedModel(tmp_path / "calls")
    assert await again.reply(prompt("b", max_output_tokens=700)) == second.reply, "whatever is left of a budget"
    assert await again.reply(prompt("a")) == first.reply


async def test_what_was_asked_twice_gets_its_replies_in_their_order(tmp_path):
    desk = RunWithModels(tmp_path)
    line = desk.line(ScriptedModel(["one", "two"]))
    for _ in range(2):
        await line.ask(prompt("a"), "guess")
    again = RecordedModel(tmp_path / "calls")
    assert [(await again.reply(prompt("a"))).text for _ in range(3)] == ["one", "two", "two"]


async def test_a_prompt_of_another_run_gets_the_reply_of_the_one_that_it_is_like(tmp_path):
    desk = RunWithModels(tmp_path)
    line = desk.line(ScriptedModel(["one", "two", "three"]))
    told = '<data-0a1b2c3d of="it">\n1.2 | score 5 | after 0.0078 s\n</data-0a1b2c3d>'
    for text in (told, f"{told}\n1.3", told.replace("5", "7")):
        await line.ask(prompt(text), "guess")
    again = RecordedModel(tmp_path / "calls")
    other = '<data-99999999 of="it">\n2.2 | score 5 | after 1e-05 s\n</data-99999999>'
    assert [(await again.reply(prompt(text))).text for text in (f"{other}\n2.3", other, other)] == [
        "two",
        "one",
        "three",
    ]


async def test_a_prompt_that_was_never_recorded_ends_it_with_the_remedy(tmp_path):
    desk = RunWithModels(tmp_path)
    (tmp_path / "calls").mkdir()
    with pytest.raises(
        Outage, match=r"this prompt is not among the calls recorded in .*: what it is made of has changed"
    ):
        await desk.line(make_recorded_model("old", tmp_path / "calls")).ask(prompt("new"), "guess")
