import { describe, it } from "@effect/vitest"
import { JournalContract } from "effect-tool-executor/testing"
import { Journal } from "../../../src/index.ts"

describe("the journal in memory", () => {
  for (const { check, name } of JournalContract.make({ layer: Journal.layerMemory })) it.live(name, () => check)
})
