"""The learning curve of a node, drawn."""

from loopty.domain.objective import Direction
from loopty.domain.trial import Curve
from loopty.show.plot import LearningCurve, curve_chart

NONE = Curve((), Direction.MIN)


def falling(*values):
    return Curve(tuple((float(step), value) for step, value in enumerate(values)), Direction.MIN)


def test_a_curve_is_drawn_from_its_first_step_to_its_last():
    lines = curve_chart(LearningCurve("loss", falling(4.0, 2.0, 0.0), NONE), 30, 5).splitlines()
    assert lines[0] == "loss (lower is better) by step"
    marks = [(row, line.index("●")) for row, line in enumerate(lines) if "●" in line]
    assert [row for row, _ in marks] == [1, 3, 5]
    assert [column for _, column in marks] == sorted(column for _, column in marks)
    assert marks[-1][1] == len(lines[-2]) - 1
    assert lines[-1].split() == ["0", "2"]
    assert max(map(len, lines)) <= 30


def test_the_curve_of_the_parent_stands_beside_it():
    text = curve_chart(LearningCurve("loss", falling(4.0, 1.0), falling(4.0, 3.0, 2.0)), 60, 6)
    assert "· its parent" in text
    assert text.count("●") == 2
    assert text.count("·") == 1 + 2  # their first points meet


def test_a_curve_that_stays_the_same_is_drawn():
    assert curve_chart(LearningCurve("loss", falling(1.0, 1.0), NONE), 30, 4).count("●") == 2
