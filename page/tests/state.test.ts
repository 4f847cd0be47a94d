import assert from "node:assert/strict";
import { test } from "node:test";
import { readChanges } from "../src/actions/budget_fields";
import { WORDING } from "../src/actions/wording";
import { address } from "../src/api/client";
import { link, parseRoute } from "../src/state/route";
import { nodeName } from "../src/text/ids";
import { joinSteps } from "../src/views/compare/compare_runs";
import { alignCurves } from "../src/views/node/curve_tab";
import { markOfCause } from "../src/views/overview/summaries";

test("a route holds an id with any character, and an unknown one is the overview", () => {
  const route = parseRoute(link("node", ["1.3/%<x>"], { tab: "logs" }));
  assert.equal(route.view, "node");
  assert.deepEqual(route.rest, ["1.3/%<x>"]);
  assert.equal(route.query.get("tab"), "logs");
  assert.equal(parseRoute("#/javascript:alert(1)").view, "overview");
  assert.equal(parseRoute("#/node/%zz").rest[0], "%zz");
});

test("a node is named by its handle, however deep it is", () => {
  assert.equal(nodeName({ handle: 95 }), "@95");
});

test("only what changed of a budget is sent, and nonsense is refused", () => {
  const now = { attempts: 10, money_usd: 5, tokens: null };
  assert.deepEqual(readChanges({ attempts: "20", money_usd: "" }, now), { attempts: 20, money_usd: null });
  assert.deepEqual(readChanges({ attempts: "10" }, now), {});
  assert.match(String(readChanges({ attempts: "" }, now)), /Attempts: give a number/);
  assert.match(String(readChanges({ tokens: "many" }, now)), /not a number/);
});

test("every action has a title that asks, and a verb", () => {
  for (const wording of Object.values(WORDING)) assert.ok(wording.title && wording.verb);
});

test("what is missing is left out of an address, the rest is escaped", () => {
  assert.equal(address("/api/find", { q: "a&b", run: null, limit: 3 }), "/api/find?q=a%26b&limit=3");
});

test("two curves stand on one list of steps, with gaps", () => {
  assert.deepEqual(
    alignCurves(
      [
        [1, 10],
        [3, 30],
      ],
      [
        [1, 5],
        [2, 6],
      ],
      1,
    ),
    { x: [1, 2, 3], mine: [10, null, 30], parent: [5, 6, null] },
  );
});

test("a run's line ends with its last step", () => {
  const step = (order: number, score: number) => ({ order, at: order, cost: order, score });
  assert.deepEqual(joinSteps([step(1, 1), step(4, 2)], [step(2, 5)], "order"), {
    x: [1, 2, 4],
    a: [1, 1, 2],
    b: [null, 5, null],
  });
});

test("time is coloured by what became of it", () => {
  assert.equal(markOfCause("gains"), "kept");
  assert.equal(markOfCause("repeat measurements"), "inconclusive");
  assert.equal(markOfCause("timed out"), "failed");
  assert.equal(markOfCause("no gain"), "discarded");
});
