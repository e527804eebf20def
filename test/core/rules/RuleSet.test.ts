/** What a rule set says of a moment, asked without an executor. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import { type ToolRule } from "../../../src/index.ts"
import { randomFrom, type SeededRandom } from "../../support/randomCase.ts"

type Rule<T extends ToolRule.Tag = ToolRule.Tag> = ToolRule.Of<T>
type Names = readonly [string, ...ReadonlyArray<string>]

const start = (tool: string, mode?: "all" | "any"): Rule => ({
  _tag: "StartConstraint",
  tool,
  ...(mode === undefined ? {} : { mode })
})
const before = (tool: string, ...tools: Names): Rule => ({ _tag: "RequiresPrecedingTools", tool, tools })
const never = (tool: string, ...tools: Names): Rule => ({ _tag: "RequiresFollowingTools", tool, tools })
const children = (tool: string, ...children: Names): Rule => ({ _tag: "ChildTools", tool, children })
const parent = (tool: string, ...children: Names): Rule => ({ _tag: "ParentTools", tool, children })
const route = (tool: string, more: Partial<Rule<"Conditional">> = {}): Rule => ({
  _tag: "Conditional",
  tool,
  path: "kind",
  cases: [{ equals: "b", tool: "b" }, { equals: { x: [1, null] }, tool: "c" }],
  ...more
})
const operations = (tool: string, field: string, ...allowed: readonly [Schema.Json, ...ReadonlyArray<Schema.Json>]) =>
  ({ _tag: "AllowedOperations", tool, field, allowed }) satisfies Rule
const required = (tool: string, ...when: ReadonlyArray<string>): Rule => ({
  _tag: "RequiredBeforeExit",
  tool,
  ...(when.length === 0 ? {} : { when: when as unknown as Names })
})
const exit = (tool: string): Rule => ({ _tag: "ExitLoop", tool })

const names = ["a", "b", "c", "d"]

type Past = string | { readonly tool: string; readonly output: unknown }

/** A set and the moment after some successes. */
const moment = (rules: ReadonlyArray<Rule>, past: ReadonlyArray<Past> = [], inBatch: ReadonlyArray<string> = []) => {
  const set = RuleSet.make(rules, names)
  const history = RuleSet.history(set, past.map((it) => typeof it === "string" ? { tool: it } : it), {
    batch: inBatch.map((tool) => ({ tool }))
  })
  return { set, history }
}

const allowed = (rules: ReadonlyArray<Rule>, ...past: ReadonlyArray<Past>) => {
  const { history, set } = moment(rules, past)
  return RuleSet.allowedNext(set, history).join("")
}

const forced = (rules: ReadonlyArray<Rule>, ...past: ReadonlyArray<Past>) => {
  const { history, set } = moment(rules, past)
  return RuleSet.forcedNext(set, history).join("")
}

/** What the model is told of a call after some successes; empty if it may be made. */
const told = (
  rules: ReadonlyArray<Rule>,
  past: ReadonlyArray<Past>,
  call: { readonly tool: string; readonly params?: unknown }
): string => {
  const { history, set } = moment(rules, past)
  const violation = RuleSet.check(set, history, call)
  return violation === undefined ? "" : RuleSet.explain(violation)
}

const of = (kind: unknown): Past => ({ tool: "a", output: { kind } })

describe("start tools", () => {
  it("come before any other, in any order among themselves", { tags: ["StartConstraint"] }, () => {
    const rules = [start("a"), start("b")]
    assert.strictEqual(allowed(rules), "ab")
    assert.strictEqual(allowed(rules, "b"), "ab")
    assert.strictEqual(allowed(rules, "b", "a"), "abcd")
  })

  it("of which one is enough open the way as soon as one succeeded", () => {
    const rules = [start("a", "any"), start("b", "any")]
    assert.strictEqual(allowed(rules), "ab")
    assert.strictEqual(allowed(rules, "b"), "abcd")
  })

  it("of both modes are needed each in its way", () => {
    const rules = [start("a"), start("b", "any"), start("c", "any")]
    assert.strictEqual(allowed(rules, "a"), "abc")
    assert.strictEqual(allowed(rules, "b"), "abc")
    assert.strictEqual(allowed(rules, "b", "a"), "abcd")
    const pending = (...past: ReadonlyArray<string>) => {
      const { history, set } = moment(rules, past)
      return RuleSet.startPending(set, history)
    }
    assert.deepStrictEqual(pending(), ["a", "b", "c"])
    assert.deepStrictEqual(pending("a"), ["b", "c"])
    assert.deepStrictEqual(pending("c"), ["a"])
    assert.deepStrictEqual(pending("c", "a"), [])
  })

  it("that are named twice are pending once", () => {
    const { history, set } = moment([start("a"), start("a", "all")])
    assert.deepStrictEqual(RuleSet.startPending(set, history), ["a"])
  })

  it("are not pending in a set without any", () => {
    const { history, set } = moment([before("a", "b")])
    assert.deepStrictEqual(RuleSet.startPending(set, history), [])
  })

  it("are named to a call that comes too early, the missing ones alone", () => {
    const say = (rules: ReadonlyArray<Rule>, ...past: ReadonlyArray<string>) => told(rules, past, { tool: "d" })
    assert.strictEqual(
      say([start("a")]),
      "\"d\" may not be called yet: \"a\" has to succeed first. Call \"a\", then call \"d\" again."
    )
    assert.strictEqual(
      say([start("a"), start("b")], "a"),
      "\"d\" may not be called yet: \"b\" has to succeed first. Call \"b\", then call \"d\" again."
    )
    assert.strictEqual(
      say([start("a"), start("b")]),
      "\"d\" may not be called yet: \"a\" and \"b\" have to succeed first. Call \"a\" and \"b\", then call \"d\" again."
    )
    assert.strictEqual(
      say([start("a"), start("b", "any"), start("c", "any")], "b"),
      "\"d\" may not be called yet: \"a\" has to succeed first. Call \"a\", then call \"d\" again."
    )
  })

  it("of which one is enough are named as one of them", () => {
    assert.strictEqual(
      told([start("a", "any"), start("b", "any")], [], { tool: "d" }),
      "\"d\" may not be called yet: one of \"a\" and \"b\" has to succeed first. " +
        "Call one of \"a\" and \"b\", then call \"d\" again."
    )
  })
})

