/**
 * Starts one PostgreSQL for all test files of a run, unless `TEST_POSTGRES` names one.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as EmbeddedPostgres from "../../src/cli/simulate/EmbeddedPostgres.ts"

const variable = "TEST_POSTGRES"

const events = ["beforeExit", "exit"] as const

export const setup = async (): Promise<undefined | (() => Promise<void>)> => {
  if (process.env[variable] !== undefined) return undefined
  const known = events.map((event) => process.listeners(event as "exit"))
  const scope = Scope.makeUnsafe()
  const port = await Effect.runPromise(
    EmbeddedPostgres.start(EmbeddedPostgres.installed()!).pipe(Scope.provide(scope))
  )
  // hooks of the package end this process with 0, also if tests have failed; the run stops what it started
  for (const [index, event] of events.entries()) {
    for (const listener of process.listeners(event as "exit")) {
      if (!known[index]!.includes(listener)) process.removeListener(event, listener)
    }
  }
  process.env[variable] = EmbeddedPostgres.urlOf(port, "postgres")
  return () => {
    delete process.env[variable]
    return Effect.runPromise(Scope.close(scope, Exit.void))
  }
}
