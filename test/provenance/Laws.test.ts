/** Laws of provenance, over random conversations. */
import { assert, describe, it } from "@effect/vitest"
import { origins } from "../../src/core/vocabulary/ToolProvenance.ts"
import * as Declared from "../../src/provenance/Declared.ts"
import { handlesIn, handlesOf } from "../../src/provenance/Handles.ts"
import * as Ledger from "../../src/provenance/Ledger.ts"
import { canonical, sentencesOf, textOf, tokensOf, valueOf } from "../../src/provenance/Normalised.ts"
import { seeds } from "../support/seeds.ts"

type Random = () => number

/** Numbers from 0 to 1, the same for the same seed. */
const random = (seed: number): Random => {
  let state = seed + 1
  return () => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const pick = <A>(random: Random, from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)]!
const many = <A>(random: Random, most: number, make: () => A): ReadonlyArray<A> =>
  Array.from({ length: Math.floor(random() * (most + 1)) }, make)

const values = [
  "ada@example.com",
  "mark@evil.example",
  "general",
  "general 2",
  "Ada Lovelace",
  "13",
  "14",
  "4711",
  "https://example.com/a?b=1",
  "example.com",
  "report.txt",
  "gener\u200Bal",
  "\uFF47eneral",
  "Zoë",
  "555-123-4567"
]
const fillers = [
  "please",
  "write to",
  "the file with id",
  "#",
  "and",
  "on May",
  "id",
  "see",
  ".",
  ",",
  "'",
  "www.",
  "$"
]

const text = (random: Random): string =>
  many(random, 8, () => pick(random, random() < 0.5 ? values : fillers)).join(pick(random, [" ", " ", " ", ""]))

const tools = {
  send: Declared.make("send", {
    effect: "write",
    parameters: { to: "target", body: "content" },
    output: { id: "own" }
  }),
  remove: Declared.make("remove", { effect: "write", parameters: { id: "object:file" } }),
  fetch: Declared.make("fetch", { effect: "egress", parameters: { url: "target" } }),
  list: Declared.make("list", {
    effect: "read",
    parameters: { query: "content" },
    output: { id: "own:file", name: "own", title: "label", note: "foreign", post: "peer" }
  }),
  page: Declared.make("page", { effect: "read" })
}

type Step =
  | { readonly _tag: "Heard"; readonly text: string }
  | { readonly _tag: "Foreign"; readonly text: string }
  | { readonly _tag: "Received"; readonly received: Ledger.Received }

const step = (random: Random): Step => {
  const kind = random()
  if (kind < 0.3) return { _tag: "Heard", text: text(random) }
  if (kind < 0.5) return { _tag: "Foreign", text: text(random) }
  const record = () => ({
    id: pick(random, values),
    name: pick(random, values),
    title: text(random),
    note: text(random),
    post: text(random)
  })
  const output = random() < 0.3 ? record() : many(random, 3, record)
  const args = random() < 0.3 ? {} : { query: pick(random, [...values, text(random)]) }
  return { _tag: "Received", received: { tool: tools.list, callId: "1", args, output } }
}

const ledgerOf = (steps: ReadonlyArray<Step>, limits?: Ledger.Limits): Ledger.Ledger => {
  const ledger = Ledger.make(limits)
  for (const it of steps) {
    if (it._tag === "Heard") ledger.heard(it.text)
    else if (it._tag === "Foreign") ledger.heard(it.text, "foreign")
    else ledger.received(it.received)
  }
  return ledger
}

const calls = values.flatMap((value): ReadonlyArray<readonly [Declared.Tool, unknown]> => [
  [tools.send, { to: value, body: "hello" }],
  [tools.send, { to: "general", body: `see ${value}` }],
  [tools.remove, { id: value }],
  [tools.fetch, { url: value }]
])

/** The weakest origin of each call's values; `proved` for a call that runs. */
const strengthOf = (ledger: Ledger.Ledger, [tool, args]: readonly [Declared.Tool, unknown]): number => {
  const verdict = ledger.decide(tool, args)
  if (verdict._tag !== "Unproved") return origins.length
  return Math.min(...verdict.values.map((it) => origins.indexOf(ledger.explain(it).origin)))
}