describe("prerequisites", () => {
  it("have all succeeded at some time", { tags: ["RequiresPrecedingTools"] }, () => {
    const rules = [before("c", "a", "b")]
    assert.strictEqual(allowed(rules), "abd")
    assert.strictEqual(allowed(rules, "a"), "abd")
    assert.strictEqual(allowed(rules, "b", "d", "a", "d"), "abcd")
  })

  it("of * are those of each tool but the listed", () => {
    assert.strictEqual(allowed([before("*", "a", "b")]), "ab")
    assert.strictEqual(allowed([before("*", "a", "b")], "b"), "ab")
    assert.strictEqual(allowed([before("*", "a", "b")], "b", "a"), "abcd")
  })

  it("that are missing are named to the call, the others not as missing", () => {
    assert.strictEqual(
      told([before("d", "a", "b", "c")], ["b"], { tool: "d" }),
      "\"d\" may be called only after \"a\", \"b\" and \"c\" have succeeded; \"a\" and \"c\" have not. " +
        "Call \"a\" and \"c\", then call \"d\" again."
    )
    assert.strictEqual(
      told([before("d", "a")], [], { tool: "d" }),
      "\"d\" may be called only after \"a\" has succeeded; \"a\" has not. Call \"a\", then call \"d\" again."
    )
  })
})

describe("tools that are forbidden after others", () => {
  it("may be called until one of them succeeded", () => {
    assert.strictEqual(allowed([never("a", "b", "c")], "a", "d"), "abcd")
    assert.strictEqual(allowed([never("a", "b", "c")], "c", "d"), "bcd")
    assert.strictEqual(allowed([never("a", "a")], "a"), "bcd")
    assert.strictEqual(allowed([never("*", "d")], "d"), "")
  })

  it("are told which one it was, and to go on without", () => {
    assert.strictEqual(
      told([never("a", "b", "c")], ["c"], { tool: "a" }),
      "\"a\" may no longer be called once \"b\" or \"c\" has succeeded, and \"c\" has. Continue without it."
    )
    assert.strictEqual(
      told([never("a", "b", "c")], ["c", "b"], { tool: "a" }),
      "\"a\" may no longer be called once \"b\" or \"c\" has succeeded, and \"b\" and \"c\" have. Continue without it."
    )
  })
})

describe("neighbours", () => {
  it("of ChildTools bind what comes right after, and nothing later", () => {
    assert.strictEqual(allowed([children("a", "b", "c")]), "abcd")
    assert.strictEqual(allowed([children("a", "b", "c")], "a"), "bc")
    assert.strictEqual(allowed([children("a", "b", "c")], "a", "b"), "abcd")
    assert.strictEqual(allowed([children("*", "a")], "d"), "a")
  })

  it("of two ChildTools are those in both", () => {
    assert.strictEqual(allowed([children("a", "b", "c"), children("*", "c", "d")], "a"), "c")
  })

  it("of ParentTools come right after it alone, and right after it only they", () => {
    assert.strictEqual(allowed([parent("a", "b")]), "acd")
    assert.strictEqual(allowed([parent("a", "b")], "a"), "b")
    assert.strictEqual(allowed([parent("a", "b")], "a", "b"), "acd")
  })

  it("with several parents may follow any of them", () => {
    const rules = [parent("a", "c"), parent("b", "c")]
    assert.strictEqual(allowed(rules), "abd")
    assert.strictEqual(allowed(rules, "a"), "c")
    assert.strictEqual(allowed(rules, "b"), "c")
    assert.strictEqual(allowed(rules, "d"), "abd")
  })

  it("of * come right after any tool, but not first", () => {
    assert.strictEqual(allowed([parent("*", "d")]), "abc")
    assert.strictEqual(allowed([parent("*", "d")], "b"), "d")
  })

  it("are named to a call between them", () => {
    assert.strictEqual(
      told([children("a", "b", "c")], ["a"], { tool: "d" }),
      "Right after \"a\" only \"b\" or \"c\" may be called, so \"d\" was not run. Call \"b\" or \"c\"."
    )
    assert.strictEqual(
      told([parent("a", "b")], ["a"], { tool: "d" }),
      "Right after \"a\" only \"b\" may be called, so \"d\" was not run. Call \"b\"."
    )
  })

  it("are told which parent they need, and what came last", () => {
    assert.strictEqual(
      told([parent("a", "b")], [], { tool: "b" }),
      "\"b\" may be called only right after \"a\"; nothing has succeeded yet. Call \"a\", then call \"b\" again."
    )
    assert.strictEqual(
      told([parent("a", "b"), parent("c", "b")], ["d"], { tool: "b" }),
      "\"b\" may be called only right after \"a\" or \"c\"; the last success is \"d\". " +
        "Call \"a\" or \"c\", then call \"b\" again."
    )
    assert.strictEqual(
      told([parent("*", "b")], [], { tool: "b" }),
      "\"b\" may be called only right after another tool has succeeded; nothing has succeeded yet. " +
        "Call another tool, then call \"b\" again."
    )
  })

  it("are told a parent of two rules once", () => {
    assert.strictEqual(
      told([parent("a", "b", "c"), parent("a", "b")], [], { tool: "b" }),
      "\"b\" may be called only right after \"a\"; nothing has succeeded yet. Call \"a\", then call \"b\" again."
    )
  })
})

