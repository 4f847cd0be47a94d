"""Show how far a study is: one line in a terminal, a line and a chart in a notebook."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from loopty.record.fold import Recorded
from loopty.record.trials import TrialEnded
from loopty.show.chart import svg_chart
from loopty.show.figures import duration
from loopty.show.rated_nodes import points
from loopty.study.pictures import with_style
from loopty.study.results import best_of

if TYPE_CHECKING:
    from loopty.campaign.optimize import OptimizeSession

_TERMINAL_SECONDS, _NOTEBOOK_SECONDS = 0.1, 1.0
_WIDTH = 100


@contextlib.contextmanager
def make_progress(
    session: OptimizeSession, before: int, trials: int | None, wanted: bool | None
) -> Iterator[None]:
    """Show the progress of a session inside the block: by default where somebody can see it."""
    notebook = _notebook_display()
    if wanted is False or (wanted is None and notebook is None and not sys.stderr.isatty()):
        yield
        return
    show = _in_notebook(notebook) if notebook else _in_terminal
    period = _NOTEBOOK_SECONDS if notebook else _TERMINAL_SECONDS
    started, shown, ended = time.monotonic(), 0.0, before

    def draw(is_last: bool = False) -> None:
        history = session.context.history
        best = best_of(history)
        seconds = time.monotonic() - started
        rate = (ended - before) / seconds if seconds else 0.0
        parts = [f"trial {ended}{f'/{trials}' if trials else ''}"]
        if best and best.score is not None:
            parts.append(f"best {best.score:.6g} ({best.name})")
        parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{seconds / max(ended - before, 1):.1f} s each")
        if trials and rate and ended < trials:
            parts.append(f"{duration((trials - ended) / rate)} left")
        show(" · ".join(parts), lambda: svg_chart(points(history, session.run)), is_last)

    def note(recorded: Recorded) -> None:
        nonlocal shown, ended
        if isinstance(recorded.event, TrialEnded):
            ended += 1
            if time.monotonic() - shown >= period:
                draw()
                shown = time.monotonic()

    listeners = session.context.recorder.listeners
    listeners.append(note)
    try:
        yield
    finally:
        listeners.remove(note)
        draw(is_last=True)


def _in_terminal(line: str, _chart: Callable[[], str], is_last: bool) -> None:
    sys.stderr.write(f"\r{line:<{_WIDTH}.{_WIDTH}}" + ("\n" if is_last else ""))
    sys.stderr.flush()


def _in_notebook(display: Any) -> Callable[[str, Callable[[], str], bool], None]:
    handle = display.display(display.HTML(""), display_id=True)

    def show(line: str, chart: Callable[[], str], _is_last: bool) -> None:
        handle.update(display.HTML(f"<p>{line}</p>{with_style(chart())}"))

    return show


def _notebook_display() -> Any:
    """Return IPython's module for output in a notebook; None elsewhere. It is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython and hasattr(ipython, "get_ipython") else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display

    return display
