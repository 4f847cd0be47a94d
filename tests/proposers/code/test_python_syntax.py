"""A change that Python cannot parse is refused before it costs a trial; what was not valid before may stay so."""

from loopty.proposers.code.new_files import new_syntax_error

PROGRAM = "LIMIT = (1,\n2)\n\ndef first(x):\n    return 1\n"


def test_an_error_has_its_place():
    assert new_syntax_error(PROGRAM, PROGRAM.replace("return 1", "return 2")) == ""
    assert new_syntax_error(PROGRAM, PROGRAM.replace("return 1", "return ]")).startswith("line 5: ")


def test_a_program_that_was_not_valid_before_may_stay_so():
    assert new_syntax_error("x = (\n", "x = [\n") == ""
    assert new_syntax_error("", "def f(:\n")
