/** What matters most of the contract of directories, over two runners that share a PostgreSQL. */
import * as Effect from "effect/Effect"
import { suite } from "../support/directoryContract.ts"
import { two } from "../support/twoRunners.ts"

const some = [
  "a wave submitted five times at the same moment runs once",
  "a reader who follows sees every step once, also if the session is closed or moved meanwhile",
  "a request returns under its id, and is answered with its hash, after the session was closed or moved",
  "of four answers at the same moment one counts",
  "a message sent five times at the same moment starts one operation",
  "a sub-agent's request is the operation's, and its call runs once it is approved"
]

suite("a directory over two runners", two({}, Effect.void), { only: (name) => some.includes(name) })
