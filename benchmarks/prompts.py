"""What share of a model's replies applies, runs and improves, by the form of the answer.

    python benchmarks/prompts.py --write prompts.jsonl             # the prompts, as loopty sends them
    python benchmarks/prompts.py --ask prompts.jsonl --url http://localhost:8000/v1 --answers out.jsonl
    python benchmarks/prompts.py --answers recorded/*.jsonl.gz     # apply and run the replies, print the shares

The prompts come from a real run: three changes of each program are tried, then the next prompt is read from the
archive of calls. A reply is read by loopty's own reader, and runs in loopty's sandbox as a node of its own.
"""

import argparse
import gzip
import json
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prompt_programs import PROGRAMS, Program
from prompt_runs import program_run

_VARIANTS = {
    f"{form}{reasons}": f'operators = ["diff"]\nform = "{form}"'
    for form in ("block", "whole", "search", "diff")
    for reasons in ("", ", reasons first")
}
"""Options of the proposer, by the name of the variant. Some recorded prompts asked for reasons; now all do."""
_LONGEST_REPLY = 900
"""Tokens."""


def write_prompts(file: Path, variants: Sequence[str]) -> None:
    """Write the prompt of each program in each variant, a line each."""
    with file.open("w") as out:
        for program in PROGRAMS:
            for name in variants:
                with program_run(_program(program, name), _VARIANTS[name]) as run:
                    row = {"program": program.name, "variant": name, **run.prompt()}
                out.write(json.dumps(row) + "\n")
                print(f"{program.name}, {name}: {len(row['system']) + len(row['user']):,} characters", flush=True)


def ask(file: Path, url: str, model: str, count: int, answers: Path) -> None:
    """Ask a server for replies to the prompts until each has `count`; answers that are there already stay."""
    done = Counter(_key(row) for row in read_rows(answers)) if answers.exists() else Counter()
    prompts = list(read_rows(file))
    for number in range(count):
        for row in prompts:
            if done[_key(row)] > number:
                continue
            text, is_whole = _reply(url, model, row, number)
            entry = {"program": row["program"], "variant": row["variant"], "model": model}
            with answers.open("a") as out:
                out.write(json.dumps({**entry, "whole": is_whole, "text": text}) + "\n")
            print(f"{row['program']}, {row['variant']}, {number + 1}: {len(text):,} characters", flush=True)


def try_answers(files: Sequence[Path], is_verbose: bool) -> None:
    """Apply and run all replies, and print the shares by file and variant."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    rows = [(file.name.split(".jsonl")[0], row) for file in files for row in read_rows(file)]
    for program in dict.fromkeys(_program(program, name) for program in PROGRAMS for name in _VARIANTS):
        with program_run(program) as run:
            for name, row in rows:
                if row["program"] == program.name and _program(program, row["variant"]) == program:
                    result = run.try_reply(row["text"], row["whole"])
                    counts[name, row["variant"]][result if result in _LEVELS else "fault"] += 1
                    if is_verbose:
                        print(f"{name}, {row['variant']}, {program.name}: {result}", flush=True)
    print(f"{'answers':34} {'form':22} replies applies runs improves")
    for (name, variant), count in sorted(counts.items()):
        figures = (sum(count[level] for level in _LEVELS[at:]) for at in range(3))
        print(f"{name:34} {variant:22} {count.total():7} {'{:7} {:4} {:8}'.format(*figures)}")


def _program(program: Program, variant: str) -> Program:
    return program.with_block() if variant.startswith("block") else program


_LEVELS = ("applies", "runs", "improves")


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["program"], row["variant"]


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of prompts or of replies."""
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    yield from map(json.loads, text.splitlines())


def _reply(url: str, model: str, row: dict[str, Any], seed: int) -> tuple[str, bool]:
    messages = [{"role": "system", "content": row["system"]}, {"role": "user", "content": row["user"]}]
    body = {
        "model": model,
        "messages": messages,
        "temperature": 0.7,
        "seed": seed,
        "max_tokens": _LONGEST_REPLY,
    }
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=3_600) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["message"]["content"], choice["finish_reason"] != "length"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write the prompts to this file")
    parser.add_argument("--variant", action="append", choices=_VARIANTS, help="only these variants")
    parser.add_argument("--ask", type=Path, help="ask a server for replies to the prompts in this file")
    parser.add_argument("--url", default="http://localhost:8000/v1", help="the server, with OpenAI's chat API")
    parser.add_argument("--model", default="local", help="the name of the model")
    parser.add_argument("--count", type=int, default=3, help="replies for each prompt")
    parser.add_argument(
        "--answers", type=Path, nargs="+", help="files of replies: to try, or to add to with --ask"
    )
    parser.add_argument("--verbose", action="store_true", help="print how far each reply gets")
    options = parser.parse_args()
    if options.write:
        write_prompts(options.write, options.variant or tuple(_VARIANTS))
    elif options.ask and options.answers:
        ask(options.ask, options.url, options.model, options.count, options.answers[0])
    elif options.answers:
        try_answers(options.answers, options.verbose)
    else:
        parser.error("say --write FILE, --ask FILE --answers FILE, or --answers FILE …")


if __name__ == "__main__":
    main()
