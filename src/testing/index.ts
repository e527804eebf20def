/** Helpers for testing tools, rules and policies. */

/** Checks for drivers of `ArtifactStore`. */
export * as ArtifactStoreContract from "./ArtifactStoreContract.ts"

/** Checks for drivers of `Checkpoints`. */
export * as CheckpointsContract from "./CheckpointsContract.ts"

/** Checks for drivers of any port, independent of the test runner. */
export type * as Contract from "./Contract.ts"

/** Injects seeded faults: failures, hangs, defects, late and duplicate answers. */
export * as Faults from "./public/Faults.ts"

/** Checks for drivers of `Journal`. */
export * as JournalContract from "./public/JournalContract.ts"

/** Compares requests to a scripted model with what a turn expects. */
export type * as ModelRequest from "./ModelRequest.ts"

/** One answer of a scripted model as plain data. */
export type * as ModelTurn from "./ModelTurn.ts"

/** A language model whose answers were recorded from a provider. */
export * as RecordedModel from "./RecordedModel.ts"

/** Scripted tools, waves of calls and what is expected of them, as plain data. */
export * as Scenario from "./public/Scenario.ts"

/** Runs a scenario in virtual time against the real executor. */
export * as ScenarioRunner from "./ScenarioRunner.ts"

/** A language model that answers from a script. */
export * as ScriptedModel from "./ScriptedModel.ts"

/** Tools that follow a script. */
export * as ScriptedTools from "./ScriptedTools.ts"

/** Checks for drivers of `StateStore`. */
export * as StateStoreContract from "./StateStoreContract.ts"

/** An executor for tests that records events, and functions that compare them. */
export * as TestExecutor from "./public/TestExecutor.ts"

/** Runs an effect in virtual time. */
export * as VirtualTime from "./public/VirtualTime.ts"
