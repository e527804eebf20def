/** Contract suites under this test runner. */
import { describe, it as plain, type Vitest } from "@effect/vitest"
import type { Contract } from "effect-tool-executor/testing"

/** Runs checks as tests, with what all of them need from `it`, where they need something. */
export const run = <Needs = never>(
  name: string,
  checks: ReadonlyArray<Contract.Check<Needs>>,
  it: Pick<Vitest.MethodsNonLive<Needs>, "effect"> = plain as never
): void => {
  describe(name, () => {
    for (const { check, name } of checks) it.effect(name, () => check)
  })
}
