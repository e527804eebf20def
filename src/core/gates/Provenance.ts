/**
 * A witness of conversations: it hears what users say and what calls return, and may object to a call, which then needs
 * approval. Nothing is refused by it. This is all that the engine knows of where values come from.
 */
import * as Context from "effect/Context"
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { GateCall } from "./Gate.ts"
import type { Objection } from "./Permissions.ts"

/** A tool whose result is received; `tool` is absent if the executor does not have it (any more). */
export interface From {
  readonly name: string
  readonly tool: RegisteredTool | undefined
  readonly callId: string
}

/** What one conversation told. */
export interface Witness {
  /** Something was said, or pasted. */
  readonly heard: (text: string, from: "user" | "foreign") => void
  /** A call returned a result to arguments as they were. */
  readonly received: (from: From, args: unknown, value: unknown) => void
  /** A call returned something that its tool's declaration says nothing about. */
  readonly foreign: (from: Omit<From, "tool">, output: unknown) => void
  /** Something was said or received that is not known. */
  readonly forgot: () => void
  /** Why a call needs approval, because of what was heard and received. */
  readonly objects: (call: GateCall) => Objection | undefined
}

/** Begins to listen to conversations. */
export class Provenance extends Context.Service<Provenance, {
  readonly begin: () => Witness
  /** What is wrong with it for these tools and those that may come. */
  readonly problems: (tools: ReadonlyArray<string>, expects: (tool: string) => boolean) => ReadonlyArray<Problem>
}>()("effect-tool-executor/policy/Provenance") {}
