// Bundle the unit tests and run them with Node's own test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const into = mkdtempSync(path.join(tmpdir(), "loopty-page-"));
try {
  const names = readdirSync(path.join(here, "tests")).filter((name) => /\.test\.tsx?$/.test(name));
  await build({
    absWorkingDir: here,
    entryPoints: names.map((name) => path.join("tests", name)),
    outdir: into,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
  });
  const files = readdirSync(into)
    .filter((name) => name.endsWith(".mjs"))
    .map((name) => path.join(into, name));
  process.exitCode =
    spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(into, { recursive: true, force: true });
}
