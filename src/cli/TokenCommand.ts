/** `tool-executor token`: makes a token for a user of `serve`. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { escape } from "../internal/escape.ts"
import { isUserName } from "../server/Access.ts"
import * as Tokens from "../server/Tokens.ts"
import { wrong } from "./CliFailure.ts"
import * as Files from "./Files.ts"

const input = {
  name: Argument.String("NAME").pipe(Argument.withDescription("The user that it is for")),
  expires: Flag.String("expires").pipe(
    Flag.withMetavar("WHEN"),
    Flag.withDescription(
      "When it expires: a time from now, such as \"90 days\", or a date; default never"
    ),
    Flag.optional
  )
}

/** The command. */
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
    // what is kept by a program that reads standard output is the token alone
    yield* Files.tell(
      `The token of ${name}, shown this once. It goes to ${name} and nowhere else:\n\n`
    )
    yield* Files.print(Redacted.value(token))
    yield* Files.tell(
      `\nThis goes into the config, under "users" of "server"; it tells nothing of the token:\n\n` +
        `  ${JSON.stringify(name)}: ${JSON.stringify(user)}\n\n` +
        "run: may hand calls over. approve, records: whose questions may be answered, whose records read; \"*\" is everybody's.\n"
    )
  })
).pipe(
  Command.withShortDescription("Make a token for a user of serve"),
  Command.withDescription(
    "Makes a token for a user of `tool-executor serve`, and prints it on standard output, once; on standard error is what " +
      "the config is told: a hash, by which nobody finds the token. Nothing is stored. To take a token away, " +
      "take its hash out of the config and start the server again."
  ),
  Command.withExamples([
    { command: "tool-executor token ada", description: "A token for ada" },
    { command: "tool-executor token ci --expires \"90 days\"", description: "One that ends by itself" }
  ])
)

// Utilities

/** A time as the config has it. */
const timeOf = Effect.fnUntraced(function*(text: string) {
  const now = yield* Clock.currentTimeMillis
  const span = Option.map(Duration.fromInput(text as Duration.Input), (it) => now + Duration.toMillis(it))
  const at = Option.orElse(span, () => Option.map(DateTime.make(text), DateTime.toEpochMillis))
  const end = Option.flatMap(at, DateTime.make)
  if (Option.isNone(end)) {
    return yield* wrong(`--expires: ${escape(text)} is neither a time from now, such as "90 days", nor a date`)
  }
  if (DateTime.toEpochMillis(end.value) <= now) return yield* wrong(`--expires: ${escape(text)} is over already`)
  return DateTime.formatIso(end.value)
})
