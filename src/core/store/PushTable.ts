/** The devices that users are notified on, by the endpoints of their push services. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Devices could not be read or written. */
export class PushTableError extends Schema.TaggedError<PushTableError>("effect-tool-executor/PushTableError")(
  "PushTableError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `PushTable.${this.operation} failed`
  }
}

/** A device of a user. */
export interface Device {
  readonly user: string
  /** Address at the push service. Who knows it, and has the server's key, can notify the device. */
  readonly endpoint: string
  /** Public key of the device, as base64url. */
  readonly p256dh: string
  /** Secret of the device, as base64url. */
  readonly auth: string
  /** Epoch milliseconds. */
  readonly addedAt: number
}

/** The devices. */
export class PushTable extends Context.Service<PushTable, {
  /** Adds a device, or gives it to another user; the oldest of the user above a limit are forgotten. */
  readonly add: (device: Device, perUser: number) => Effect.Effect<void, PushTableError>
  /** Forgets a device, if it is one of the user. */
  readonly remove: (device: Pick<Device, "endpoint" | "user">) => Effect.Effect<void, PushTableError>
  readonly all: Effect.Effect<ReadonlyArray<Device>, PushTableError>
}>()("effect-tool-executor/store/PushTable") {}

/** Creates devices in memory: at most 10,000, and one more forgets the oldest. */
export const makeMemory = (): PushTable["Service"] => {
  // oldest first
  const devices = new Map<string, Device>()
  return {
    add: (added, perUser) =>
      Effect.sync(() => {
        devices.delete(added.endpoint)
        const theirs = Array.from(devices.values()).filter(({ user }) => user === added.user)
        for (const { endpoint } of theirs.slice(0, Math.max(0, theirs.length - perUser + 1))) devices.delete(endpoint)
        for (const endpoint of devices.keys()) {
          if (devices.size < most) break
          devices.delete(endpoint)
        }
        devices.set(added.endpoint, added)
      }),
    remove: ({ endpoint, user }) =>
      Effect.sync(() => {
        if (devices.get(endpoint)?.user === user) devices.delete(endpoint)
      }),
    all: Effect.sync(() => Array.from(devices.values()))
  }
}

/** All users together. */
const most = 10_000
