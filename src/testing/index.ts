/** What tests of tools, rules and policies need. */

/** What every driver of `ArtifactStore` keeps, as checks for its own tests. */
export * as ArtifactStoreContract from "./ArtifactStoreContract.ts"

/** What every driver of `Checkpoints` keeps, as checks for its own tests. */
export * as CheckpointsContract from "./CheckpointsContract.ts"

/** What every driver of a port keeps, as checks that any test runner can run. */
export type * as Contract from "./Contract.ts"

/** Parts of an executor that fail, hang, die, answer late or twice, by a seed. */
export * as Faults from "./public/Faults.ts"

/** What every driver of `Journal` keeps, as checks for its own tests. */
export * as JournalContract from "./public/JournalContract.ts"

/** What a scripted model was asked, compared with what its turn expects. */
export type * as ModelRequest from "./ModelRequest.ts"

/** One answer of a scripted model as plain data. */
export type * as ModelTurn from "./ModelTurn.ts"

/** Scripted tools, waves of calls and what is expected of them, as plain data. */
export * as Scenario from "./public/Scenario.ts"

/** Runs a scenario in virtual time against the real executor. */
export * as ScenarioRunner from "./ScenarioRunner.ts"

/** A language model that answers what a script says. */
export * as ScriptedModel from "./ScriptedModel.ts"

/** Tools that do what a scenario says. */
export * as ScriptedTools from "./ScriptedTools.ts"

/** What every driver of `StateStore` keeps, as checks for its own tests. */
export * as StateStoreContract from "./StateStoreContract.ts"

/** An executor for tests, that keeps what it tells, and functions that compare it. */
export * as TestExecutor from "./public/TestExecutor.ts"

/** Runs an effect in virtual time. */
export * as VirtualTime from "./public/VirtualTime.ts"
