// One run of a benchmark, and what it reports. No dependencies; the twin of `Run` in the Python SDK.
"use strict";

const { createHash } = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");

const STEP_COLUMN = "iteration";

class Run {
  #resultPath = process.env.EVO_RESULT_PATH || null;
  #traces = process.env.EVO_TRACES_DIR || null;
  #stopPath = process.env.LOOPTY_STOP_PATH || null;
  #metricsPath = process.env.LOOPTY_METRICS_CSV || null;
  #columns = null;
  #tasks = new Map();
  #directions = new Map();
  #startedAt = now();
  #finished = false;

  constructor() {
    this.experimentId = process.env.EVO_EXPERIMENT_ID || "unknown";
    this.mode = process.env.LOOPTY_MODE || "attempt";
    this.slice = process.env.LOOPTY_SLICE || "";
    this.seed = process.env.LOOPTY_SEED ? Number(process.env.LOOPTY_SEED) : null;
    this.params = readParams(process.env.LOOPTY_PARAMS);
  }

  /** Run `benchmark(run)`, then finish, unless it already finished or threw. */
  static async use(benchmark) {
    const run = new Run();
    await benchmark(run);
    if (!run.#finished) run.finish();
  }

  /** Record the score of one task as it ends; give `direction` only where it differs from the benchmark's. */
  logTask(taskId, score, { status, summary, failureReason, log, direction } = {}) {
    const name = String(taskId);
    finiteNumber(score, `the score of task ${JSON.stringify(name)}`);
    if (direction !== undefined && direction !== "max" && direction !== "min") {
      throw new TypeError(`direction must be "max" or "min", not ${String(direction)}`);
    }
    if (this.#tasks.has(name)) {
      throw new Error(`task ${JSON.stringify(name)} already has a score: give each repeat its own id`);
    }
    this.#tasks.set(name, score);
    if (direction !== undefined) this.#directions.set(name, direction);
    if (this.#traces === null) return;
    const trace = { experiment_id: this.experimentId, task_id: name, score, ended_at: now() };
    Object.assign(trace, { status, summary, failure_reason: failureReason, log, direction });
    replace(path.join(this.#traces, traceName(name)), JSON.stringify(trace));
  }

  /** Add one row to the learning curve; every row has the columns of the first. */
  report(step, metrics) {
    if (!Number.isInteger(step)) {
      throw new TypeError(`step must be an integer, not ${String(step)}; a task's score goes to logTask(taskId, score)`);
    }
    const row = new Map([[STEP_COLUMN, step]]);
    for (const [name, value] of Object.entries(metrics)) {
      row.set(column(name), finiteNumber(value, `metric ${JSON.stringify(name)}`));
    }
    if (row.size === 1) throw new Error("a row needs at least one metric, as in report(3, { accuracy: 0.9 })");
    let text = "";
    if (this.#columns === null) this.#columns = this.#metricsPath && headerOf(this.#metricsPath);
    if (this.#columns === null) {
      this.#columns = [...row.keys()];
      text = line(this.#columns);
    }
    text += line(cellsInOrder(row, this.#columns));
    // One append is one write, so the lines of several processes never mix.
    if (this.#metricsPath !== null) fs.appendFileSync(this.#metricsPath, text);
  }

  /** Whether the trial should end early: finish soon, because it is killed after a grace period. */
  shouldStop() {
    return this.#stopPath !== null && fs.existsSync(this.#stopPath);
  }

  /** Publish the result, once; without a score, it is the mean of the tasks' scores. */
  finish(score) {
    if (this.#finished) throw new Error("this run is already finished: a trial has one result");
    const result = {
      score: finiteNumber(score === undefined ? this.#mean() : score, "the score"),
      tasks: Object.fromEntries(this.#tasks),
      started_at: this.#startedAt,
      ended_at: now(),
    };
    if (this.#directions.size > 0) {
      result.tasks_meta = Object.fromEntries([...this.#directions].map(([name, direction]) => [name, { direction }]));
    }
    this.#finished = true;
    if (this.#resultPath === null) {
      // Synchronous, so that a process.exit() right after it does not lose the result.
      fs.writeSync(1, `${JSON.stringify(result)}\n`);
    } else {
      publishOnce(this.#resultPath, JSON.stringify(result));
    }
    return result;
  }

  #mean() {
    const names = [...this.#tasks.keys()];
    if (names.length === 0) {
      throw new Error("no score: call finish(score), or logTask(taskId, score) at least once");
    }
    if (new Set(names.map((name) => this.#directions.get(name))).size > 1) {
      throw new Error("the tasks' directions differ, so their mean says nothing: call finish(score)");
    }
    return [...this.#tasks.values()].reduce((sum, score) => sum + score, 0) / names.length;
  }
}

function now() {
  return new Date().toISOString().replace(/\.\d+Z$/, "+00:00");
}

function readParams(file) {
  if (!file) return {};
  const params = JSON.parse(fs.readFileSync(file, "utf8"));
  if (params === null || typeof params !== "object" || Array.isArray(params)) {
    throw new Error(`${file} must hold a JSON object of parameters`);
  }
  return params;
}

function finiteNumber(value, label) {
  if (typeof value !== "number") throw new TypeError(`${label} must be a number, not ${String(value)} (${typeof value})`);
  if (!Number.isFinite(value)) {
    throw new RangeError(`${label} must be finite, not ${value}: exit non-zero when nothing was measured`);
  }
  return value;
}

function column(name) {
  if (name === STEP_COLUMN || name.trim() === "" || /[\r\n]/.test(name)) {
    throw new Error(`a metric cannot be called ${JSON.stringify(name)}: use one non-empty line other than "${STEP_COLUMN}"`);
  }
  return name;
}

function headerOf(file) {
  if (!fs.existsSync(file)) return null;
  const [header, ...rest] = fs.readFileSync(file, "utf8").split("\n");
  if (header === "") return null;
  if (rest.length === 0) throw new Error(`the header of ${file} is cut short: remove the file and start again`);
  const cells = header.match(/("([^"]|"")*"|[^,]*)(,|$)/g).slice(0, -1);
  return cells.map((cell) => cell.replace(/,$/, "").replace(/^"([\s\S]*)"$/, "$1").replaceAll('""', '"'));
}

function cellsInOrder(row, columns) {
  if (row.size !== columns.length || !columns.every((name) => row.has(name))) {
    throw new Error(
      `this row has the columns ${JSON.stringify([...row.keys()])}, the header has ${JSON.stringify(columns)}: ` +
        "report the same metrics at every step",
    );
  }
  return columns.map((name) => row.get(name));
}

function line(cells) {
  const quoted = cells.map(String).map((cell) => (/[",]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(",")}\n`;
}

function traceName(taskId) {
  // Percent-encoding keeps ids distinct that differ only in odd characters; a file name has at most 255 bytes.
  let safe = encodeURIComponent(taskId).replace(/[!'()*]/g, (odd) => `%${odd.charCodeAt(0).toString(16).toUpperCase()}`);
  if (safe.length > 200) {
    safe = `${safe.slice(0, 160)}~${createHash("sha256").update(taskId).digest("hex").slice(0, 32)}`;
  }
  return `task_${safe}.json`;
}

function publishOnce(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  try {
    fs.closeSync(fs.openSync(file, "wx"));
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    throw new Error(`${file} is already claimed: a trial has one result, so call finish once, in one process`);
  }
  fill(file, text);
}

function replace(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.rmSync(`${file}.tmp`, { force: true });
  fill(file, text);
}

function fill(file, text) {
  // Exclusive creation does not follow a link that somebody planted at the path.
  fs.writeFileSync(`${file}.tmp`, text, { flag: "wx" });
  fs.renameSync(`${file}.tmp`, file);
}

module.exports = { Run };
