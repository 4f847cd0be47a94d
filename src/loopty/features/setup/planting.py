"""Plants a delay in a program: its functions take some times as long again, and give the same results.

A score that is about the program then gets worse by the program's share of what is measured. Only the outermost
call is lengthened, so that a function is not slowed down once more for each of its callers. What reads the clock
is left as it is.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from loopty.kit.records import Record

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_TIMES = "LOOPTY_TIMES"
"""Stands for the number in the texts below."""

_PYTHON = """\
def _loopty_planted(function):
    import builtins, functools, inspect, time
    state = builtins.__dict__.setdefault("_loopty_state", [0])
    def enter():
        state[0] += 1
        return time.perf_counter() if state[0] == 1 else 0.0
    def leave(entered):
        state[0] -= 1
        if entered:
            now = time.perf_counter()
            end = now + LOOPTY_TIMES * (now - entered)
            while time.perf_counter() < end:
                pass
    @functools.wraps(function)
    def planted(*args, **options):
        entered = enter()
        try:
            return function(*args, **options)
        finally:
            leave(entered)
    @functools.wraps(function)
    def generated(*args, **options):
        inner, given = function(*args, **options), None
        while True:
            entered = enter()
            try:
                value = inner.send(given)
            except StopIteration as end:
                return end.value
            finally:
                leave(entered)
            given = yield value
    return generated if inspect.isgeneratorfunction(function) else planted
"""

# The other name of the clock meets no declaration of <time.h>; a weak variable is the same one in all files.
_C = """\
#ifndef LOOPTY_PLANTED
#define LOOPTY_PLANTED
extern int loopty_clock(int, long *) __asm__("clock_gettime");
#define LOOPTY_MONOTONIC 1
__attribute__((weak)) __thread int loopty_depth;
__attribute__((unused)) static double loopty_now(void)
{ long at[2]; loopty_clock(LOOPTY_MONOTONIC, at); return (double)at[0] + 1e-9 * (double)at[1]; }
__attribute__((unused)) static double loopty_enter(void) { return loopty_depth++ ? 0.0 : loopty_now(); }
__attribute__((unused)) static void loopty_leave(double *entered)
{ double now, end; if (--loopty_depth) return;
  now = loopty_now(); end = now + LOOPTY_TIMES * (now - *entered); while (loopty_now() < end) {} }
#endif
"""
_C_ENTER = "__attribute__((cleanup(loopty_leave), unused)) double loopty_entered = loopty_enter();"

_RUST = """
#[allow(dead_code, missing_docs, unused, clippy::all, clippy::pedantic)]
mod loopty_planted {
    extern crate std as loopty_std;
    use self::loopty_std::cell::Cell;
    use self::loopty_std::ops::Drop;
    use self::loopty_std::option::Option::{self, None, Some};
    use self::loopty_std::time::Instant;
    self::loopty_std::thread_local! { static DEPTH: Cell<usize> = Cell::new(0); }
    pub struct Entered(Option<Instant>);
    pub fn enter() -> Entered {
        let depth = DEPTH.try_with(|depth| depth.replace(depth.get() + 1)).unwrap_or(1);
        Entered(if depth == 0 { Some(Instant::now()) } else { None })
    }
    impl Drop for Entered {
        fn drop(&mut self) {
            let _ = DEPTH.try_with(|depth| depth.set(depth.get().wrapping_sub(1)));
            if let Some(entered) = self.0 {
                let spent = entered.elapsed();
                let left = Instant::now();
                while left.elapsed() < spent * LOOPTY_TIMES {}
            }
        }
    }
}
"""

_GO = """\
package LOOPTY_PACKAGE

import "time"

var loopty_depth int

func loopty_enter() time.Time {
	loopty_depth++
	if loopty_depth > 1 {
		return time.Time{}
	}
	return time.Now()
}

