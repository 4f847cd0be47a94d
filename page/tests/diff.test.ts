import assert from "node:assert/strict";
import { test } from "node:test";
import { languageOf, tokenLines, withWords } from "../src/diff/highlight";
import { parseFiles } from "../src/diff/parse";

const PATCH = `diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -3,4 +3,4 @@ def outer():
 same
-    total = slow(x)
+    total = quick(x)
 end
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+--- not a header
+two
\\ No newline at end of file
`;

test("files, hunks, numbers and notes are read", () => {
  const [changed, added] = parseFiles(PATCH);
  assert.equal(changed?.path, "src/a.py");
  assert.equal(changed?.hunks[0]?.heading, "def outer():");
  assert.deepEqual(
    changed?.hunks[0]?.lines.map((line) => [line.kind, line.number]),
    [
      ["same", 3],
      ["del", null],
      ["add", 4],
      ["same", 5],
    ],
  );
  assert.equal(added?.note, "new");
  assert.equal(added?.added, 2);
  assert.equal(added?.hunks[0]?.lines[0]?.text, "--- not a header");
});

test("the changed word of a line is known on both sides", () => {
  const hunk = parseFiles(PATCH)[0]?.hunks[0];
  const gone = hunk?.lines[1];
  const come = hunk?.lines[2];
  assert.deepEqual(
    gone?.words.map(([from, to]) => gone.text.slice(from, to)),
    ["slow"],
  );
  assert.deepEqual(
    come?.words.map(([from, to]) => come.text.slice(from, to)),
    ["quick"],
  );
});

test("a patch that was cut in the middle is read as far as it goes", () => {
  const [file] = parseFiles(PATCH.slice(0, PATCH.indexOf("+    total")));
  assert.equal(file?.hunks[0]?.lines.length, 2);
});

test("removed and binary files are named", () => {
  const files = parseFiles(
    "diff --git a/x.bin b/x.bin\nBinary files a/x.bin and b/x.bin differ\ndiff --git a/y b/y\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n",
  );
  assert.deepEqual(
    files.map((file) => [file.path, file.note]),
    [
      ["x.bin", "binary"],
      ["y", "removed"],
    ],
  );
});

test("tokens are text and join to the line again, whatever is in it", () => {
  const code = ['x = "<img src=x onerror=alert(1)>"  # why', "return 1"];
  const tokens = tokenLines(code, languageOf("a.py"));
  assert.deepEqual(
    tokens.map((line) => line.map((token) => token.text).join("")),
    code,
  );
  assert.ok(tokens[0]?.some((token) => token.kind === "string"));
  assert.equal(tokens[1]?.[0]?.kind, "keyword");
});

test("tokens are cut at the edges of changed words", () => {
  const cut = withWords([{ text: "abcdef", kind: "name" }], [[2, 4]]);
  assert.deepEqual(
    cut.map((token) => [token.text, token.isChanged]),
    [
      ["ab", false],
      ["cd", true],
      ["ef", false],
    ],
  );
});
