import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bytes,
  decimals,
  dollarLimit,
  dollars,
  duration,
  figure,
  fixed,
  number,
  percent,
  signed,
  times,
  tokens,
} from "../src/text/numbers";

test("a minus sign is a real one, and zero has none", () => {
  assert.equal(fixed(-3.14, 1), "−3.1");
  assert.equal(fixed(-0.001, 1), "0.0");
  assert.equal(signed(-0.04, 1), "+0.0");
  assert.equal(signed(-2.5, 1), "−2.5");
});

test("decimals follow the noise, else four digits of the score", () => {
  assert.equal(decimals(1.2, 118), 1);
  assert.equal(decimals(0.012, 0.5), 3);
  assert.equal(decimals(null, 118.3), 1);
  assert.equal(decimals(null, 0), 2);
  assert.equal(decimals(500, 90_000), 0);
});

test("a missing number is a dash, a huge or tiny one keeps its size", () => {
  assert.equal(number(null, 2), "–");
  assert.equal(number(Number.NaN, 2), "–");
  assert.equal(number(0.00001, 2), "0.0000100");
  assert.equal(number(3e12, 1), "3.00e+12");
});

test("figures carry no zeros that say nothing", () => {
  assert.equal(figure(1.3), "1.3");
  assert.equal(figure(88), "88");
  assert.equal(figure(1200), "1,200");
  assert.equal(figure(0), "0");
});

test("units fit the amount", () => {
  assert.equal(duration(0.0421), "42 ms");
  assert.equal(duration(59), "59 s");
  assert.equal(duration(22_620), "6 h 17 min");
  assert.equal(bytes(214e9), "214 GB");
  assert.equal(tokens(3_090_000), "3.09 M");
  assert.equal(dollars(14.2), "$14.20");
  assert.equal(dollars(0.004), "$0.004");
  assert.equal(dollarLimit(20), "$20");
  assert.equal(percent(184.3), "+184 %");
  assert.equal(percent(0.0042), "+0.004 %");
  assert.equal(percent(0), "+0.0 %");
  assert.equal(percent(null), "–");
  assert.equal(times(2.844), "2.84×");
});
