"""Prose can be edited at random, so that a search over prompts has a control."""

import random

import pytest

from loopty.proposers.mutation import mutate

PROMPT = """You are a careful assistant. Answer the question step by step.

- Read the question twice.
- If you are unsure, say so.
Always end with a single line: the answer.
"""


@pytest.mark.parametrize("path", ["prompt.md", "prompt.txt", "prompts/system.j2", "notes.unknown"])
def test_every_seed_changes_a_prompt(path):
    for seed in range(40):
        mutation = mutate(PROMPT, path, random.Random(seed))
        assert mutation is not None
        assert mutation.text != PROMPT
        assert mutation.text.strip()
        assert mutation.summary


def test_the_edits_move_what_is_there_and_invent_nothing():
    words = set(PROMPT.split())
    for seed in range(200):
        assert set(mutate(PROMPT, "prompt.md", random.Random(seed)).text.split()) <= words


def test_sentences_and_words_are_edited():
    mutations = [mutate(PROMPT, "prompt.md", random.Random(seed)) for seed in range(200)]
    assert {mutation.operator for mutation in mutations} == {"passage", "word"}
    moves = {mutation.summary.split(" ")[0] for mutation in mutations}
    assert moves == {"delete", "duplicate", "swap"}


def test_the_only_sentence_is_never_left_out():
    for seed in range(60):
        mutation = mutate("Answer briefly and politely.", "prompt.txt", random.Random(seed))
        assert len(mutation.text.split()) >= 1


def test_only_the_marked_part_of_a_prompt_changes():
    text = (
        "Keep this. And this.\n<!-- EVOLVE-BLOCK-START -->\n" + PROMPT + "<!-- EVOLVE-BLOCK-END -->\nAnd that.\n"
    )
    for seed in range(60):
        changed = mutate(text, "prompt.md", random.Random(seed)).text
        assert changed.startswith("Keep this. And this.\n<!-- EVOLVE-BLOCK-START -->\n")
        assert changed.endswith("<!-- EVOLVE-BLOCK-END -->\nAnd that.\n")


def test_a_number_in_a_prompt_is_edited_too():
    mutations = [mutate("Answer in 5 words. Be kind.", "prompt.md", random.Random(seed)) for seed in range(60)]
    assert "number" in {mutation.operator for mutation in mutations}


def test_code_without_a_place_for_edits_stays_as_it_is():
    assert mutate("// nothing here\n", "empty.c", random.Random(1)) is None
