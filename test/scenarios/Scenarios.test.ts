/**
 * Plays every scenario of this folder, and one too large for a file.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as Scenario from "../../src/testing/Scenario.ts"
import * as ScenarioRunner from "../../src/testing/ScenarioRunner.ts"
import { scenarios } from "../support/promises.ts"

const folder = fileURLToPath(new URL("./", import.meta.url))

const play = Effect.fnUntraced(function*(input: unknown) {
  return yield* ScenarioRunner.run(yield* Scenario.decode(input))
})

describe("scenarios", () => {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")).sort()) {
    const input = JSON.parse(readFileSync(folder + file, "utf8")) as { readonly name: string }

    it.effect(`${file}: ${input.name}`, () =>
      Effect.gen(function*() {
        const report = yield* play(input)
        assert.deepStrictEqual(report.differences, [])
        assert.isNotEmpty(report.waves)
      }), { tags: scenarios[file.replace(".json", "")] ?? [] })
  }

  it.effect("a thousand reads go through the pool twenty at a time, each answered once and in order", () =>
    Effect.gen(function*() {
      const ids = Array.from({ length: 1000 }, (_, index) => index)
      const report = yield* play({
        name: "a thousand reads",
        tools: { read: { class: "ReadOnly", takes: "10 millis" } },
        script: [{
          wave: ids.map((n) => ({ id: String(n), name: "read", params: { n } })),
          expect: {
            outcomes: ids.map((n) => ({
              id: String(n),
              tag: "Succeeded",
              start: Math.floor(n / 20) * 10,
              end: Math.floor(n / 20) * 10 + 10
            })),
            elapsed: 500,
            peak: { read: 20, ReadOnly: 20 }
          }
        }]
      })
      assert.deepStrictEqual(report.differences, [])
    }))
})
