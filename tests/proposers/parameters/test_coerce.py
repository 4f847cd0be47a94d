import pytest

from loopty.domain.space import Parameter, ParameterKind
from loopty.proposers.parameters.replies import coerce_value

FLOAT = Parameter(ParameterKind.FLOAT, -5.0, 5.0)
STEPPED = Parameter(ParameterKind.FLOAT, 0.0, 1.05, step=0.1)
INT = Parameter(ParameterKind.INT, 1, 9, step=2.0)
WORDS = Parameter(ParameterKind.CATEGORICAL, choices=("relu", "GELU", 3, 0.5, True))


@pytest.mark.parametrize(
    ("parameter", "word", "value"),
    [
        (FLOAT, 1.5, 1.5),
        (FLOAT, 2, 2.0),
        (FLOAT, " 1e-3 ", 0.001),
        (FLOAT, 5.0000000001, 5.0),
        (STEPPED, 0.3, 0.0 + 3 * 0.1),
        (INT, 3.0, 3),
        (INT, "7", 7),
        (WORDS, "relu", "relu"),
        (WORDS, " ReLU", "relu"),
        (WORDS, "gelu", "GELU"),
        (WORDS, "3", 3),
        (WORDS, 3.0, 3),
        (WORDS, "0.5", 0.5),
        (WORDS, "true", True),
    ],
)
def test_a_value_in_another_notation_is_accepted_without_a_note(parameter, word, value) -> None:
    coerced = coerce_value("p", parameter, word)
    assert coerced.value == value
    assert type(coerced.value) is type(value)
    assert coerced.note == ""
    assert parameter.accepts(coerced.value)


@pytest.mark.parametrize(
    ("parameter", "word", "value"),
    [
        (FLOAT, 7.2, 5.0),
        (FLOAT, "-1e30", -5.0),
        (STEPPED, 0.44, 0.4),
        (STEPPED, 1.05, 1.0),
        (STEPPED, 2, 1.0),
        (INT, 4.4, 5),
        (INT, 0, 1),
        (INT, 10**300, 9),
    ],
)
def test_a_value_outside_the_range_becomes_the_nearest_one_with_a_note(parameter, word, value) -> None:
    coerced = coerce_value("p", parameter, word)
    assert coerced.value == pytest.approx(value)
    assert parameter.accepts(coerced.value)
    assert coerced.note.startswith("p ")


@pytest.mark.parametrize("word", [True, False, "large", "", "nan", "inf", [1], {"value": 1}, 10**400, "1.5 %"])
def test_a_value_that_is_not_a_number_is_refused(word) -> None:
    for parameter in (FLOAT, STEPPED, INT):
        with pytest.raises(ValueError, match=r"^p = .* is not a number$"):
            coerce_value("p", parameter, word)


@pytest.mark.parametrize("word", ["silu", "", 4, False, ["relu"], {}, "x" * 100_000])
def test_a_value_that_is_not_a_choice_is_refused_with_the_choices(word) -> None:
    with pytest.raises(ValueError, match=r'is not one of "relu", "GELU", 3, 0\.5, true') as refused:
        coerce_value("p", WORDS, word)
    assert len(str(refused.value)) < 200


def test_a_word_that_matches_two_choices_is_refused() -> None:
    with pytest.raises(ValueError, match="not one of"):
        coerce_value("p", Parameter(ParameterKind.CATEGORICAL, choices=("A", "a ")), " a")
