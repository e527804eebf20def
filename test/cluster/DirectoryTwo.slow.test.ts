/** The contract of directories, over two runners that share a PostgreSQL. */
import * as Effect from "effect/Effect"
import { suite } from "../support/directoryContract.ts"
import { inMemoryOnly, two } from "../support/twoRunners.ts"

const closing = [
  ...inMemoryOnly,
  "an operation is cancelled while it waits, and answers each of its calls",
  "conversations are listed to their user and to those who look after them"
]

suite("a directory over two runners", two({}, Effect.void), { only: (name) => !inMemoryOnly.includes(name) })

suite(
  "a directory over two runners that close sessions whenever nothing of them runs",
  two({ linger: "100 millis" }, Effect.sleep("250 millis")),
  { only: (name) => !closing.includes(name) }
)
