/** Writes to a session in a folder, both of them arguments, until it is killed. */
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as TranscriptFolder from "../../src/tools/folders/TranscriptFolder.ts"

const [, , directory, session] = process.argv

const program = Effect.gen(function*() {
  const transcripts = yield* TranscriptFolder.make({ directory: directory! })
  const { append, messages } = yield* transcripts.open(session!, "default")
  for (let index = messages.length;; index++) {
    const text = `${index} ${"x".repeat(index % 50_000)}`
    yield* append([Prompt.userMessage({ content: [Prompt.textPart({ text })] })])
    process.stdout.write(`${index}\n`)
  }
})

Effect.runFork(Effect.scoped(program))