describe("a condition on an output", () => {
  it("says what alone may come next", () => {
    assert.strictEqual(allowed([route("a")], of("b")), "b")
    assert.strictEqual(allowed([route("a")], of({ x: [1, null] })), "c")
    assert.strictEqual(allowed([route("a")], of("b"), "b"), "abcd")
  })

  it("compares values, not their texts", () => {
    const rules = [route("a", { cases: [{ equals: 1, tool: "b" }, { equals: { x: 1, y: 2 }, tool: "c" }] })]
    assert.strictEqual(allowed(rules, of("1")), "abcd")
    assert.strictEqual(allowed(rules, of(1)), "b")
    assert.strictEqual(allowed(rules, of({ y: 2, x: 1 })), "c")
    assert.strictEqual(allowed(rules, of({ x: 1 })), "abcd")
    assert.strictEqual(allowed([route("a", { cases: [{ equals: [1, 2], tool: "b" }] })], of([2, 1])), "abcd")
  })

  it("tells null from nothing there", () => {
    const rules = [route("a", { cases: [{ equals: null, tool: "b" }], default: "c" })]
    assert.strictEqual(allowed(rules, of(null)), "b")
    assert.strictEqual(allowed(rules, { tool: "a", output: {} }), "c")
    assert.strictEqual(allowed(rules, "a"), "c")
  })

  it("without a match leads to its default, else anywhere, and with strict nowhere", () => {
    assert.strictEqual(allowed([route("a")], of("?")), "abcd")
    assert.strictEqual(allowed([route("a", { strict: false })], of("?")), "abcd")
    assert.strictEqual(allowed([route("a", { default: "d" })], of("?")), "d")
    assert.strictEqual(allowed([route("a", { strict: true })], of("?")), "")
  })

  it("on the whole output takes an output that is no object", () => {
    const rules = [route("*", { path: "", cases: [{ equals: "go", tool: "d" }] })]
    assert.strictEqual(allowed(rules, { tool: "c", output: "go" }), "d")
    assert.strictEqual(allowed(rules, { tool: "c", output: "stop" }), "abcd")
  })

  it("takes the first of its cases that fits", () => {
    const cases = [{ equals: 1, tool: "b" }, { equals: 1, tool: "c" }]
    assert.strictEqual(allowed([route("a", { cases })], of(1)), "b")
  })

  it("holds beside another one", () => {
    const rules = [route("a"), route("a", { path: "more", cases: [{ equals: 1, tool: "c" }] })]
    assert.strictEqual(allowed(rules, { tool: "a", output: { kind: "b", more: 1 } }), "")
    assert.strictEqual(allowed(rules, { tool: "a", output: { kind: "b", more: 2 } }), "b")
  })

  it("is told as what it leads to", () => {
    assert.strictEqual(
      told([route("a")], [of("b")], { tool: "d" }),
      "The output of \"a\" leads to \"b\", so \"d\" was not run. Call \"b\"."
    )
    assert.strictEqual(
      told([route("a", { strict: true })], [of("?")], { tool: "d" }),
      "The output of \"a\" leads to no tool, so \"d\" was not run. Answer without tools."
    )
  })
})

describe("allowed operations", () => {
  const wrong = (rule: Rule, ...params: ReadonlyArray<unknown>) =>
    params.filter((it) => told([rule], [], { tool: "a", params: it }) !== "")

  it("forbid every other value of the argument, and leaving it out", () => {
    const params = [{ op: "x" }, { op: "y", more: 1 }, { op: "z" }, {}, { OP: "x" }, null, undefined, "x", ["x"]]
    assert.deepStrictEqual(wrong(operations("a", "op", "x", "y"), ...params), params.slice(2))
  })

  it("of * forbid other values only where the argument is there", () => {
    assert.deepStrictEqual(wrong(operations("*", "op", "x"), { op: "x" }, { op: "z" }, {}, null), [{ op: "z" }])
  })

  it("compare values by what is in them", () => {
    const params = [{ at: { b: [1], a: null } }, { at: { a: null } }, { at: "1" }]
    assert.deepStrictEqual(wrong(operations("a", "at", { a: null, b: [1] }, 1), ...params), params.slice(1))
  })

  it("look at no argument that every object has", () => {
    assert.lengthOf(wrong(operations("a", "constructor", "x"), {}), 1)
    const parsed: unknown = JSON.parse(`{"__proto__":"x"}`)
    assert.deepStrictEqual(wrong(operations("a", "__proto__", "x"), parsed), [])
  })

  it("are not asked about a call without its arguments", () => {
    assert.strictEqual(told([operations("a", "op", "x")], [], { tool: "a" }), "")
  })

  it("are told with the values, and what to do", () => {
    assert.strictEqual(
      told([operations("*", "op", "x", 2, null)], [], { tool: "a", params: { op: 1 } }),
      "\"a\" may be called only with \"op\" set to \"x\", 2 or null. Correct \"op\" and call it again."
    )
  })
})

