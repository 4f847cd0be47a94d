from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.proposers.parameters.prompts import reply_schema, space_text
from loopty.testing.proposer_suite import SPACE


def test_the_space_is_described_with_types_bounds_scales_steps_choices_and_conditions() -> None:
    text = space_text(
        Space({**SPACE.parameters, "even": Parameter(ParameterKind.INT, 0, 12345678, step=2.0, default=0)})
    )
    assert text.splitlines() == [
        "- `x`: float from -5 to 5, both included; 0 in the baseline",
        "- `rate`: float from 0.0001 to 1, both included; on a logarithmic scale; 0.01 in the baseline",
        "- `n`: int from 1 to 8, both included; 5 in the baseline",
        '- `method`: one of "a", "b"; "a" in the baseline',
        '- `depth`: int from 1 to 3, both included; 2 in the baseline; exists only while `method` is "b"',
        "- `even`: int from 0 to 12345678, both included; in steps of 2; 0 in the baseline",
    ]


def test_the_schema_has_choices_and_bounds_and_allows_null_for_conditional_parameters() -> None:
    mixed = Parameter(ParameterKind.CATEGORICAL, choices=("a", 3, True), when={"n": 1})
    schema = reply_schema(Space({**SPACE.parameters, "mixed": mixed}))
    parameters = schema["properties"]["proposals"]["items"]["properties"]["parameters"]
    assert parameters["properties"] == {
        "x": {"type": "number", "minimum": -5.0, "maximum": 5.0},
        "rate": {"type": "number", "minimum": 1e-4, "maximum": 1.0},
        "n": {"type": "integer", "minimum": 1, "maximum": 8},
        "method": {"type": "string", "enum": ["a", "b"]},
        "depth": {"type": ["integer", "null"], "minimum": 1, "maximum": 3},
        "mixed": {"type": ["boolean", "integer", "string", "null"], "enum": ["a", 3, True, None]},
    }
    assert parameters["required"] == list(parameters["properties"])
    assert schema["required"] == ["proposals"]
