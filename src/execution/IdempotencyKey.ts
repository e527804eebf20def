/**
 * The key by which a service that a tool uses knows a call again.
 *
 * @since 0.1.0
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"
import type { Call } from "./Call.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Gives the key of a call: no other call has it, and every attempt of this one does.
 *
 * @category getters
 * @since 0.1.0
 */
export const of = ({ engine: { principal }, events: { origin } }: WaveState, { index }: Call): string => {
  const { batch, process, wave } = origin
  return Hex.encode(sha256(new TextEncoder().encode(JSON.stringify([principal, batch, process, wave, index]))))
}