describe("a call that breaks several rules", () => {
  it("is told of one: start tools, then order, then neighbours, then values", () => {
    const rules: ReadonlyArray<Rule> = [
      operations("d", "op", "x"),
      route("c", { cases: [], default: "a" }),
      children("c", "b"),
      parent("b", "d"),
      never("d", "c"),
      before("d", "a"),
      start("c")
    ]
    const call = { tool: "d", params: {} }
    const tag = (without: ReadonlyArray<ToolRule.Tag>, ...past: ReadonlyArray<Past>) => {
      const { history, set } = moment(rules.filter((it) => !without.includes(it._tag)), past)
      return RuleSet.check(set, history, call)?.rule._tag
    }
    assert.strictEqual(tag([]), "StartConstraint")
    assert.strictEqual(tag([], "c"), "RequiresPrecedingTools")
    assert.strictEqual(tag([], "a", "c"), "RequiresFollowingTools")
    const done: Array<ToolRule.Tag> = ["RequiresFollowingTools"]
    assert.strictEqual(tag(done, "a", "c"), "ParentTools")
    assert.strictEqual(tag([...done, "ParentTools"], "a", "c"), "ChildTools")
    assert.strictEqual(tag([...done, "ParentTools", "ChildTools"], "a", "c"), "Conditional")
    assert.strictEqual(tag([...done, "ParentTools", "ChildTools", "Conditional"], "a", "c"), "AllowedOperations")
  })
})

describe("history", () => {
  it("of nothing has no last success", () => {
    const { history } = moment([exit("a")])
    assert.isUndefined(history.last)
    assert.isFalse(history.exitWanted)
    assert.deepStrictEqual(Array.from(history.succeeded), [])
  })

  it("knows what succeeded, what was last, and whether the exit is wanted", () => {
    const { history } = moment([exit("a")], ["a", "b", "b"], ["d"])
    assert.deepStrictEqual(Array.from(history.succeeded), ["a", "b"])
    assert.deepStrictEqual(Array.from(history.batch.succeeded), ["d", "a", "b"])
    assert.strictEqual(history.last?.tool, "b")
    assert.isTrue(history.exitWanted)
  })

  it("wants the exit after any tool where * ends the loop", () => {
    assert.isTrue(moment([exit("*")], ["c"]).history.exitWanted)
  })

  it("takes order from its own process, not from others of the batch", () => {
    const { history, set } = moment([before("b", "a"), never("c", "a"), start("a")], [], ["a"])
    assert.deepStrictEqual(RuleSet.allowedNext(set, history), ["a"])
  })
})

describe("what is required before exit", () => {
  const pending = (
    rules: ReadonlyArray<Rule>,
    past: ReadonlyArray<string> = [],
    inBatch: ReadonlyArray<string> = []
  ) => {
    const { history, set } = moment(rules, past, inBatch)
    return RuleSet.exitPending(set, history)
  }

  it("is pending until it succeeded once", () => {
    assert.deepStrictEqual(pending([required("b"), required("a")]), ["b", "a"])
    assert.deepStrictEqual(pending([required("b"), required("a")], ["b", "c"]), ["a"])
    assert.deepStrictEqual(pending([required("b")], ["b"]), [])
  })

  it("under a condition is pending once all of it succeeded", () => {
    assert.deepStrictEqual(pending([required("c", "a", "b")], ["a"]), [])
    assert.deepStrictEqual(pending([required("c", "a", "b")], ["b", "a"]), ["c"])
    assert.deepStrictEqual(pending([required("c", "a", "b")], ["c", "b", "a"]), [])
  })

  it("is each tool where * is required", () => {
    assert.deepStrictEqual(pending([required("*")], ["b"]), ["a", "c", "d"])
    assert.deepStrictEqual(pending([required("*", "a")], ["a"]), ["b", "c", "d"])
  })

  it("is named once, however many rules require it", () => {
    assert.deepStrictEqual(pending([required("a"), required("*"), required("a")]), ["a", "b", "c", "d"])
  })

  it("of a process does not count another's success, of a batch does", () => {
    const inBatch: Rule = { _tag: "RequiredBeforeExit", tool: "a", scope: "batch" }
    assert.deepStrictEqual(pending([required("a")], [], ["a"]), ["a"])
    assert.deepStrictEqual(pending([inBatch], [], ["a"]), [])
    assert.deepStrictEqual(pending([inBatch], ["a"]), [])
    const when: Rule = { _tag: "RequiredBeforeExit", tool: "a", scope: "batch", when: ["b"] }
    assert.deepStrictEqual(pending([when], [], ["b"]), ["a"])
    assert.deepStrictEqual(pending([{ ...when, scope: "process" }], [], ["b"]), [])
  })
})

