import assert from "node:assert/strict";
import { test } from "node:test";
import { cutLine, lines, pieces, valueText } from "../src/text/hostile";

test("escape, direction and zero-width characters become named pieces", () => {
  assert.deepEqual(pieces("\u001b[31mred\u202egnp.exe\u200b"), [
    { kind: "control", name: "ESC" },
    { kind: "text", text: "[31mred" },
    { kind: "control", name: "U+202E" },
    { kind: "text", text: "gnp.exe" },
    { kind: "control", name: "U+200B" },
  ]);
});

test("tabs, newlines and other alphabets stay as they are", () => {
  assert.deepEqual(pieces("a\tb\nπ 語 🙂"), [{ kind: "text", text: "a\tb\nπ 語 🙂" }]);
});

test("markup is nothing but text", () => {
  assert.deepEqual(pieces("<script>alert(1)</script>"), [{ kind: "text", text: "<script>alert(1)</script>" }]);
});

test("invisible tag characters are seen", () => {
  assert.deepEqual(pieces("\u{e0041}"), [{ kind: "control", name: "U+E0041" }]);
});

test("a long line is cut with a count, line ends of Windows are line ends", () => {
  assert.deepEqual(cutLine("x".repeat(10), 4), { text: "xxxx", left: 6 });
  assert.deepEqual(lines("a\r\nb\n"), ["a", "b"]);
});

test("any value is one line of text", () => {
  assert.equal(valueText(null), "–");
  assert.equal(valueText(0.30000000000000004), "0.3");
  assert.equal(valueText({ a: [1] }), '{"a":[1]}');
});