const without = <A>(all: ReadonlyArray<A>, index: number): ReadonlyArray<A> => all.filter((_, at) => at !== index)

describe("a ledger, over random conversations", () => {
  it("lets nothing run because a stranger wrote more", { tags: ["PV3"] }, () => {
    for (const seed of seeds(300)) {
      const random_ = random(seed)
      const steps = many(random_, 8, () => step(random_))
      const at = Math.floor(random_() * (steps.length + 1))
      const more = [...steps.slice(0, at), { _tag: "Foreign", text: text(random_) } as const, ...steps.slice(at)]
      const [before, after] = [ledgerOf(steps), ledgerOf(more)]
      for (const call of calls) assert.isAtMost(strengthOf(after, call), strengthOf(before, call), `seed ${seed}`)
    }
  })

  it("lets nothing run because the user said less", { tags: ["PV3"] }, () => {
    for (const seed of seeds(300)) {
      const random_ = random(seed)
      const steps = many(random_, 8, () => step(random_))
      const whole = ledgerOf(steps)
      for (const [index, it] of steps.entries()) {
        if (it._tag !== "Heard") continue
        const less = ledgerOf(without(steps, index))
        for (const call of calls) {
          if (less.decide(...call)._tag === "Proved") {
            assert.strictEqual(whole.decide(...call)._tag, "Proved", `seed ${seed}`)
          }
        }
      }
    }
  })

  it("lets nothing run because it has forgotten something", { tags: ["PV3"] }, () => {
    for (const seed of seeds(300)) {
      const random_ = random(seed)
      const steps = many(random_, 12, () => step(random_))
      const limits = {
        words: 1 + Math.floor(random_() * 100),
        values: 1 + Math.floor(random_() * 4),
        foreign: 1 + Math.floor(random_() * 100)
      }
      const [whole, small] = [ledgerOf(steps), ledgerOf(steps, limits)]
      for (const call of calls) {
        if (small.decide(...call)._tag === "Proved") {
          assert.strictEqual(whole.decide(...call)._tag, "Proved", `seed ${seed}`)
        }
      }
    }
  })

  it("finds the same as a slow search through what was said", () => {
    for (const seed of seeds(500)) {
      const random_ = random(seed)
      const said = many(random_, 5, () => text(random_))
      const ledger = ledgerOf(said.map((text) => ({ _tag: "Heard", text }) as const))
      for (const value of values) {
        if (/^\d+$/.test(value)) continue
        const isProved = ledger.decide(tools.send, { to: value, body: "" })._tag === "Proved"
        assert.strictEqual(
          isProved,
          said.some((it) => slowlySays(it, value)),
          `seed ${seed}: ${JSON.stringify([said, value])}`
        )
      }
    }
  })
})

/** Whether a text has a value from the beginning of a token to the end of one, or as one of its handles. */
const slowlySays = (said: string, value: string): boolean => {
  const wanted = canonical(value)
  return [textOf(said), textOf(sentencesOf(said)), valueOf(said)].some((text) => {
    if (handlesIn(text).includes(wanted)) return true
    const tokens = tokensOf(text)
    const own = tokensOf(wanted)
    const [first, last] = [own[0], own.at(-1)]
    if (first === undefined || last === undefined) return false
    for (let at = 0; at + wanted.length <= text.length; at++) {
      if (text.slice(at, at + wanted.length) !== wanted) continue
      if (
        tokens.some((it) => it.start === at + first.start) && tokens.some((it) => it.end === at + last.end)
      ) return true
    }
    return false
  })
}

