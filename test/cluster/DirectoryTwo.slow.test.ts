/** The contract of directories, over two runners that share a PostgreSQL. */
import * as Effect from "effect/Effect"
import { suite } from "../support/directoryContract.ts"
import { two } from "../support/twoRunners.ts"

suite("a directory over two runners", two({}, Effect.void))

suite(
  "a directory over two runners that close sessions whenever nothing of them runs",
  two({ linger: "100 millis" }, Effect.sleep("250 millis"))
)

suite("a directory over two runners behind a pooler in transaction mode", two({ isPooled: true }, Effect.void))