describe("a success that is awaited", () => {
  const awaited = (rules: ReadonlyArray<Rule>, ...past: ReadonlyArray<string>) => {
    const { history, set } = moment(rules, past)
    return names.filter((tool) => RuleSet.isAwaited(set, history, tool)).join("")
  }

  it("is that of start tools, prerequisites, exit tools and what is required, until it is there", () => {
    assert.strictEqual(awaited([start("a")]), "a")
    assert.strictEqual(awaited([start("a")], "a"), "")
    assert.strictEqual(awaited([before("*", "a", "b")], "b"), "a")
    assert.strictEqual(awaited([exit("c")]), "c")
    assert.strictEqual(awaited([exit("c")], "c"), "")
    assert.strictEqual(awaited([required("d")]), "d")
    assert.strictEqual(awaited([required("d")], "d"), "")
    assert.strictEqual(awaited([required("d", "a")]), "")
    assert.strictEqual(awaited([required("d", "a")], "a"), "d")
  })

  it("is none of what only forbids, limits or follows", () => {
    assert.strictEqual(awaited([never("a", "b"), children("c", "d"), { _tag: "MaxCalls", tool: "a", max: 1 }]), "")
    assert.strictEqual(awaited([]), "")
  })
})

describe("what has to come next", () => {
  it("is nothing in particular where no rule says so", () => {
    assert.strictEqual(forced([]), "")
    assert.strictEqual(forced([before("b", "a")]), "")
    assert.strictEqual(forced([required("a")], "b"), "")
  })

  it("is a start tool that is missing, of those that may come now", () => {
    assert.strictEqual(forced([start("a"), start("b")]), "ab")
    assert.strictEqual(forced([start("a"), start("b")], "b"), "a")
    assert.strictEqual(forced([start("a"), start("b"), before("b", "a")]), "a")
    assert.strictEqual(forced([start("a"), start("b"), before("b", "a")], "a", "b"), "")
  })

  it("is a child or what an output leads to", () => {
    assert.strictEqual(forced([children("a", "b", "c")], "a"), "bc")
    assert.strictEqual(forced([parent("a", "b")], "a"), "b")
    assert.strictEqual(forced([route("a")], of("b")), "b")
    assert.strictEqual(forced([route("a")], of("?")), "")
    assert.strictEqual(forced([children("a", "b"), never("b", "a")], "a"), "")
  })

  it("is what is required, once the exit is wanted", () => {
    assert.strictEqual(forced([required("b"), required("c"), exit("d")], "c"), "")
    assert.strictEqual(forced([required("b"), required("c"), exit("d")], "c", "d"), "b")
    assert.strictEqual(forced([required("b"), exit("d")], "b", "d"), "")
  })
})