func loopty_leave(entered time.Time) {
	loopty_depth--
	if entered.IsZero() {
		return
	}
	spent := time.Since(entered)
	left := time.Now()
	for time.Since(left) < LOOPTY_TIMES*spent {
	}
}
"""

_JAVASCRIPT = """
;function loopty_enter(){const all=globalThis;
all.loopty_depth=(all.loopty_depth||0)+1;return all.loopty_depth>1?-1:performance.now()}
function loopty_leave(entered){const all=globalThis;all.loopty_depth-=1;if(entered<0)return;
const now=performance.now(),end=now+LOOPTY_TIMES*(now-entered);while(performance.now()<end);}
"""
_TYPESCRIPT = _JAVASCRIPT.replace("=globalThis", ": any=globalThis").replace("(entered)", "(entered: number)")
_UNCHECKED = "// @ts-nocheck\n/* eslint-disable */\n"
"""Linters and the types of a strict project are no judges of what is planted."""
_TRY = "const loopty_entered=loopty_enter();try{"
_FINALLY = "}finally{loopty_leave(loopty_entered)}"

_JAVA = """\
LOOPTY_PACKAGE
final class LooptyPlanted {
    private static final ThreadLocal<int[]> DEPTH = ThreadLocal.withInitial(() -> new int[1]);
    static long enter() { return DEPTH.get()[0]++ > 0 ? 0 : System.nanoTime(); }
    static void leave(long entered) {
        if (--DEPTH.get()[0] > 0 || entered == 0) return;
        long now = System.nanoTime(), end = now + LOOPTY_TIMES * (now - entered);
        while (System.nanoTime() < end) { }
    }
}
"""


class _Grammar(Record):
    """How functions of a language look, and what is written into them."""

    module: str
    functions: frozenset[str]
    bodies: frozenset[str]
    enter: str
    leave: str = ""
    head: str = ""
    foot: str = ""
    skipped: str = r"(?!)"
    """What the head of a function has that cannot be lengthened, or in which time means nothing."""
    closed: frozenset[str] = frozenset()
    """Nodes whose functions do not see the helper."""
    language: str = "language"
    helper: str = ""
    """The name of a file beside the planted ones, where the helper stands in one."""
    helper_text: str = ""


def _grammar(module: str, functions: str, bodies: str, enter: str, **more: str) -> _Grammar:
    closed = frozenset(more.pop("closed", "").split())
    return _Grammar(module, frozenset(functions.split()), frozenset(bodies.split()), enter, closed=closed, **more)


_SCRIPT_FUNCTIONS = "function_declaration function_expression arrow_function method_definition"
_LATER = r"\basync\b|\*"
_c = _grammar("c", "function_definition", "compound_statement", _C_ENTER, head=_C, skipped=r"\bnaked\b")
_cpp = _grammar(
    "cpp",
    "function_definition",
    "compound_statement",
    _C_ENTER,
    head=_C,
    skipped=r"\b(?:constexpr|consteval|naked)\b",
)
_javascript = _grammar(
    "javascript",
    _SCRIPT_FUNCTIONS,
    "statement_block",
    _TRY,
    leave=_FINALLY,
    head=_UNCHECKED,
    foot=_JAVASCRIPT,
    skipped=_LATER,
)
_typescript = _grammar(
    "typescript",
    _SCRIPT_FUNCTIONS,
    "statement_block",
    _TRY,
    leave=_FINALLY,
    head=_UNCHECKED,
    foot=_TYPESCRIPT,
    skipped=rf"{_LATER}|\bconstructor\b",
    language="language_typescript",
)
_GRAMMARS: Mapping[str, _Grammar] = {
    ".c": _c,
    ".h": _cpp,
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp", ".inl"), _cpp),
    ".rs": _grammar(
        "rust",
        "function_item",
        "block",
        "let _loopty_entered = self::loopty_planted::enter();",
        foot=_RUST,
        skipped=r"\b(?:const|async)\b[^(]*\bfn\b",
        closed="mod_item",
    ),
    ".go": _grammar(
        "go",
        "function_declaration method_declaration",
        "block",
        "defer loopty_leave(loopty_enter());",
        helper="loopty_planted.go",
        helper_text=_GO,
    ),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), _javascript),
    **dict.fromkeys((".ts", ".mts", ".cts"), _typescript),
    ".java": _grammar(
        "java",
        "method_declaration",
        "block",
        "long loopty_entered = LooptyPlanted.enter(); try {",
        leave="} finally { LooptyPlanted.leave(loopty_entered); }",
        helper="LooptyPlanted.java",
        helper_text=_JAVA,
    ),
}
_PACKAGE = re.compile(r"^\s*package\s+[\w.]+;?", re.MULTILINE)
_MAIN = re.compile(r"\bmain\s*\(")
_CLOCK = re.compile(
    r"\bperf_counter|\bprocess_time|\btimeit\b|\bmonotonic|\bperformance\.now\b|\bhrtime\b|\bDate\.now\b|\bclock\w*\("
    r"|\bgettimeofday\b|\bInstant::now\b|\btime\.(?:Now|time)\b|\bnanoTime\b|\bchrono\b"
)
"""In a function that measures, the delay would come after the measuring: only the outermost call is lengthened."""
_INTERPRETER = re.compile(r"#!.*\n")
_COMPILED_OTHERWISE = re.compile(r"jit|kernel|overload|compile|vectorize|cython", re.IGNORECASE)
"""Decorators of Python functions that something else translates."""


def can_plant(path: str) -> bool:
    """Say whether a delay can be planted in files of this name."""
    suffix = PurePosixPath(path).suffix.lower()
    return (suffix == ".py" or suffix in _GRAMMARS) and not path.endswith(".d.ts")


def plant_delay(texts: Mapping[str, str], times: int) -> dict[str, str]:
    """Plant the delay in all functions of these files. Returns the changed files, and helpers beside them."""
    planted: dict[str, str] = {}
    helpers: dict[str, list[tuple[str, str]]] = {}
    for path, text in texts.items():
        if not can_plant(path):
            continue
        grammar = _GRAMMARS.get(PurePosixPath(path).suffix.lower())
        changed = _plant_python(text) if grammar is None else _plant_braces(text, grammar)
        if changed == text:
            continue
        planted[path] = changed
        if grammar and grammar.helper:
            found = _PACKAGE.search(text)
            user = (path, found[0].strip() if found else "")
            helpers.setdefault(str(PurePosixPath(path).parent / grammar.helper), []).append(user)
    for helper, users in helpers.items():
        ((package, _),) = Counter(package for _, package in users).most_common(1)
        for path, other in users:
            if other != package:
                del planted[path]  # a program beside the package, which does not see its names
        text = _GRAMMARS[PurePosixPath(helper).suffix].helper_text
        planted[helper] = re.sub(r"^(?:package )?LOOPTY_PACKAGE$", package, text, flags=re.MULTILINE)
    return {path: text.replace(_TIMES, str(times)) for path, text in planted.items()}


def left_out_share(texts: Mapping[str, str]) -> float:
    """Compute the share of the functions, by their length, that cannot be lengthened."""
    total = planted = 0
    for path, text in texts.items():
        grammar = _GRAMMARS.get(PurePosixPath(path).suffix.lower())
        if grammar is None:
            if tree := _python_tree(text):
                total += sum(map(_lines_of, _outer_functions(tree)))
                planted += sum(map(_lines_of, _python_functions(tree, text)))
            continue
        source = text.encode()
        root = _parse(source, grammar).root_node
        inside = [at for at, inserted in _insertions(root, source, grammar) if inserted == grammar.enter]
        for start, end in _bodies(root, grammar):
            total += end - start
            planted += (end - start) * any(start < at <= end for at in inside)
    return 1 - planted / total if total else 0.0


def _lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _bodies(root: Node, grammar: _Grammar) -> Iterator[tuple[int, int]]:
    """Find where the bodies of the outermost functions are, those of generators included."""
    left = [root]
    while left:
        node = left.pop()
        body = node.child_by_field_name("body")
        if body is not None and (node.type in grammar.functions or "generator" in node.type):
            yield body.start_byte, body.end_byte
        else:
            left.extend(node.children)


def _plant_python(text: str) -> str:
    tree = _python_tree(text)
    lines = text.split("\n")  # Python counts neither form feeds nor the separators of Unicode as ends of lines
    functions = list(_python_functions(tree, text)) if tree else []
    if tree is None or not functions:
        return text
    for function in sorted(functions, key=lambda one: one.lineno, reverse=True):
        line = lines[function.lineno - 1]
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(function.lineno - 1, f"{indent}@_loopty_planted")
    lines.insert(_first_line(tree), _PYTHON.rstrip("\n"))
    return "\n".join(lines)


def _python_tree(text: str) -> ast.Module | None:
    """Parse a file; None if it is no Python, or nested so deeply that the parser gives up."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _python_functions(tree: ast.Module, text: str) -> Iterator[ast.FunctionDef]:
    """Find functions and methods that run from call to return; the inner ones are within their outer ones."""
    lines = text.split("\n")
    for function in _outer_functions(tree):
        decorators = " ".join(lines[one.lineno - 1] for one in function.decorator_list)
        is_compiled = _COMPILED_OTHERWISE.search(decorators) is not None
        if is_compiled or function.name == "main" or isinstance(function, ast.AsyncFunctionDef):
            continue
        if not _CLOCK.search("\n".join(lines[function.lineno - 1 : function.end_lineno])):
            yield function


