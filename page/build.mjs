// Bundle the page into one script, one style sheet and one index.html; all names carry a hash of their content.
// Called as `node build.mjs FOLDER` by scripts/page.py; the folder is made.
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const into = path.resolve(process.argv[2]);

const result = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx"],
  outdir: path.join(into, "assets"),
  entryNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  write: false,
});

await mkdir(path.join(into, "assets"), { recursive: true });
for (const file of result.outputFiles) await writeFile(file.path, file.contents);

// The licences of what is bundled go with it.
const packages = new Set(
  Object.keys(result.metafile.inputs).flatMap(
    (name) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(name)?.[1] ?? [],
  ),
);
const licences = [];
for (const name of [...packages].sort()) {
  const folder = path.join(here, "node_modules", name);
  const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
  licences.push(`${name}\n\n${file ? await readFile(path.join(folder, file), "utf8") : "see its package"}`);
}
await writeFile(path.join(into, "licences.txt"), licences.join("\n\n"));

const names = await readdir(path.join(into, "assets"));
const asset = (ending) => `/assets/${names.find((name) => name.endsWith(ending))}`;
const shell = await readFile(path.join(here, "src/index.html"), "utf8");
await writeFile(
  path.join(into, "index.html"),
  shell.replace("{script}", asset(".js")).replace("{style}", asset(".css")),
);