const everyKind: { readonly [T in ToolRule.Tag]: ReadonlyArray<readonly [rule: Rule<T>, sentence: string]> } = {
  StartConstraint: [
    [{ _tag: "StartConstraint", tool: "a" }, "\"a\" has to succeed before any other tool is called."],
    [{ _tag: "StartConstraint", tool: "a", mode: "any" }, "\"a\" has to succeed before any other tool is called."]
  ],
  RequiresPrecedingTools: [
    [
      { _tag: "RequiresPrecedingTools", tool: "a", tools: ["b"] },
      "\"a\" may be called only after \"b\" has succeeded."
    ],
    [
      { _tag: "RequiresPrecedingTools", tool: "*", tools: ["b", "c"] },
      "Every tool but \"b\" and \"c\" may be called only after \"b\" and \"c\" have succeeded."
    ]
  ],
  RequiresFollowingTools: [
    [
      { _tag: "RequiresFollowingTools", tool: "a", tools: ["b", "c", "d"] },
      "\"a\" may no longer be called once \"b\", \"c\" or \"d\" has succeeded."
    ],
    [
      { _tag: "RequiresFollowingTools", tool: "*", tools: ["b"] },
      "No tool may be called once \"b\" has succeeded."
    ]
  ],
  ChildTools: [
    [
      { _tag: "ChildTools", tool: "a", children: ["b", "c"], prefilled: { b: { x: 1, y: 2 } } },
      "Right after \"a\" only \"b\" or \"c\" may be called. The host sets \"x\" and \"y\" of \"b\"."
    ],
    [
      { _tag: "ChildTools", tool: "*", children: ["b"], prefilled: { b: {} } },
      "Right after any tool only \"b\" may be called."
    ]
  ],
  ParentTools: [
    [
      { _tag: "ParentTools", tool: "a", children: ["b", "c"] },
      "\"b\" and \"c\" may be called only right after \"a\", and right after it nothing else may."
    ]
  ],
  Conditional: [
    [
      { _tag: "Conditional", tool: "a", path: "k", cases: [{ equals: "x", tool: "b" }], default: "c" },
      "Right after \"a\", \"k\" in its output decides what may be called next: \"b\" if it is \"x\", otherwise \"c\"."
    ],
    [
      { _tag: "Conditional", tool: "*", path: "", cases: [{ equals: null, tool: "b" }], strict: true },
      "Right after any tool, its output decides what may be called next: \"b\" if it is null, otherwise nothing."
    ],
    [
      { _tag: "Conditional", tool: "a", path: "k", cases: [], default: "b" },
      "Right after \"a\" only \"b\" may be called."
    ],
    [
      { _tag: "Conditional", tool: "a", path: "k", cases: [], strict: true },
      "Right after \"a\" nothing may be called."
    ]
  ],
  AllowedOperations: [
    [
      { _tag: "AllowedOperations", tool: "a", field: "op", allowed: ["x", 1, null] },
      "\"a\" may be called only with \"op\" set to \"x\", 1 or null."
    ],
    [
      { _tag: "AllowedOperations", tool: "*", field: "op", allowed: ["x"] },
      "Every tool that takes \"op\" may be called only with \"op\" set to \"x\"."
    ]
  ],
  MaxCalls: [
    [{ _tag: "MaxCalls", tool: "a", max: 1 }, "\"a\" may be called at most once per request."],
    [{ _tag: "MaxCalls", tool: "*", max: 2 }, "Every tool may be called at most 2 times per request."],
    [{ _tag: "MaxCalls", tool: "a", max: 0 }, "\"a\" may not be called."],
    [{ _tag: "MaxCalls", tool: "*", max: 0 }, "No tool may be called."]
  ],
  ExclusiveGroup: [
    [
      { _tag: "ExclusiveGroup", tools: ["a", "b", "c"] },
      "Use only one of \"a\", \"b\" and \"c\" per request: whichever is called first. That one may be called again."
    ],
    [
      { _tag: "ExclusiveGroup", tools: ["a", "b", "a"] },
      "Use only one of \"a\" and \"b\" per request: whichever is called first. That one may be called again."
    ]
  ],
  RequiredBeforeExit: [
    [{ _tag: "RequiredBeforeExit", tool: "a" }, "\"a\" has to succeed before the work may end."],
    [
      { _tag: "RequiredBeforeExit", tool: "*", when: ["a", "b"], scope: "batch" },
      "In this request, once \"a\" and \"b\" have succeeded, every tool has to succeed before the work may end."
    ]
  ],
  ExitLoop: [
    [{ _tag: "ExitLoop", tool: "a" }, "The work ends once \"a\" has succeeded."],
    [{ _tag: "ExitLoop", tool: "*" }, "The work ends once any tool has succeeded."]
  ],
  ContinueLoop: [
    [{ _tag: "ContinueLoop", tool: "a" }, "After \"a\" you get another turn without asking for one."]
  ],
  Cooldown: [
    [
      { _tag: "Cooldown", tool: "a", duration: "2 seconds" },
      "\"a\" may be called again no sooner than 2 seconds after its previous call."
    ]
  ],
  RequiresConsent: [
    [{ _tag: "RequiresConsent", tool: "*", scope: "tool" }, "Every tool runs only if a person approves it."]
  ],
  NeverDedupe: [
    [{ _tag: "NeverDedupe", tool: "a" }, "\"a\" may be repeated with the same arguments."]
  ],
  AlwaysDedupe: [
    [{ _tag: "AlwaysDedupe", tool: "a" }, "\"a\" is not run again with the same arguments."],
    [{ _tag: "AlwaysDedupe", tool: "*" }, "No tool is run again with the same arguments."]
  ],
  Periodic: [
    [{ _tag: "Periodic", tool: "a", schedule: "5 minutes" }, "\"a\" is run by the host, every 5 minutes."],
    [{ _tag: "Periodic", tool: "a", schedule: "0 6 * * *" }, "\"a\" is run by the host, at \"0 6 * * *\" (UTC)."]
  ]
}

describe("the sentence of a rule", () => {
  for (const [tag, cases] of Object.entries(everyKind)) {
    for (const [rule, sentence] of cases) {
      const { _tag, ...fields } = rule
      it(`${tag} with ${JSON.stringify(fields)} reads well`, () => {
        assert.strictEqual(RuleSet.sentence(rule), sentence)
      })
    }
  }

  it("of alternatives at the start names them all, once", () => {
    const { set } = moment([start("a", "any"), start("b", "any"), start("c", "any"), start("d")])
    assert.deepStrictEqual(RuleSet.describe(set), [
      "One of \"a\", \"b\" and \"c\" has to succeed before any other tool is called.",
      "\"d\" has to succeed before any other tool is called."
    ])
  })

  const saying: ReadonlyArray<readonly [says: string, rules: ReadonlyArray<Rule>, sentences: ReadonlyArray<string>]> = [
    ["names all start tools at once", [start("a"), start("b")], [
      "\"a\" and \"b\" have to succeed before any other tool is called."
    ]],
    ["names all parents of a child", [
      { _tag: "ParentTools", tool: "a", children: ["c"] },
      { _tag: "ParentTools", tool: "b", children: ["c"] }
    ], [
      "\"c\" may be called only right after \"a\" or \"b\". Right after \"a\" only \"c\" may be called.",
      "\"c\" may be called only right after \"a\" or \"b\". Right after \"b\" only \"c\" may be called."
    ]],
    ["names the children that all rules of a tool allow", [
      { _tag: "ChildTools", tool: "a", children: ["b"] },
      { _tag: "ChildTools", tool: "a", children: ["b", "c"] }
    ], ["Right after \"a\" only \"b\" may be called."]],
    ["gives the strictest limit", [
      { _tag: "MaxCalls", tool: "a", max: 2 },
      { _tag: "MaxCalls", tool: "a", max: 1 },
      { _tag: "MaxCalls", tool: "b", max: 9 },
      { _tag: "MaxCalls", tool: "*", max: 5 }
    ], [
      "\"a\" may be called at most once per request.",
      "Every tool may be called at most 5 times per request."
    ]],
    ["does not say that a group may be repeated where it may not", [
      { _tag: "ExclusiveGroup", tools: ["a", "b"] },
      { _tag: "MaxCalls", tool: "*", max: 1 }
    ], [
      "Use only one of \"a\" and \"b\" per request: whichever is called first.",
      "Every tool may be called at most once per request."
    ]],
    ["leaves out the dedupe that NeverDedupe overrides", [
      { _tag: "NeverDedupe", tool: "a" },
      { _tag: "AlwaysDedupe", tool: "a" },
      { _tag: "AlwaysDedupe", tool: "*" }
    ], ["\"a\" may be repeated with the same arguments.", "No tool but \"a\" is run again with the same arguments."]]
  ]
  for (const [says, rules, sentences] of saying) {
    it(`${says}, beside others of its kind`, () => {
      assert.deepStrictEqual(RuleSet.describe(moment(rules).set), sentences)
    })
  }

  it("is said once of equal rules, and not of what only the host does", () => {
    const { set } = moment([before("a", "b"), { _tag: "Periodic", tool: "a", schedule: "1 hour" }, before("a", "b")])
    assert.deepStrictEqual(RuleSet.describe(set), ["\"a\" may be called only after \"b\" has succeeded."])
  })
})

