"""Which files score others, by their names and by what they define: no candidate may write what scores it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from loopty.kit.markers import editable_spans

_NAME = re.compile(
    r"(?:eval|grader|grading|scor(?:e|ing)|judge|bench).*|grade|.*[_-](?:eval|evaluator|grader|scorer?|judge)",
    re.IGNORECASE,
)
_FOLDER = re.compile(r"evals?|evaluat(?:ion|or)s?|graders?|grading|judges?|scoring", re.IGNORECASE)
_TOPICS = r"(?:[Ee]valuat(?:e(?:_\w+)?|or)|[Ss]core|[Gg]rade|[Bb]enchmark)"
_WORDS = rf"(?:{_TOPICS}|(?:run|get|compute|calculate)_?(?:{_TOPICS}|[Ee]valuation)|Bench[A-Z]\w*)"
_FUNCTION = re.compile(
    # Python, JavaScript, Go, Rust, Perl, Lua and Ruby at the margin; methods of a class are no evaluators.
    rf"^(?:export\s+(?:default\s+)?|pub(?:\([^)]*\))?\s+|async\s+|local\s+)*(?:def|function\*?|func|fn|sub)\s+"
    rf"{_WORDS}\b"
    rf"|^(?:export\s+)?(?:const|let|var)\s+{_WORDS}\s*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>)"
    rf"|^(?:module\.)?exports\.{_WORDS}\s*="
    rf"|^(?:static\s+|inline\s+|extern\s+\"C\"\s+)*(?:double|float|int|long|auto|void)\s+{_WORDS}\s*\([^;]*$"
    r"|^class\s+\w*Grader\b|^#\[bench\]",
    re.MULTILINE,
)
_PUBLISHES = re.compile(
    r"\bEVO_RESULT_PATH\b|\bLOOPTY_METRICS_CSV\b|\bfrom loopty_sdk import\b|\bfrom evo_agent import\b"
    r"|\brun_shinka_eval\b|\bTaskGrader\b|\bEvaluationResult\b|\boptimize_anything\b"
)
"""What a file has that hands a result to loopty, or to a tool like it."""
_PRINTS_SCORE = re.compile(r"""["'](?:combined_)?score["']\s*:|["'](?:combined_)?score\s*[:=]""")
_MAIN = re.compile(r"^if\s+__name__\s*==|^print\s*\(|^console\.log\(|^process\.stdout", re.MULTILINE)
_CLOCK = re.compile(r"\bperf_counter|\bprocess_time|\btimeit\b|\bperformance\.now\(|\bhrtime\b|\btime\.monotonic")
_EVALUATE = re.compile(r"^def evaluate\(", re.MULTILINE)


def scores_others(path: str, text: str) -> bool:
    """Say whether a source file is named as an evaluator, defines one, or publishes a result.

    A program that marks what may change is none, unless it is named so: text outside the blocks stays as it is.
    """
    name = PurePosixPath(path)
    if _NAME.fullmatch(name.stem) or any(map(_FOLDER.fullmatch, name.parts[:-1])):
        return True
    if has_blocks(text):
        return False
    is_script = _MAIN.search(text) is not None
    return bool(_FUNCTION.search(text) or _PUBLISHES.search(text) or (is_script and _PRINTS_SCORE.search(text)))


def reads_the_clock(text: str) -> bool:
    """Say whether a file measures time: one that a benchmark imports may be what it measures with."""
    return _CLOCK.search(text) is not None


def has_blocks(text: str) -> bool:
    """Say whether EVOLVE-BLOCK lines mark what may change; an unpaired one counts, too."""
    try:
        (first, *others) = editable_spans(text)
    except ValueError:
        return True
    return bool(others) or first.part_of(text) != text


def evaluates_programs(path: str, text: str) -> bool:
    """Say whether a file has `evaluate(program_path)`, as evaluators of OpenEvolve and SkyDiscover do."""
    if not path.endswith(".py") or not _EVALUATE.search(text):
        return False
    import ast  # here, because reading verbs load the facts about repositories

    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    found = [one.args for one in body if isinstance(one, ast.FunctionDef) and one.name == "evaluate"]
    return any(len(one.posonlyargs) + len(one.args) - len(one.defaults) == 1 for one in found)
