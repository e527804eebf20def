/**
 * Records that servers share, as version 1 wrote them: summaries of waves and conversations, and logins. The files are
 * never edited again: several releases run side by side during an upgrade. A new version gets files of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as SealedToken from "../../src/server/users/SealedToken.ts"
import * as WaveText from "../../src/server/waves/WaveText.ts"

const linesOf = (file: string) => readFileSync(new URL(file, import.meta.url), "utf8").trimEnd().split("\n")

describe("summaries of version 1", () => {
  it("are read, and written again as they were", () => {
    const [running, ended, talking, idle] = linesOf("summaries.v1.jsonl") as [string, string, string, string]
    const again = <A>(codec: WaveText.Text<A>, text: string) =>
      assert.deepStrictEqual(JSON.parse(codec.encode(Result.getOrThrow(codec.decode(text)))), JSON.parse(text))
    again(WaveText.info, running)
    again(WaveText.info, ended)
    again(OperationStore.summary, talking)
    again(OperationStore.summary, idle)
    again(WaveText.turnName, linesOf("summaries-turns.v1.jsonl")[0]!)
  })
})

describe("a login of version 1", () => {
  it.effect("is opened by its cookie, and by no other", () =>
    Effect.gen(function*() {
      const { cookie, sealed, token } = JSON.parse(linesOf("logins.v1.jsonl")[0]!)
      const tokens = yield* SealedToken.make
      assert.strictEqual(Redacted.value((yield* tokens.open(cookie, sealed))!), token)
      assert.strictEqual(yield* tokens.seal(cookie, Redacted.make(token)), sealed)
      for (
        const [other, text] of [[`${cookie}x`, sealed], [cookie, sealed.replace("v1:2", "v1:3")], [cookie, "v2:x"]]
      ) {
        assert.isUndefined(yield* tokens.open(other!, text!))
      }
    }), { tags: ["SE11"] })
})
