import { assert, describe, it } from "@effect/vitest"
import * as Grant from "../../../src/core/vocabulary/Grant.ts"

const grant = (more: Partial<Grant.Grant> = {}): Grant.Grant => ({
  id: "g",
  principal: "p",
  tool: "w",
  agentPath: [],
  answer: "ApproveForScope",
  grantedAt: 0,
  ...more
})
const about = (...texts: ReadonlyArray<string>) => ({
  tool: "w",
  agentPath: [],
  targets: texts.map((text) => ({ text }))
})

describe("a grant", () => {
  it("holds if it covers all that a call is about, to the letter", () => {
    const some = grant({ targets: ["a", "b"] })
    assert.isTrue(Grant.covers(some, about("a"), 0))
    assert.isTrue(Grant.covers(some, about("b", "a"), 0))
    for (const targets of [["a", "c"], ["A"], ["a "], ["a*"], []]) {
      assert.isFalse(Grant.covers(some, about(...targets), 0))
    }
    assert.isFalse(Grant.covers(some, { ...about(), targets: undefined }, 0))
    assert.isFalse(Grant.covers(some, { ...about("a"), tool: "x" }, 0))
  })

  it("for a tool holds for every call of it", () => {
    for (const targets of [["a"], []]) assert.isTrue(Grant.covers(grant(), about(...targets), 0))
    // it may be about what is protected
    assert.isFalse(Grant.covers(grant(), { ...about(), targets: undefined }, 0))
  })

  it("holds for the agent that asked and its sub-agents, and for no other", () => {
    const of = (...agentPath: ReadonlyArray<string>) => ({ ...about(), agentPath })
    const own = grant({ agentPath: ["a", "b"] })
    assert.isTrue(Grant.covers(own, of("a", "b"), 0))
    assert.isTrue(Grant.covers(own, of("a", "b", "c"), 0))
    for (const path of [[], ["a"], ["b"], ["a", "c"], ["b", "a"], ["a/b"]]) {
      assert.isFalse(Grant.covers(own, of(...path), 0))
    }
    assert.isTrue(Grant.covers(grant(), of("a"), 0))
  })

  it("holds until it expires", () => {
    assert.isTrue(Grant.covers(grant({ expiresAt: 10 }), about(), 9))
    assert.isFalse(Grant.covers(grant({ expiresAt: 10 }), about(), 10))
  })
})
