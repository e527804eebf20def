/**
 * Starts one PostgreSQL for all test files of a run, unless `TEST_POSTGRES` names one.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as EmbeddedPostgres from "../../src/cli/EmbeddedPostgres.ts"

const variable = "TEST_POSTGRES"

export const setup = async (): Promise<undefined | (() => Promise<void>)> => {
  if (process.env[variable] !== undefined) return undefined
  const known = process.listeners("beforeExit")
  const scope = Scope.makeUnsafe()
  const port = await Effect.runPromise(
    EmbeddedPostgres.start(EmbeddedPostgres.installed()!).pipe(Scope.provide(scope))
  )
  // a hook of the package ends this process with 0, also if tests have failed
  for (const listener of process.listeners("beforeExit")) {
    if (!known.includes(listener)) process.removeListener("beforeExit", listener)
  }
  process.env[variable] = EmbeddedPostgres.urlOf(port, "postgres")
  return () => {
    delete process.env[variable]
    return Effect.runPromise(Scope.close(scope, Exit.void))
  }
}
