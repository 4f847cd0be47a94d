"""The simulated model of `search_coder.py` on OpenAI's wire: one seeded model for loopty and for other tools.

The tool decides what it shows and which form it asks for. The operator is read off the request, the program off
its section, the form of the reply off the instructions. Whoever shows an unfinished program gets a fix.
"""

from __future__ import annotations

import difflib
import hashlib
import http.server
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from search_coder import CHEAP, Coder
from search_landscape import Genome, Landscape
from search_program import UNFINISHED, program_text, programs, within_range

_HERE = re.compile(r"(?im)^#+ *(the program: node .*|current program|current component) *$")
"""The heading of the program to change. `Current Program Information` is another one."""
_REQUESTS = (
    ("Solve the task anew", "draft"),
    ("strengths of both programs", "crossover"),
    ("crossover", "crossover"),
    ("Rewrite the program", "rewrite"),
    ("rewrite the program", "rewrite"),
    ("Change the program so that", "diff"),
    ("SEARCH", "diff"),
)
"""Words of the last part of a prompt, and the operator that they ask for; the first that occur count."""
_LAST_PART = 3_000
_OTHERS_USED = 0.1
"""How often a model that is shown other programs combines with one of them without a request for it."""
_FREE_DIFFS = 0.7
"""Who asks for a better version without saying how gets a small change this often, else a rewrite."""


class SimulatedModel:
    """Answers prompts. The same question again gets another answer, in whichever order questions come."""

    def __init__(self, land: Landscape, seed: int) -> None:
        self.calls = 0
        self.tokens = 0
        self._land = land
        self._coder = Coder(CHEAP, land)
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reply(self, prompt: str) -> str:
        digest = hashlib.sha256(prompt.encode()).hexdigest()
        with self._lock:
            self._asked[digest] += 1
            rng = random.Random(f"{self._seed} {digest} {self._asked[digest]}")
        here = _HERE.search(prompt)
        shown = programs(prompt, self._land.shape.blocks)
        now = next((one for one in shown if here and one[0] > here.start()), shown[-1] if shown else None)
        if now is None:
            return "There is no program in this question."
        start, written = now
        parent = within_range(written, self._land)
        others = [within_range(genome, self._land) for at, genome in shown if at != start and genome != written]
        is_unfinished = UNFINISHED in prompt[start : start + len(program_text(written, True))]
        was_broken = is_unfinished or parent != written
        operator = "fix" if was_broken else self._operator(prompt, bool(others), rng)
        child = self._coder.change(operator, parent, rng.choice(others) if others else None, rng)
        is_broken = self._coder.breaks(operator, rng)
        if child is None or (child == parent and operator != "fix"):
            text = "I looked at the program, and it is good as it is."
        else:
            text = _form(prompt, program_text(written, is_unfinished), program_text(child, is_broken))
        with self._lock:
            self.calls += 1
            self.tokens += (len(prompt) + len(text)) // 4
        return text

    def _operator(self, prompt: str, has_others: bool, rng: random.Random) -> str:
        asked = next((operator for words, operator in _REQUESTS if words in prompt[-_LAST_PART:]), "")
        if asked == "crossover" and not has_others:
            return "diff"
        if not asked:
            asked = "diff" if rng.random() < _FREE_DIFFS else "rewrite"
        if asked == "diff" and has_others and rng.random() < _OTHERS_USED:
            return "crossover"
        return asked


def _form(prompt: str, before: str, after: str) -> str:
    """The change in the form that the prompt asks for."""
    request = prompt[-_LAST_PART:]
    if "as a unified diff" in request:
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), "a/program.py", "b/program.py", lineterm=""
        )
        return "```diff\n" + "\n".join(lines) + "\n```\n"
    if "between the line `# EVOLVE-BLOCK-START`" in request:
        return "```python\n" + "\n".join(after.splitlines()[1:-1]) + "\n```\n"
    is_loopty = "# What to do" in prompt
    if "<NAME>" in prompt:
        wants_code = "<CODE>" in prompt and "<DIFF>" not in prompt
        inner = (
            f"<CODE>\n```python\n{after}```\n</CODE>"
            if wants_code
            else f"<DIFF>\n{_blocks(before, after)}\n</DIFF>"
        )
        return f"<NAME>\na_change\n</NAME>\n<DESCRIPTION>\nA change.\n</DESCRIPTION>\n{inner}\n"
    if "<<<<<<< SEARCH" in request:
        return _blocks(before, after, "program.py\n" if is_loopty else "")
    return f"```python\n{after}```\n"


def _blocks(before: str, after: str, path: str = "") -> str:
    """SEARCH and REPLACE parts; each line of a program occurs once."""
    old, new = before.splitlines(), after.splitlines()
    parts = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            first = i if tag == "replace" else i - 1
            search, put = "\n".join(old[first:j]), "\n".join((*old[first:i], *new[k:m]))
            parts.append(f"{path}<<<<<<< SEARCH\n{search}\n=======\n{put}\n>>>>>>> REPLACE\n")
    return "\n".join(parts)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = "\n\n".join(_text(message["content"]) for message in question["messages"])
        text = self.server.model.reply(prompt)
        sizes = {"prompt_tokens": len(prompt) // 4 + 1, "completion_tokens": len(text) // 4 + 1}
        usage = {**sizes, "total_tokens": sum(sizes.values())}
        head = {"id": "x", "created": 0, "model": question.get("model", "")}
        if question.get("stream"):
            kind, body = "text/event-stream", "".join(_stream(head, text, usage))
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            kind = "application/json"
            body = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _stream(head: dict[str, object], text: str, usage: dict[str, int]) -> Iterator[str]:
    chunk = {**head, "object": "chat.completion.chunk"}
    deltas = ({"role": "assistant", "content": text}, None), ({}, "stop")
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n"
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    model: SimulatedModel


@contextmanager
def serve(model: SimulatedModel) -> Iterator[str]:
    """The address of a server on loopback that answers as the model."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.model = model
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def first_program(land: Landscape) -> str:
    root: Genome = land.root
    return program_text(root)
