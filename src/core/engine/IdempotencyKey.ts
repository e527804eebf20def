/** The key by which a service that a tool uses knows a call again. */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"
import type { Origin } from "../facts/Fact.ts"
import type { GateCall } from "../gates/Gate.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { Received } from "./Received.ts"

/** What tells a call from others of its wave. */
export interface Keyed {
  readonly index: number
  readonly call: Received
  readonly tool: RegisteredTool | undefined
  readonly gateCall: Pick<GateCall, "args" | "params"> | undefined
}

/**
 * Gives the key of a call: no other call has it, and every attempt of this one does, after a crash, too. The same call
 * with other arguments has another.
 */
export const of = (principal: string, origin: Origin, { call: { id, name }, gateCall, index, tool }: Keyed): string => {
  const { agentPath, batch, process, wave } = origin
  const args = gateCall === undefined ? "" : tool!.canonical(gateCall.params, gateCall.args)
  const parts = [principal, agentPath, batch, process, wave, index, id, name, args]
  return Hex.encode(sha256(new TextEncoder().encode(JSON.stringify(parts))))
}
