"""A module that Node loads first: it reports the CPU time that is spent in code of the repository."""

from __future__ import annotations

TEXT = r""""use strict";
// Reports the CPU time that Node spends in code of the repository: see loopty_sdk.test_time.
const { LOOPTY_TEST_TIME: folder, LOOPTY_TEST_ROOT: root } = process.env;
const { isMainThread } = require("node:worker_threads");

const OTHERS = /(^|[/._-])(tests?|specs?|bench(mark)?s?|perf|fixtures?|examples?|node_modules)([/._-]|$)/i;
// What loads a module runs below the module that asks for it, and is none of its work.
const OF_NODE = /^node:internal\/(modules|process)/;
const OF_TOOLS = /node_modules\/(@?(jest|babel|swc)|ts-|tsx|pirates|vite|esbuild|typescript|nyc|istanbul)/;
const MICROSECONDS = 100;

function isOwn(url) {
  const path = url.startsWith("file://") ? decodeURIComponent(url.slice(7)) : url;
  return path.startsWith(`${root}/`) && !OTHERS.test(path.slice(root.length));
}

// The share of the samples in which code of the repository runs, or what it calls.
function ownShare({ nodes, samples }) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const own = new Map();
  const left = [[nodes[0], false]];
  while (left.length) {
    const [node, above] = left.pop();
    const { url } = node.callFrame;
    const is = isOwn(url) || (above && !OF_NODE.test(url) && !OF_TOOLS.test(url));
    own.set(node.id, is);
    for (const id of node.children || []) left.push([byId.get(id), is]);
  }
  let [counted, all, before] = [0, 0, false];
  for (const id of samples) {
    const name = byId.get(id).callFrame.functionName;
    if (name === "(idle)") continue;
    if (name !== "(garbage collector)") before = own.get(id); // what has made the garbage
    all += 1;
    counted += before;
  }
  return all ? counted / all : 0;
}

if (folder && isMainThread) {
  const { Session } = require("node:inspector");
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.setSamplingInterval", { interval: MICROSECONDS });
  session.post("Profiler.start");
  const started = process.cpuUsage();
  const { writeFileSync } = require("node:fs");
  process.on("exit", () => {
    const { user, system } = process.cpuUsage(started);
    session.post("Profiler.stop", (error, result) => {
      if (error) return;
      const seconds = ownShare(result.profile) * (user + system) * 1e-6;
      writeFileSync(`${folder}/${process.pid}.json`, JSON.stringify({ seconds, repeated: false }));
    });
  });
}
"""