describe("normal forms", () => {
  const alphabet = Array.from(
    "aAzZ019 .,:;@#/-_'\"()[]\n\t\u200B\u00AD\u202E\u{E0041}\uFF41ﬁİßΣςée\u0301Å\u212Bⅷ½\u3164👍🏽\u200D…—“”’"
  )

  it("of texts and values are their own normal forms", () => {
    for (const seed of seeds(2_000)) {
      const random_ = random(seed)
      const raw = many(random_, 12, () => pick(random_, alphabet)).join("")
      const told = JSON.stringify(raw)
      assert.strictEqual(textOf(textOf(raw)), textOf(raw), told)
      assert.strictEqual(valueOf(valueOf(raw)), valueOf(raw), told)
      for (const { end, start, text } of tokensOf(textOf(raw))) assert.strictEqual(textOf(raw).slice(start, end), text)
    }
  })

  it("of handles are handles", () => {
    for (
      const [written, handle] of [
        ["HTTPS://WWW.Example.com/A?b=1", "example.com/a?b=1"],
        ["(www.example.com).", "example.com"],
        ["<a@Example.com>,", "a@example.com"],
        ["10.0.0.1:80/x", "10.0.0.1:80/x"],
        ["+1 (555) 123-4567", "15551234567"],
        ["DE89 3704 0044 0532 0130 00", "89370400440532013000"],
        ["0x52908400098527886E0F7030069857D2E4169EE7", "0x52908400098527886e0f7030069857d2e4169ee7"],
        ["evil(dot)com", "evil.com"]
      ] as const
    ) assert.deepStrictEqual(handlesOf(`see ${written} now`), [handle])
    for (
      const none of [
        "2024-05-30 10:20 to 2024-05-31",
        "3.14159265",
        "v1.2",
        "e.g. this",
        "notes.txt",
        "30.05.2024",
        "2020-2024"
      ]
    ) assert.deepStrictEqual(handlesOf(`see ${none} now`), [], none)
  })

  it("of handles are found in every text, and that ends", () => {
    const alphabets = ["0123456789abcdef", "abcdefghijklmnopqrstuvwxyz234567", "0123456789", "bc1", "1a.,-( "]
    for (const seed of seeds(1_000)) {
      const random_ = random(seed)
      const digest = () => many(random_, 200, () => pick(random_, Array.from(pick(random_, alphabets)))).join("")
      for (const it of [digest(), `sha512 ${digest()} ok`, `bc1${digest()}`]) assert.isArray(handlesOf(it))
    }
    assert.deepStrictEqual(handlesOf(`bc1${"a".repeat(67)}1`), [`bc1${"a".repeat(67)}1`])
    const address = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
    assert.deepStrictEqual(handlesOf(`pay ${address} now`), [address])
  })

  it("of sentences are those of an expression that looks back", () => {
    const slowly = (text: string): string =>
      text.replaceAll(
        /(?<=(?:^|[^\p{L}\p{N}])[\p{Ll}\p{N}.@/_-]*[\p{Ll}\p{N}/])\.(?=\p{Lu}\p{Ll}*(?:[\s,;:!?'’]|$))/gu,
        ". "
      )
    for (const seed of seeds(3_000)) {
      const random_ = random(seed)
      const text = many(random_, 12, () => pick(random_, Array.from("aaBé1.../@_- ,Ⅷº"))).join("")
      assert.strictEqual(sentencesOf(text), slowly(text))
    }
  })

  it("of values differ where only marks beyond the thirtieth do", () => {
    const marked = (count: number) => `e${"\u0301\u0327".repeat(count)}`
    assert.notStrictEqual(valueOf(marked(20)), valueOf(marked(21)))
    assert.strictEqual(textOf(marked(20)), textOf(marked(21)))
    assert.strictEqual(valueOf(valueOf(marked(50))), valueOf(marked(50)))
  })

  it("of long texts without spaces take no longer for it", () => {
    const long = [
      "a".repeat(200_000),
      "a.".repeat(100_000),
      "a1".repeat(100_000),
      "a.bb,".repeat(40_000),
      "1(".repeat(100_000)
    ]
    for (const it of long) {
      assert.isAtMost(handlesOf(`${it}@b.c`).length, 3)
      assert.isAtMost(tokensOf(it).length, 200_000)
    }
  })
})
