/** `tool-executor push-keys`: makes the keys that notifications of devices are signed with. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as WebPush from "../../server/notify/WebPush.ts"
import * as Files from "../Files.ts"

export const command = Command.make(
  "push-keys",
  {},
  Effect.fnUntraced(function*() {
    const { privateKey, publicKey } = yield* WebPush.makeKeys
    yield* Files.printError("The private key. It is shown only once; put it into an environment variable:\n\n")
    // standard output contains only the key, for programs that store it
    yield* Files.print(Redacted.value(privateKey))
    const push = { subject: "mailto:you@example.com", publicKey, privateKey: { env: "PUSH_PRIVATE_KEY" } }
    yield* Files.printError(
      `\nAdd this to "server" in the config, with your address. It does not reveal the private key:\n\n` +
        `  "push": ${JSON.stringify(push)}\n\n` +
        "With new keys, all devices have to subscribe again.\n"
    )
  })
).pipe(
  Command.withShortDescription("Create keys for notifications of devices"),
  Command.withDescription(
    "Creates a pair of keys (VAPID) for `server.push` of `tool-executor serve`, and prints the private key once on " +
      "standard output. Standard error shows the entry for the config, which contains only the public key. Nothing is " +
      "stored."
  ),
  Command.withExamples([{ command: "tool-executor push-keys", description: "Keys for one server or cluster" }])
)
