// What tracing costs: a decision with 100 kB of history, and, apart from it, receiving text and explaining.
import { Effect } from "effect"
import * as Declared from "../../src/provenance/Declared.ts"
import * as Ledger from "../../src/provenance/Ledger.ts"
import { median } from "./measure.ts"
import type { Line } from "./table.ts"

const send = Declared.make("send_mail", {
  effect: "write",
  parameters: { recipients: "target", subject: "content", body: "content" }
})
const remove = Declared.make("delete_file", { effect: "write", parameters: { id: "object:file" } })
const contacts = Declared.make("contacts", {
  effect: "read",
  output: { "people.name": "label", "people.address": "own" }
})
const files = Declared.make("list_files", { effect: "read", output: { id: "own:file", name: "label" } })
const page = Declared.make("read_page", { effect: "read" })

const words = "the report about ships and harbours was written by a person who likes the sea and long letters".split(
  " "
)
const sentence = (n: number) =>
  `${words.slice(n % 7).join(" ")}. Ask person-${n}@example.org or see https://example.org/page/${n}?q=${n * 7}. `

/** About 50 kB said by the user, 50 kB read in pages, and lists of a thousand values. */
const full = () => {
  const ledger = Ledger.make()
  const people = Array.from({ length: 500 }, (_, n) => ({ name: `Person ${n}`, address: `p${n}@example.com` }))
  const list = Array.from({ length: 500 }, (_, n) => ({ id: `${1_000 + n}`, name: `file ${n}.txt` }))
  for (let n = 0; n < 36; n++) {
    ledger.heard(
      Array.from({ length: 10 }, (_, at) => sentence(n * 10 + at)).join("").replaceAll("example.org", "said.example")
    )
    const output = Array.from({ length: 10 }, (_, at) => sentence(n * 10 + at)).join("")
    ledger.received({ tool: page, callId: `page-${n}`, args: { n }, output })
  }
  ledger.received({ tool: contacts, callId: "c", args: {}, output: { people } })
  ledger.received({ tool: files, callId: "f", args: {}, output: list })
  ledger.heard("Delete file 77.txt and write to p42@example.com about the harbour")
  return ledger
}

const body = words.join(" ")
const longBody = Array.from({ length: 25 }, () => `${body}.`).join(" ")
const linkedBody = Array.from({ length: 25 }, (_, n) => `${body}, see https://said.example/page/${n}?q=${n * 7}.`).join(
  " "
)

const micros = (run: () => unknown, times = 2_000): number => {
  const rounds: Array<number> = []
  for (let round = -2; round < 9; round++) {
    const from = process.hrtime.bigint()
    for (let n = 0; n < times; n++) run()
    if (round >= 0) rounds.push(Number(process.hrtime.bigint() - from) / 1_000 / times)
  }
  return median(rounds)
}

export const provenance = Effect.sync(() => {
  const ledger = full()
  const decide = (tool: Declared.Tool, args: unknown, expected: Ledger.Verdict["_tag"]) => {
    if (ledger.decide(tool, args)._tag !== expected) throw new Error(`expected ${expected}: ${JSON.stringify(args)}`)
    return micros(() => ledger.decide(tool, args))
  }
  const unproved = ledger.decide(send, { recipients: ["person-7@example.org"], body })
  const nowhere = ledger.decide(send, { recipients: ["mark@evil.example"], body })
  if (unproved._tag !== "Unproved" || nowhere._tag !== "Unproved") throw new Error("expected two that ask")
  const text = Array.from({ length: 10 }, (_, n) => sentence(n)).join("")
  const line = (what: string, value: number): Line => ({ what, value, unit: "µs" })
  const decision = (what: string, value: number): Line => ({ ...line(what, value), bar: { of: "value", limit: 20 } })
  const mail = (to: string, body: string) => ({ recipients: [to], subject: "the report", body })
  return [
    decision(
      "provenance: a mail to an address of 500 contacts, 100 kB of history",
      decide(send, mail("p42@example.com", body), "Proved")
    ),
    decision("provenance: a file that the user named among 500", decide(remove, { id: "1077" }, "Proved")),
    decision("provenance: a mail that asks", decide(send, mail("mark@evil.example", body), "Unproved")),
    line("provenance: a mail of 2.4 kB without links", decide(send, mail("p42@example.com", longBody), "Proved")),
    line("provenance: a mail of 3.5 kB with 25 links", decide(send, mail("p42@example.com", linkedBody), "Proved")),
    line("provenance: explaining, found", micros(() => ledger.explain(unproved.values[0]!))),
    line("provenance: explaining, found nowhere", micros(() => ledger.explain(nowhere.values[0]!))),
    line(
      "provenance: receiving foreign text, per kB",
      micros(() => Ledger.make().received({ tool: page, callId: "1", args: {}, output: text }), 500) /
        (text.length / 1_000)
    ),
    line("provenance: the user's words, per kB", micros(() => Ledger.make().heard(text), 200) / (text.length / 1_000))
  ]
})
