/** Contract suites under this test runner. */
import { describe, it as plain, type Vitest } from "@effect/vitest"
import type { Contract } from "effect-tool-executor/testing"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { checks as promises } from "./promises.ts"

/** Runs checks as tests, with what all of them need from `it`, where they need something. */
export const run = <Needs = never>(
  name: string,
  checks: ReadonlyArray<Contract.Check<Needs>>,
  it: Pick<Vitest.MethodsNonLive<Needs>, "effect"> = plain as never
): void => {
  describe(name, { tags: ["ST1"] }, () => {
    for (const { check, name } of checks) it.effect(name, () => check, { tags: promises[name] ?? [] })
  })
}

/** Lets time pass for leases of a state store in SQL. They go by the clock of the database, so it is they that move. */
export const later = (millis: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`UPDATE tool_executor_reservations SET expires_at = expires_at - ${millis}`
  )
