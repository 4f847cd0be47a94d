"""Fault injection: a fleet of coding agents in which 30 % of the sessions hang, crash or loop.

    python benchmarks/stalls.py [--attempts 30] [--limit-seconds 120] [--json out.json]

The same fleet works twice on the same task: with the default handling of stalls, and without it. The agents
are scripts that print the stream of Claude Code; a fault leaves half an edit behind, as real ones do. Without
the handling, a session that hangs or loops lasts until its time limit. The default limit is 1,800 s; here it
is shorter, so that what is burnt without the handling is underestimated.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import repository

AGENT = """\
step() {  # an answer of the model, with its tokens
  printf '{"type":"assistant","message":{"id":"%s","content":[{"type":"text","text":"One more step."}],' "$1"
  echo '"usage":{"input_tokens":1500,"output_tokens":200}}}'
  sleep "$PACE"
}
echo '{"type":"system","session_id":"s"}'
number=$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')
fault=none
test $((number % 10)) -lt 3 && case $((number / 10 % 3)) in 0) fault=hang;; 1) fault=crash;; 2) fault=loop;; esac
step a; step b
if test $fault != none; then echo half > src/x.txt; fi
case $fault in
  hang) exec sleep 100000;;
  crash) echo "out of memory" >&2; exit 3;;
  loop) n=0
    while :; do
      n=$((n + 1)); step loop$n
      echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":"make"}]}}'
      echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true}]}}'
    done;;
esac
step c; step d
echo $number.$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') > src/x.txt
echo '{"type":"result","result":"SUMMARY: '$number'","usage":{"input_tokens":6000,"output_tokens":800}}'
"""
_BENCHMARK = 'echo "{\\"score\\": $(cat src/x.txt)}" > "$EVO_RESULT_PATH"\n'
_TASK = """\
width = 4
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
[access]
write = ["src/**"]
[noise]
repeat = "never"
confirm = 0
[budget]
attempts = {attempts}
[proposer]
kind = "agent"
agent = "command"
stream = "claude"
timeout_seconds = {limit}
[proposer.stalls]
watch = {watch}
[[proposer.agents]]
name = "quick"
weight = 2
command = "PACE=0.5 sh agent.sh"
[[proposer.agents]]
name = "steady"
command = "PACE=1 sh agent.sh"
[[proposer.agents]]
name = "slow"
command = "PACE=2 sh agent.sh"
"""


def run_fleet(loopty: Path, folder: Path, attempts: int, limit_seconds: float, watch: bool) -> dict[str, Any]:
    """The figures of one run."""
    env = repository.environment(folder.parent / "home")
    repository.create(folder, 1, env)
    files = {
        "agent.sh": AGENT,
        "bench.sh": _BENCHMARK,
        "src/x.txt": "0\n",
        "loopty.toml": _TASK.format(attempts=attempts, limit=limit_seconds, watch=str(watch).lower()),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    repository.commit_all(folder, env)
    subprocess.run([loopty, "trust", "--yes"], cwd=folder, env=env, check=True, capture_output=True)
    since = time.monotonic()
    subprocess.run([loopty, "optimize"], cwd=folder, env=env, capture_output=True, check=False)
    seconds = time.monotonic() - since
    status = json.loads(subprocess.check_output([loopty, "status", "--json"], cwd=folder, env=env))
    return {"seconds": seconds, **_figures(status)}


def _figures(status: dict[str, Any]) -> dict[str, Any]:
    agents, attempts = status["agents"], next(row for row in status["counts"] if row["pool"] == "attempt")

    def total(name: str) -> int:
        return sum(row[name] for row in agents)

    tokens, good = total("tokens"), attempts["endings"].get("finished", 0)
    stalls: dict[str, int] = {}
    for row in agents:
        for kind, count in row["stalls"].items():
            stalls[kind] = stalls.get(kind, 0) + count
    return {
        "sessions": total("sessions"),
        "stalls": stalls,
        "stall_rate": sum(row["stall_rate"] * row["sessions"] for row in agents) / max(total("sessions"), 1),
        "attempts": attempts["started"],
        "attempts_lost": attempts["started"] - good,
        "tokens": tokens,
        "tokens_of_results": good * 6800,
        "tokens_burnt": max(tokens - good * 6800, 0),
        "tokens_salvaged": total("salvaged_tokens"),
        "longest_detection_seconds": max((row["longest_stall_seconds"] for row in agents), default=0.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loopty", type=Path, default=Path(sys.executable).with_name("loopty"))
    parser.add_argument("--attempts", type=int, default=30)
    parser.add_argument("--limit-seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, watch in (("with", True), ("without", False)):
            folder = Path(scratch) / name / "repo"
            folder.parent.mkdir()
            figures[name] = run_fleet(arguments.loopty, folder, arguments.attempts, arguments.limit_seconds, watch)
            print(name, json.dumps(figures[name]), flush=True)
    burnt = {
        name: run["tokens_burnt"] / max(run["attempts"] - run["attempts_lost"], 1) for name, run in figures.items()
    }
    saved = 1 - burnt["with"] / burnt["without"] if burnt["without"] else 0.0
    words = f"{burnt['with']:.0f} with, {burnt['without']:.0f} without: {saved:.0%} saved"
    print(f"tokens burnt for each result: {words}")
    if arguments.json:
        arguments.json.write_text(json.dumps({**figures, "saved": saved}, indent=1))


if __name__ == "__main__":
    main()
