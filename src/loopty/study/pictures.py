"""Charts of a study as SVG, for notebooks and files."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.show.chart import svg_chart
from loopty.show.parameters import FEWEST_TRIALS, parameter_importance
from loopty.show.plot import round_step, tick_labels
from loopty.show.rated_nodes import points
from loopty.study.results import FinishedTrial, runs_of_study

_STYLE = """<style>
svg.loopty{max-width:960px;font:12px system-ui,sans-serif;background:#fff}
.loopty text{fill:#57606a}.loopty .grid{stroke:#d8dee4}.loopty .line{fill:none;stroke:#8c959f;stroke-opacity:.5}
.loopty circle,.loopty path{fill:#8c959f}.loopty .kept{fill:#1a7f37}.loopty .best{fill:none;stroke:#1a7f37}
.loopty .failed{fill:none;stroke:#cf222e}.loopty rect.bar{fill:#0969da}.loopty .on{stroke:#1a7f37;stroke-opacity:1}
</style>"""
_WIDTH, _HEIGHT = 960, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 26, 36
_CELLS = 24
_MOST_LINES = 400


class Picture(Record):
    """A chart.

    >>> import loopty
    >>> study = loopty.optimize(lambda trial: trial.params["x"], {"x": [1, 3]}, trials=2, progress=False)
    >>> study.plot.history().save("history.svg")
    """

    svg: str

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the chart to a file."""
        Path(path).write_text(self.svg)


class Plots:
    """The charts of one study."""

    def __init__(self, history: History, trials: Sequence[FinishedTrial], direction: Direction) -> None:
        self._history = history
        self._trials = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
        self._direction = direction

    def history(self) -> Picture:
        """Draw the score of every trial, and the best so far: the chart of the page."""
        runs = runs_of_study(self._history)
        return Picture(with_style(svg_chart(points(self._history, runs[-1])) if runs else ""))

    def importance(self) -> Picture:
        """Draw how much of the differences in rank each parameter explains; needs twenty trials."""
        runs = runs_of_study(self._history)
        found = parameter_importance(self._history, runs[-1]) if runs else []
        if not found:
            raise Misuse(f"too few trials to say which parameter matters: it takes {FEWEST_TRIALS}")
        parts = [_text(_LEFT, 14, "share of the differences in rank", "start")]
        for row, each in enumerate(found):
            y, width = 30 + 26 * row, each.share * (_WIDTH - _LEFT - 160)
            parts.append(_text(_LEFT + 60, y + 13, each.name, "end"))
            parts.append(f'<rect class="bar" x="{_LEFT + 66}" y="{y}" width="{width:.1f}" height="18"/>')
            parts.append(_text(_LEFT + 72 + width, y + 13, f"{100 * each.share:.0f} %", "start"))
        return _picture("importance of parameters", parts, height=40 + 26 * len(found))

    def slice(self, *names: str) -> Picture:
        """Draw the scores against each parameter, or against those that are named."""
        chosen = self._chosen(names)
        scores = _Axis([trial.score for trial in self._trials if trial.score is not None])
        parts: list[str] = []
        for row, name in enumerate(chosen):
            top = row * _HEIGHT
            having = [trial for trial in self._trials if name in trial.params]
            axis = _Axis([trial.params[name] for trial in having])
            parts += _frame(axis, scores, name, "score", top)
            parts += [_dot(axis.x(trial.params[name]), scores.y(trial.score) + top) for trial in having]
        return _picture("scores by parameter", parts, height=_HEIGHT * len(chosen))

    def contour(self, first: str, second: str) -> Picture:
        """Draw where good scores lie in the plane of two parameters; darker is better."""
        first, second = self._chosen((first, second))
        having = [trial for trial in self._trials if first in trial.params and second in trial.params]
        across, up = _Axis([t.params[first] for t in having]), _Axis([t.params[second] for t in having])
        ranked = sorted(having, key=lambda trial: self._direction.sign * (trial.score or 0.0))
        rank = {trial.number: place / max(len(ranked) - 1, 1) for place, trial in enumerate(ranked)}
        known = [(across.share(t.params[first]), up.share(t.params[second]), rank[t.number]) for t in having]
        wide, high = (_WIDTH - _LEFT - _RIGHT) / _CELLS, (_HEIGHT - _TOP - _BOTTOM) / _CELLS
        parts = []
        for column in range(_CELLS):
            for row in range(_CELLS):
                shade = _near((column + 0.5) / _CELLS, 1 - (row + 0.5) / _CELLS, known)
                parts.append(
                    f'<rect x="{_LEFT + column * wide:.1f}" y="{_TOP + row * high:.1f}" width="{wide + 0.5:.1f}" '
                    f'height="{high + 0.5:.1f}" fill="#0969da" fill-opacity="{0.8 * shade:.2f}"/>'
                )
        parts += _frame(across, up, first, second, 0)
        parts += [_dot(across.x(t.params[first]), up.y(t.params[second])) for t in having]
        return _picture("scores over two parameters", parts)

    def parallel(self, *names: str) -> Picture:
        """Draw a line for each trial through its values; the best tenth stands out."""
        chosen = self._chosen(names)
        having = [trial for trial in self._trials if all(name in trial.params for name in chosen)]
        having.sort(key=lambda trial: self._direction.sign * (trial.score or 0.0))
        axes = [_Axis([trial.params[name] for trial in having]) for name in chosen]
        scores = _Axis([trial.score for trial in having if trial.score is not None])
        stride = (_WIDTH - _LEFT - 60) / max(len(chosen), 1)
        shown = having[-_MOST_LINES:]
        parts = []
        for place, trial in enumerate(shown):
            values = [axis.y(trial.params[name]) for axis, name in zip(axes, chosen, strict=True)]
            line = " ".join(
                f"{_LEFT + at * stride:.1f},{y}" for at, y in enumerate([*values, scores.y(trial.score)])
            )
            good = " on" if place >= len(shown) - math.ceil(len(shown) / 10) else ""
            parts.append(f'<polyline class="line{good}" points="{line}"/>')
        for at, (name, axis) in enumerate(zip([*chosen, "score"], [*axes, scores], strict=True)):
            x = _LEFT + at * stride
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
            parts.append(_text(x, 14, name, "middle"))
            parts += [_text(x - 4, axis.y(value) + 4, label, "end") for value, label in axis.ticks()]
        return _picture("trials as lines", parts)

    def _chosen(self, names: Sequence[str]) -> list[str]:
        known = list(dict.fromkeys(name for trial in self._trials for name in trial.params))
        if not known:
            raise Misuse("there is no finished trial with parameters yet")
        if wrong := next((name for name in names if name not in known), None):
            raise Misuse(f"no trial has a parameter {wrong!r}: there are {', '.join(known)}")
        return list(names) or known


class _Axis:
    """Maps values to shares of an axis: numbers, on a logarithmic scale where they span decades, or choices."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._choices: list[str] = []
        if any(isinstance(value, str | bool) for value in values):
            self._choices = sorted(set(map(str, values)))
            self._low, self._high = 0.0, float(len(self._choices) - 1)
            return
        numbers = [float(value) for value in values] or [0.0]
        self._log = min(numbers) > 0 and max(numbers) / min(numbers) >= 100
        self._low, self._high = self._position(min(numbers)), self._position(max(numbers))

    def _position(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def share(self, value: Value | None) -> float:
        """Return where the value lies, from 0 to 1."""
        if value is None or self._low == self._high:
            return 0.5
        at = self._choices.index(str(value)) if self._choices else self._position(float(value))
        return (at - self._low) / (self._high - self._low)

    def x(self, value: Value | None) -> float:
        return round(_LEFT + self.share(value) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: Value | None) -> float:
        return round(_HEIGHT - _BOTTOM - self.share(value) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def ticks(self) -> list[tuple[Value, str]]:
        """List some values with their labels."""
        if self._choices:
            return [(choice, choice[:16]) for choice in self._choices[:12]]
        if self._low == self._high:
            value = 10**self._low if self._log else self._low
            return [(value, f"{value:.4g}")]
        step = round_step((self._high - self._low) / 5)
        first = math.ceil(self._low / step)
        places = [number * step for number in range(first, math.floor(self._high / step) + 1)]
        if self._log:
            return [(10**place, f"{10**place:.3g}") for place in places]
        return list(zip(places, tick_labels(places), strict=True))


def with_style(svg: str) -> str:
    """Give a chart of the terminal's and the page's module its own colours, so that it stands alone."""
    return svg.replace("<svg ", '<svg class="loopty" xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f">{_STYLE}", 1
    )


def _picture(name: str, parts: Sequence[str], height: int = _HEIGHT) -> Picture:
    body = "\n".join(parts)
    svg = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">{body}</svg>'
    return Picture(with_style(svg))


def _frame(across: _Axis, up: _Axis, name: str, upwards: str, top: int) -> list[str]:
    bottom = _HEIGHT - _BOTTOM + top
    parts = [_text(_LEFT, 14 + top, f"{upwards} upwards", "start"), _text(_WIDTH / 2, bottom + 32, name, "middle")]
    for value, label in up.ticks():
        y = up.y(value) + top
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(_text(_LEFT - 8, y + 4, label, "end"))
    return [*parts, *(_text(across.x(value), bottom + 16, label, "middle") for value, label in across.ticks())]


def _dot(x: float, y: float) -> str:
    return f'<circle cx="{x}" cy="{y}" r="2.6"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text[:60])}</text>'


def _near(x: float, y: float, known: Sequence[tuple[float, float, float]]) -> float:
    """Return the mean rank of the trials around a place, nearer ones counting more."""
    weight: Callable[[float, float], float] = lambda a, b: 1 / ((a - x) ** 2 + (b - y) ** 2 + 1e-3) ** 2  # noqa: E731
    weights = [weight(a, b) for a, b, _ in known]
    return sum(w * rank for w, (_, _, rank) in zip(weights, known, strict=True)) / (sum(weights) or 1.0)
