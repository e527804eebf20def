/** Puts requests to the person at the terminal, all at once, and prints how each of them ended. */
import { Approvals } from "effect-tool-executor"
import * as TerminalApprover from "effect-tool-executor/terminal"
import * as Effect from "effect/Effect"
import process from "node:process"

const [way = "layer", count = "1"] = process.argv.slice(2)

const question = (index: number): Approvals.NewRequest => ({
  principal: "ada",
  agentPath: [],
  batch: "b",
  process: "p",
  callId: `c${index}`,
  index,
  tool: "refund",
  class: "SerialMut",
  args: { number: index, memo: "\u202e\u001b[2J" },
  targets: [],
  why: "it pays money",
  preview: undefined,
  isRunning: false,
  remember: "call"
})

const main = Effect.gen(function*() {
  const approvals = yield* Approvals.Approvals
  const requests = yield* Effect.forEach(
    Array.from({ length: Number(count) }, (_, it) => it),
    (it) => approvals.request(question(it))
  )
  process.stderr.write("starting\n")
  const ends = way === "layer"
    ? yield* Effect.forEach(requests, (it) => Effect.map(approvals.submit(it), ({ _tag }) => _tag), {
      concurrency: "unbounded"
    })
    : yield* Effect.promise(() =>
      Promise.all(requests.map(async (it) => (await TerminalApprover.ask(it))._tag === "Deny" ? "Denied" : "Approved"))
    )
  process.stdout.write(`\nends ${JSON.stringify(ends)}\n`)
})

// the process ends by itself: an approver leaves nothing open
await Effect.runPromise(Effect.provide(main, TerminalApprover.layer()))
