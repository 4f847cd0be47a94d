"""Parameters that a program declares itself: what is read, and what a hostile program may not do."""

import random

import pytest

from loopty.domain.proposal import (
    DeclarationFault,
    DeclaredParameter,
    carry_params,
    declaration_refusal,
    declare_after,
    join_space,
)
from loopty.domain.space import Parameter, ParameterKind, Space

STEP = 'loopty parameter: step = { type = "float", low = 0.1, high = 10.0, log = true, default = 1.0 }'
KIND = 'loopty parameter: kind = { type = "categorical", choices = ["a", "b"] }'


@pytest.mark.parametrize("line", [f"# {STEP}", f"  // {STEP}", f"-- {STEP}", f"/* {STEP} */", f"<!-- {STEP} -->"])
def test_a_comment_of_any_language_declares_a_parameter(line):
    declared = declare_after({}, {"a.py": f"x = 1\n{line}\ny = 2\n"})
    assert declared == {
        "step": DeclaredParameter("a.py", Parameter(ParameterKind.FLOAT, 0.1, 10.0, log=True, default=1.0))
    }


def test_prose_and_code_about_declarations_declare_nothing():
    text = f'See the loopty parameter: step.\ntext = "{STEP[:17]}"\n'
    assert declare_after({}, {"a.md": text, "b.bin": b"\xff\x00", "c.py": None}) == {}


def test_declarations_follow_their_file():
    first = declare_after({}, {"a.py": f"# {STEP}", "b.py": f"# {KIND}".encode()})
    assert set(first) == {"step", "kind"}
    assert set(declare_after(first, {"a.py": "x = 1"})) == {"kind"}
    assert set(declare_after(first, {"b.py": None})) == {"step"}
    assert declare_after(first, {"c.py": ""}) == first


def test_values_go_on_where_they_fit():
    first = declare_after({}, {"a.py": f"# {STEP}", "b.py": f"# {KIND}"})
    assert carry_params({}, first, {"x": 3}) == {"x": 3, "step": 1.0, "kind": "a"}
    assert carry_params(first, first, {"step": 7.0, "kind": "b"}) == {"step": 7.0, "kind": "b"}
    narrow = declare_after(first, {"a.py": f"# {STEP.replace('10.0', '2.0')}"})
    assert carry_params(first, narrow, {"step": 7.0, "kind": "b"}) == {"step": 1.0, "kind": "b"}
    assert carry_params(first, {}, {"x": 3, "step": 7.0, "kind": "b"}) == {"x": 3}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("step", "a declaration is one line"),
        ("step = 3", "a declaration is one line"),
        ("a.b = { type = 'int' }", "unknown key|a declaration|needs type"),
        ('"ein text" = { type = "int", low = 0, high = 1 }', "a declaration is one line"),
        ("step = {" + "a = {" * 90 + "}" * 91, "unknown key|a declaration is one line"),
        ("step = " + "[" * 550 + "}", "a declaration is one line"),
        ("step = { type = 'float', low = 0, high = 1" + " " * 600 + "}", "more than 600 characters"),
        ("step = { low = 0, high = 1 }", "needs type"),
        ("step = { type = ['float'], low = 0, high = 1 }", "needs type"),
        ("step = { type = 'float', low = 0, high = 1, when = { a = 1 } }", "unknown key 'when'"),
        ("step = { type = 'float', low = 0, high = nan }", "wrong kind"),
        ("step = { type = 'float', low = -inf, high = 1 }", "wrong kind"),
        ("step = { type = 'float', low = 0, high = 1" + "0" * 400 + " }", "wrong kind"),
        ("step = { type = 'float', low = 1e-300, high = 1, log = true }", "wrong kind"),
        ("step = { type = 'float', low = 0, high = 1, step = 1e-12 }", "step must be above 0"),
        ("step = { type = 'float', low = 0, high = 1, step = -0.1 }", "step must be above 0"),
        ("step = { type = 'float', low = 2, high = 1 }", "no larger than"),
        ("step = { type = 'float', low = true, high = 1 }", "wrong kind"),
        ("step = { type = 'float', low = 0, high = 1, log = 'yes' }", "wrong kind"),
        ("step = { type = 'int', low = 0, high = 9, default = 10 }", "outside"),
        ("step = { type = 'categorical', choices = [] }", "needs choices"),
        ("step = { type = 'categorical', choices = 'ab' }", "wrong kind"),
        ("step = { type = 'categorical', choices = [[1]] }", "wrong kind"),
        ('step = { type = "categorical", choices = ["a\\u001b[2J"] }', "wrong kind"),
        (f"step = {{ type = 'categorical', choices = {list(range(1, 40))} }}", "more than 32 choices"),
    ],
)
def test_a_faulty_declaration_is_refused_with_its_line(table, why):
    with pytest.raises(DeclarationFault, match=rf"src/a\.py, line 2: .*({why})"):
        declare_after({}, {"src/a.py": f"x\n# loopty parameter: {table}\n"})


def test_names_are_unique_and_few():
    other = declare_after({}, {"b.py": f"# {STEP}"})
    assert "which b.py declares already" in declaration_refusal(other, {"a.py": f"# {STEP}"}, Space())
    taken = Space({"step": Parameter(ParameterKind.INT, 0, 1)})
    assert "is a parameter of the task" in declaration_refusal({}, {"a.py": f"# {STEP}"}, taken)
    many = "\n".join(f"# {STEP.replace('step', f'step{n}')}" for n in range(13))
    assert "declares 13 parameters" in declaration_refusal({}, {"a.py": many}, Space())
    assert declaration_refusal({}, {"a.py": f"# {STEP}"}, Space()) is None


def test_every_point_of_the_joint_space_is_a_point_of_it():
    declared = declare_after({}, {"a.py": f"# {STEP}\n# {KIND}"})
    space = join_space(Space({"x": Parameter(ParameterKind.INT, 0, 3)}), declared)
    rng = random.Random(1)
    assert all(space.fault(space.sample(rng)) is None for _ in range(50))
    assert set(space.baseline()) == {"x", "step", "kind"}