describe("the explanation of a limit", () => {
  const say = (rule: Rule, ...others: ReadonlyArray<string>) => RuleSet.explain({ rule, tool: "a", names: others })

  it("says that it is used up, and not to try again", () => {
    assert.strictEqual(
      say({ _tag: "MaxCalls", tool: "*", max: 1 }),
      "\"a\" has reached its limit of 1 call for this request. " +
        "Do not call it again. Continue with the results you have."
    )
    assert.strictEqual(
      say({ _tag: "MaxCalls", tool: "a", max: 0 }),
      "\"a\" may not be called here. Continue without it."
    )
  })

  it("says which of a group was first", () => {
    assert.strictEqual(
      say({ _tag: "ExclusiveGroup", tools: ["a", "b"] }, "b"),
      "Only one of \"a\" and \"b\" may be used for this request, and \"b\" was first. Use \"b\" instead of \"a\"."
    )
  })

  it("says whether the tool rests or still runs", () => {
    const rule: Rule = { _tag: "Cooldown", tool: "*", duration: "2 seconds" }
    assert.strictEqual(say(rule), "\"a\" may be called again no sooner than 2 seconds after its previous call.")
    assert.strictEqual(
      say(rule, "a"),
      "\"a\" is still running, and may be called again no sooner than 2 seconds after that. Wait for its result first."
    )
  })

  it("of a rule for * is about the one call", () => {
    for (const cases of Object.values(everyKind)) {
      for (const [rule] of cases) {
        // what alone can refuse a call for each tool by itself
        if (!["RequiresFollowingTools", "AllowedOperations", "MaxCalls", "Cooldown"].includes(rule._tag)) continue
        const text = RuleSet.explain({ rule: { ...rule, tool: "*" } as Rule, tool: "a", names: ["b"], last: "c" })
        assert.notMatch(text, /[Ee]very tool|any tool|[Nn]o tool|\*/, rule._tag)
      }
    }
  })
})

describe("what rules say of a tool", () => {
  it("is the strictest limit, the longest rest, and never before always", () => {
    const { set } = moment([
      { _tag: "MaxCalls", tool: "*", max: 5 },
      { _tag: "MaxCalls", tool: "a", max: 2 },
      { _tag: "Cooldown", tool: "a", duration: "1 second" },
      { _tag: "Cooldown", tool: "*", duration: "1 minute" },
      { _tag: "NeverDedupe", tool: "a" },
      { _tag: "AlwaysDedupe", tool: "*" }
    ])
    const a = set.forTool("a")
    assert.strictEqual(a.maxCalls[0]?.max, 2)
    assert.strictEqual(a.cooldowns[0]?.millis, 60_000)
    assert.strictEqual(a.dedupe, "never")
    assert.strictEqual(set.forTool("b").dedupe, "always")
    assert.strictEqual(set.forTool("b").maxCalls[0]?.max, 5)
  })

  it("is one group for one set of tools, in whatever order they are listed", () => {
    const { set } = moment([
      { _tag: "ExclusiveGroup", tools: ["a", "b"] },
      { _tag: "ExclusiveGroup", tools: ["b", "a"] },
      { _tag: "ExclusiveGroup", tools: ["a", "b", "c"] }
    ])
    assert.strictEqual(new Set(set.forTool("a").groups.map((it) => it.id)).size, 2)
  })

  it("is asked of a name that is no tool without a crash", () => {
    const { history, set } = moment([start("a"), before("*", "b"), parent("a", "b"), operations("*", "op", 1)])
    for (const tool of ["", "*", "__proto__", "constructor", "hasOwnProperty", "x".repeat(100_000)]) {
      assert.isDefined(RuleSet.check(set, history, { tool, params: { op: 1 } }), tool.slice(0, 20))
      assert.notInclude(RuleSet.allowedNext(set, history), tool)
    }
  })
})

