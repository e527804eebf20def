/**
 * What the answers of a state store have to look like: a driver is code of others,
 * and nothing that it gives is taken on trust.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { type Claim, Kept, type Refused, type Reservation } from "../store/StateStore.ts"
import { Grant } from "../vocabulary/Grant.ts"

/**
 * Tells whether an answer is a list of standing permissions.
 *
 * @category predicates
 * @since 0.1.0
 */
export const areGrants = Schema.is(Schema.Array(Grant))

/**
 * Tells whether an answer is a reservation.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isReservation = (it: unknown): it is Reservation =>
  typeof it === "object" && it !== null && "id" in it && typeof it.id === "string" &&
  "epoch" in it && typeof it.epoch === "number" &&
  (!("leaseMillis" in it) || it.leaseMillis === undefined || Number(it.leaseMillis) > 0)

/**
 * Tells whether an answer is a list of reservations.
 *
 * @category predicates
 * @since 0.1.0
 */
export const areReservations = (it: unknown): boolean => Array.isArray(it) && it.every(isReservation)

/**
 * Tells whether an answer refuses one of the claims that were made.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isRefusal = (answer: unknown, claims: ReadonlyArray<Claim>): answer is Refused =>
  isRefused(answer) &&
  claims.some((it) =>
    it._tag === "Group"
      ? answer._tag === "GroupTaken" && answer.group === it.group
      : answer._tag === refusals[it._tag]
  )

// Utilities

const refusals: { readonly [T in Claim["_tag"]]: Refused["_tag"] | undefined } = {
  Batch: undefined,
  Calls: "CallsUsedUp",
  Cooldown: "CoolingDown",
  Group: "GroupTaken",
  Key: "KeyTaken"
}

const isRefused = Schema.is(Schema.Union([
  Schema.TaggedStruct("KeyTaken", {
    owner: Schema.String,
    reservation: Schema.String,
    process: Schema.String,
    untold: Schema.Boolean,
    running: Schema.Boolean,
    value: Schema.UndefinedOr(Kept)
  }),
  Schema.TaggedStruct("CallsUsedUp", {}),
  Schema.TaggedStruct("GroupTaken", { group: Schema.String, tool: Schema.String }),
  Schema.TaggedStruct("CoolingDown", { running: Schema.Boolean, remainingMillis: Schema.Finite })
]))
