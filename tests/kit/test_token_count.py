"""The one estimate of tokens."""

from loopty.kit.model_text import byte_size, tokens, tokens_for_bytes, tokens_of_data


def test_a_text_has_one_token_per_four_bytes_and_never_more_tokens_than_bytes():
    assert [tokens(text) for text in ("", "a", "abcd", "abcde", "ä" * 4, "\udcff")] == [0, 1, 1, 2, 2, 1]
    assert byte_size("ä\udcff") == 5


def test_bytes_counted_piece_by_piece_give_the_same_estimate():
    text = "unroll the inner loop, über alles"
    assert tokens_for_bytes(sum(byte_size(letter) for letter in text)) == tokens(text)


def test_in_data_each_digit_sign_and_foreign_letter_counts_and_words_count_by_pieces():
    assert tokens_of_data("3.14159, -1") == 10
    assert tokens_of_data("return measured") == 4
    assert tokens_of_data("\n\n        x\t\ty") == 5
    assert tokens_of_data("量\udcff") == 6
    assert tokens_of_data(" " * 100) == tokens(" " * 100), "never less than the common estimate"