def _outer_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        elif not isinstance(node, ast.expr):
            left.extend(ast.iter_child_nodes(node))


def _first_line(tree: ast.Module) -> int:
    """Count the lines before the first that may follow others: docstring and `__future__` stay first."""
    end = 0
    for statement in tree.body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (is_text or is_future):
            break
        end = statement.end_lineno or end
    return end


def _plant_braces(text: str, grammar: _Grammar) -> str:
    source = text.encode()
    insertions = dict(_insertions(_parse(source, grammar).root_node, source, grammar))
    if not insertions:
        return text
    for at in sorted(insertions, reverse=True):
        source = source[:at] + insertions[at].encode() + source[at:]
    first = _INTERPRETER.match(planted := source.decode())
    start = first[0] if first else ""
    return start + grammar.head + planted.removeprefix(start) + grammar.foot


def _parse(source: bytes, grammar: _Grammar) -> Tree:
    from tree_sitter import Language, Parser

    module = importlib.import_module(f"tree_sitter_{grammar.module}")
    return Parser(Language(getattr(module, grammar.language)())).parse(source)


def _insertions(root: Node, source: bytes, grammar: _Grammar) -> Iterator[tuple[int, str]]:
    """Find where something is inserted, and what, by its offset."""
    left = [root]
    while left:
        node = left.pop()
        if node.type not in grammar.closed:
            left.extend(node.children)
        body = node.child_by_field_name("body") if node.type in grammar.functions else None
        if body is None or body.type not in grammar.bodies or body.has_error or not body.named_child_count:
            continue
        head, inside = (
            source[start:end].decode(errors="replace")
            for start, end in ((node.start_byte, body.start_byte), (body.start_byte, body.end_byte))
        )
        if re.search(grammar.skipped, head) or _MAIN.search(head) or _CLOCK.search(inside):
            continue
        yield body.start_byte + 1, grammar.enter
        if grammar.leave:
            yield body.end_byte - 1, grammar.leave


_COMMENTS: Iterable[tuple[str, tuple[str, ...]]] = (
    (
        "# nothing changes here\n",
        (".py", ".rb", ".pl", ".pm", ".sh", ".r", ".jl", ".ex", ".nim", ".coffee", ".tcl"),
    ),
    ("-- nothing changes here\n", (".lua", ".hs")),
    ("% nothing changes here\n", (".erl",)),
    ("! nothing changes here\n", (".f90",)),
    (
        "// nothing changes here\n",
        (*_GRAMMARS, ".kt", ".scala", ".swift", ".php", ".cs", ".zig", ".cu", ".tsx", ".vala", ".d"),
    ),
)


def add_comment(path: str, text: str) -> str:
    """Add a comment at the end of a file; returns the text as it is where that could change something."""
    suffix = PurePosixPath(path).suffix.lower()
    line = next((line for line, suffixes in _COMMENTS if suffix in suffixes), "")
    if not line or (suffix == ".php" and "?>" in text):
        return text
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{line}"
