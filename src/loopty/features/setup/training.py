"""Scripts that train a model: their aim is the metric that they print or write, never the time that they take."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.objective import best_score_name, direction_of, says_score
from loopty.kit.records import Record
from loopty.kit.untrusted_files import source_text

_NAME = re.compile(
    r"(?:^|[_-])(?:train(?:ing|er)?|fit(?:ting)?|finetune|fine_tune|cross_?val(?:idate|idation)?)(?:[_-]|$)"
)
_LEARNS = re.compile(
    r"^\s*(?:from|import)\s+(?:sklearn|torch|tensorflow|keras|jax|flax|lightgbm|xgboost|catboost|mlx|paddle|transformers)\b"
    r"|\.fit\(|\.backward\(|\btrain_test_split\b|\bcross_val_score\b|\bgradient|\bepochs?\b|\bval_loss\b",
    re.MULTILINE,
)
_METRIC_FILE = re.compile(
    r"['\"/]((?:[\w.-]+/)*[\w-]*(?:metric|result|score|history|eval)s?[\w-]*\.(?:json|txt|csv))['\"]"
)
_WRITES = re.compile(
    r"['\"][wax]t?\+?['\"]|\.write_text\(|\.to_csv\(|\.to_json\(|savetxt\(|json\.dump\b|\.write\(|writerow"
)
_SEED = re.compile(
    r"\bseed\w*\s*\(|\brandom_state\s*=|\bmanual_seed\b|\bPRNGKey\(|default_rng\(\s*\d|\bseed\s*=\s*\d"
)
_MAIN = re.compile(r"__main__|^(?:for|while|with) |^(?!sys\.path)[A-Za-z_][\w.]*\(|^print\(", re.MULTILINE)


class TrainingScript(Record):
    """A script that trains a model."""

    path: str
    metric_file: str = ""
    """The file that it writes its metrics to, from the top of the repository; empty if it prints them."""
    sets_seed: bool = False
    imports: tuple[str, ...] = ()
    """Modules of the repository that it imports."""

    @property
    def about_seed(self) -> str:
        """Say whether two runs may differ, and what to do about it."""
        if self.sets_seed:
            return "it sets a seed, so runs of the same code give about the same metric"
        return "it sets no seed, so the metric varies: seed it from $LOOPTY_SEED, which differs in each repeat"

    @property
    def command(self) -> str:
        return f"python3 {shlex.quote(self.path)}"

    @property
    def command_with_file(self) -> str:
        """Write the command that hands over what the script writes; a file from before does not count."""
        file = shlex.quote(self.metric_file)
        if self.metric_file.endswith(".csv"):
            return f'rm -f {file} && {self.command} && cp {file} "$LOOPTY_METRICS_CSV"'
        return f"rm -f {file} && {self.command} >&2 && cat {file}"


def training_scripts(top: Path, files: Sequence[str], aside: frozenset[str]) -> list[TrainingScript]:
    """Find the scripts that train, the nearest to the top first; none of those `aside`, as tests."""
    named = [
        path
        for path in files
        if path.endswith(".py") and path not in aside and _NAME.search(PurePosixPath(path).stem)
    ]
    named.sort(key=lambda path: (path.count("/"), len(path), path))
    return [script for path in named if (script := _script(path, source_text(top / path), files))]


def _script(path: str, text: str, files: Sequence[str]) -> TrainingScript | None:
    if not (_LEARNS.search(text) and _MAIN.search(text)):
        return None
    return TrainingScript(
        path, _metric_file(path, text), bool(_SEED.search(text)), tuple(_own_modules(text, files))
    )


def _metric_file(path: str, text: str) -> str:
    found = _METRIC_FILE.findall(text) if _WRITES.search(text) else []
    if not found:
        return ""
    folder = posixpath.dirname(path) if "__file__" in text else ""
    return posixpath.normpath(posixpath.join(folder, found[-1].lstrip("/")))


def _own_modules(text: str, files: Sequence[str]) -> Iterator[str]:
    for name in re.findall(r"^\s*(?:from|import)\s+\.?([A-Za-z_]\w*)", text, re.MULTILINE):
        if any(file.endswith(f"{name}.py") or file.startswith(f"{name}/") for file in files):
            yield name


def metric_of(names: Sequence[str]) -> str:
    """Choose the number that a training aims at: a quality or a loss, of unseen data if there is one; or empty."""
    known = [name for name in names if says_score(name) and direction_of(name)]
    return best_score_name(known) if known else ""
