/** Writes to the journal in a file, its path an argument, until it is killed. */
import * as Effect from "effect/Effect"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import * as JournalFile from "../../src/tools/folders/JournalFile.ts"

const program = Effect.gen(function*() {
  const journal = yield* JournalFile.make({ path: process.argv[2]! })
  for (let index = 0;; index++) {
    const entry = JournalContract.entry("Arrived", { key: String(index) })
    yield* journal.append([{ entry }], { durable: index % 10 === 0 })
    if (index === 20) process.stdout.write("ready\n")
    yield* Effect.yieldNow
  }
})

Effect.runFork(Effect.scoped(program))
