/**
 * What a driver implements: the ports of the executor, of agents and of the server, with the functions that all drivers
 * of a port share.
 *
 * Programs that only choose a driver do not need this entry: its layers are in `effect-tool-executor`, `/tools`, `/sql`
 * and `/server`.
 */

export * as ArtifactStore from "./ArtifactStore.ts"

export * as Checkpoints from "./Checkpoints.ts"

export * as Journal from "./Journal.ts"

export * as JournalText from "../core/store/JournalText.ts"

export * as PermitSource from "../core/gates/PermitSource.ts"

export * as SessionRegistry from "./SessionRegistry.ts"

export * as StateStore from "./StateStore.ts"

export * as Transcripts from "./Transcripts.ts"

export * as WaveStore from "./WaveStore.ts"
