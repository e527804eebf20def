/** The key that lets a tool's services recognize repeated attempts of one call. */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"
import type { Origin } from "../../facts/Fact.ts"
import type { GateCall } from "../../gates/Gate.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { Received } from "./Received.ts"

/** What distinguishes a call from the others of its wave. */
export interface Keyed {
  readonly index: number
  readonly call: Received
  readonly tool: RegisteredTool | undefined
  readonly gateCall: Pick<GateCall, "args" | "params"> | undefined
}

/**
 * Returns the key of a call. It is unique to the call and the same for every attempt, even after a crash. Other
 * arguments give another key.
 */
export const of = (principal: string, origin: Origin, { call: { id, name }, gateCall, index, tool }: Keyed): string => {
  const { agentPath, batch, process, wave } = origin
  const args = gateCall === undefined ? "" : tool!.canonical(gateCall.params, gateCall.args)
  const parts = [principal, agentPath, batch, process, wave, index, id, name, args]
  return Hex.encode(sha256(new TextEncoder().encode(JSON.stringify(parts))))
}
