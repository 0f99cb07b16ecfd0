const test = require("node:test");
const assert = require("node:assert");

test("passes", () => assert.strictEqual(1 + 1, 2));
test("fails", () => {
  assert.strictEqual(1 + 1, 3);
});
test("is skipped", { skip: "not now" }, () => {});
test("has parts", async (t) => {
  await t.test("inner passes", () => {});
  await t.test("inner fails", () => {
    throw new Error("no luck");
  });
});
