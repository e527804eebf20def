/** `tool-executor token`: makes a token for a user of `serve`. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { escape } from "../../internal/escape.ts"
import { isUserName } from "../../server/users/Access.ts"
import * as Tokens from "../../server/users/Tokens.ts"
import { wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"

const input = {
  name: Argument.String("NAME").pipe(Argument.withDescription("The user of the token")),
  expires: Flags.text(
    "expires",
    "WHEN",
    "When it expires: a duration from now, such as \"90 days\", or a date; default never"
  )
}

export const command = Command.make(
  "token",
  input,
  Effect.fnUntraced(function*({ expires, name }) {
    if (!isUserName(name)) {
      return yield* wrong(
        `${
          escape(name)
        } cannot be the name of a user: 1 to 100 of A-Z a-z 0-9 . _ @ : | + - , the first a letter or digit`
      )
    }
    const until = Option.isNone(expires) ? {} : { expires: yield* timeOf(expires.value) }
    const token = yield* Tokens.make
    const user = { tokens: [{ hash: Tokens.hash(token), ...until }], run: true, approve: [name], records: [name] }
    // standard output contains only the token, for programs that store it
    yield* Files.printError(
      `The token of ${name}. It is shown only once; give it to ${name} only:\n\n`
    )
    yield* Files.print(Redacted.value(token))
    yield* Files.printError(
      `\nAdd this entry to "server.users" in the config. It does not reveal the token:\n\n` +
        `  ${JSON.stringify(name)}: ${JSON.stringify(user)}\n\n` +
        "run: may submit calls. approve, records: users whose calls may be approved or whose records may be read; \"*\" means all.\n"
    )
  })
).pipe(
  Command.withShortDescription("Create a token for a user of serve"),
  Command.withDescription(
    "Creates a token for a user of `tool-executor serve` and prints it once on standard output. Standard error shows the " +
      "entry for the config, which contains only a hash of the token. Nothing is stored. To revoke a token, remove its " +
      "hash from the config and restart the server."
  ),
  Command.withExamples([
    { command: "tool-executor token ada", description: "A token for ada" },
    { command: "tool-executor token ci --expires \"90 days\"", description: "A token that expires" }
  ])
)

/** A time as the config has it. */
const timeOf = Effect.fnUntraced(function*(text: string) {
  const now = yield* Clock.currentTimeMillis
  const span = Option.map(Duration.fromInput(text as Duration.Input), (it) => now + Duration.toMillis(it))
  const at = Option.orElse(span, () => Option.map(DateTime.make(text), DateTime.toEpochMillis))
  const end = Option.flatMap(at, DateTime.make)
  if (Option.isNone(end)) {
    return yield* wrong(`--expires: ${escape(text)} is neither a duration, such as "90 days", nor a date`)
  }
  if (DateTime.toEpochMillis(end.value) <= now) return yield* wrong(`--expires: ${escape(text)} is in the past`)
  return DateTime.formatIso(end.value)
})