const randomRule = ({ chance, int, pick }: SeededRandom): Rule => {
  const tool = chance(0.2) ? "*" : pick(names)
  switch (int(12)) {
    case 0:
    case 1:
      return start(pick(names), chance(0.5) ? "any" : "all")
    case 2:
      return before(tool, pick(names), pick(names))
    case 3:
      return never(tool, pick(names))
    case 4:
      return children(tool, pick(names), pick(names))
    case 5:
      return parent(tool, pick(names))
    case 6:
      return route(tool, chance(0.5) ? { default: pick(names) } : { strict: chance(0.5) })
    case 7:
      return operations(tool, "op", "x", "y")
    case 8:
      return required(tool, ...(chance(0.5) ? [pick(names)] : []))
    case 9:
      return exit(tool)
    case 10:
      return { _tag: "ExclusiveGroup", tools: [pick(names), pick(names)] }
    default:
      return { _tag: "MaxCalls", tool, max: int(3) }
  }
}

const law = (
  name: string,
  holds: (random: SeededRandom, rules: ReadonlyArray<Rule>, past: ReadonlyArray<Past>) => void
) =>
  it.prop(name, [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 }))], ([seed]) => {
    const random = randomFrom(seed)
    const rules = Array.from({ length: random.int(7) }, () => randomRule(random))
    const past = Array.from({ length: random.int(6) }, () => ({
      tool: random.pick(names),
      output: { kind: random.pick(["b", { x: [1, null] }, 0]) }
    }))
    holds(random, rules, past)
  }, { arbitrary: { runs: 400 } })

describe("whatever the rules and the past", () => {
  law("a tool may come next exactly when a call of it is not refused", (_, rules, past) => {
    const { history, set } = moment(rules, past)
    const next = RuleSet.allowedNext(set, history)
    for (const tool of names) {
      assert.strictEqual(next.includes(tool), RuleSet.check(set, history, { tool }) === undefined, tool)
    }
  })

  law("what has to come next may come next", (_, rules, past) => {
    const { history, set } = moment(rules, past)
    for (const tool of RuleSet.forcedNext(set, history)) assert.include(RuleSet.allowedNext(set, history), tool)
  })

  law("one more rule never allows more, but for alternatives at the start and more parents", (random, rules, past) => {
    const more = randomRule(random)
    if (more._tag === "ParentTools" || more._tag === "StartConstraint") return
    const there = allowed([...rules, more], ...past)
    for (const tool of there) assert.include(allowed(rules, ...past), tool)
  })

  law("the order of the rules decides nothing but the words", (_, rules, past) => {
    assert.strictEqual(allowed(rules.toReversed(), ...past), allowed(rules, ...past))
    assert.sameMembers(forced(rules.toReversed(), ...past).split(""), forced(rules, ...past).split(""))
  })

  law(
    "the same call is refused whether or not it has its arguments, unless they are what is wrong",
    (_, rules, past) => {
      const { history, set } = moment(rules, past)
      for (const tool of names) {
        const bare = RuleSet.check(set, history, { tool })
        const full = RuleSet.check(set, history, { tool, params: { op: "x" } })
        assert.deepStrictEqual(full, bare)
        const wrong = RuleSet.check(set, history, { tool, params: { op: "z" } })
        if (wrong?.rule._tag !== "AllowedOperations") assert.deepStrictEqual(wrong, bare)
      }
    }
  )

  law("a refusal names a rule of the set, and is a sentence that names the call", (_, rules, past) => {
    const { history, set } = moment(rules, past)
    for (const tool of names) {
      const violation = RuleSet.check(set, history, { tool, params: { op: "z" } })
      if (violation === undefined) continue
      assert.include(rules, violation.rule)
      const text = RuleSet.explain(violation)
      assert.include(text, `"${tool}"`)
      assert.match(text, /^["A-Z][^]*\.$/)
      assert.notMatch(text, /undefined|\[object| {2}|""|\*/)
    }
  })

  law("every rule that a model is told is one sentence or more", (_, rules) => {
    const { set } = moment(rules)
    const sentences = RuleSet.describe(set)
    assert.isAtMost(sentences.length, rules.length)
    assert.strictEqual(sentences.length === 0, rules.length === 0)
    for (const text of sentences) {
      assert.match(text, /^["A-Z][^]*\.$/)
      assert.notMatch(text, /undefined|\[object| {2}|""|\*/)
    }
  })

  law(
    "what is awaited is a start tool, a prerequisite, an exit tool or required, and has not succeeded",
    (_, rules, past) => {
      const { history, set } = moment(rules, past)
      for (const tool of names) {
        if (!RuleSet.isAwaited(set, history, tool)) continue
        assert.isFalse(history.succeeded.has(tool), tool)
        assert.isTrue(set.forTool(tool).mayBeAwaited, tool)
      }
      for (const tool of [...RuleSet.startPending(set, history), ...RuleSet.exitPending(set, history)]) {
        assert.isFalse(history.succeeded.has(tool) && set.starts.every((it) => it.tool !== tool), tool)
      }
    }
  )

  law("a tool that nothing restrains may always come", (_, rules, past) => {
    const { history, set } = moment(rules, past)
    for (const tool of names) {
      if (set.forTool(tool).isFree) assert.isUndefined(RuleSet.check(set, history, { tool, params: {} }), tool)
    }
  })
})
