/**
 * The key by which a service that a tool uses knows a call again.
 *
 * @since 0.1.0
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"
import type { GateCall } from "../gates/Gate.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { Received } from "./Received.ts"
import type { Origin } from "./report/Reporter.ts"

/**
 * Whose call it is, and where it was made.
 *
 * @category models
 * @since 0.1.0
 */
export interface Place {
  readonly engine: { readonly principal: string }
  readonly events: { readonly origin: Origin }
}

/**
 * What tells a call from others.
 *
 * @category models
 * @since 0.1.0
 */
export interface Keyed {
  readonly index: number
  readonly call: Received
  readonly tool: RegisteredTool | undefined
  readonly gateCall: GateCall | undefined
  readonly resumed?: { readonly idempotencyKey?: string | undefined }
}

/**
 * Gives the key of a call: no other call has it, and every attempt of this one does,
 * after a crash, too. The same call with other arguments has another.
 *
 * @category getters
 * @since 0.1.0
 */
export const of = ({ engine: { principal }, events: { origin } }: Place, it: Keyed): string => {
  if (it.resumed?.idempotencyKey !== undefined) return it.resumed.idempotencyKey
  const { call: { id, name }, gateCall, index, tool } = it
  const { agentPath, batch, process, wave } = origin
  const args = gateCall === undefined ? "" : tool!.canonical(gateCall.params, gateCall.args)
  const parts = [principal, agentPath, batch, process, wave, index, id, name, args]
  return Hex.encode(sha256(new TextEncoder().encode(JSON.stringify(parts))))
}
