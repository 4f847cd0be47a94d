"""What parts of real models' changes are worth by themselves: the operator `part` on recorded replies.

    python benchmarks/prompt_parts.py benchmarks/recorded/*.jsonl.gz

Each change that runs and has from 2 to 16 parts is taken apart: of one that is better than the program, each part
is left out, and of another one, each part is tried alone. A part pays where it is better than the program and than
the change.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from prompt_programs import PROGRAMS
from prompt_runs import ProgramRun, program_run
from prompts import read_rows

from loopty.proposers.code.change_parts import change_parts, text_with_part

_MOST_PARTS = 16


def main(files: list[Path]) -> None:
    rows = [row for file in files for row in read_rows(file)]
    counts = Counter[str]()
    for program in PROGRAMS:
        for each in dict.fromkeys((program, program.with_block())):
            is_block = each is not program
            own = [
                row
                for row in rows
                if row["program"] == program.name and row["variant"].startswith("block") is is_block
            ]
            with program_run(each) as run:
                texts = {run.read_reply(row["text"], row["whole"])[0] for row in own}
                for text in sorted(filter(None, texts)):
                    counts += _count_parts(run, text)
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")


def _count_parts(run: ProgramRun, text: str) -> Counter[str]:
    """What became of one change and of its parts."""
    found, whole = Counter({"different changes": 1}), run.gain(text)
    if whole is None:
        return found
    parts = list(_with_each_part(run.program.path, run.program.text, text, whole > 0))
    kind = "better" if whole > 0 else "not better"
    found[f"changes that run and are {kind}"] += 1
    if parts:
        found[f"changes that are {kind}, with parts"] += 1
    gains = [run.gain(part) for part in parts]
    found[f"parts of changes that are {kind}"] += len(gains)
    found[f"parts of changes that are {kind}: run"] += sum(gain is not None for gain in gains)
    paying = sum(gain is not None and gain > max(whole, 0.0) for gain in gains)
    found[f"parts of changes that are {kind}: better than both"] += paying
    found[f"changes that are {kind}, with a part that is better than both"] += paying > 0
    return found


def _with_each_part(path: str, before: str, after: str, is_left_out: bool) -> Iterator[str]:
    parts = change_parts(path, before, after)
    if 2 <= len(parts) <= _MOST_PARTS:
        for part in parts:
            base = after if is_left_out else before
            text = text_with_part(part.reversed if is_left_out else part, base, base)
            if text is not None and text not in (before, after):
                yield text


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
