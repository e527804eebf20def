/**
 * Injects faults into parts of an executor: they fail, die, hang, answer late, lose an answer, or act twice. A seed
 * decides which call is hit, and how.
 *
 * Each decorator takes a `Trouble` and a part and returns a part of the same kind. A `Trouble` can also be written by
 * hand.
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type Answer, ApprovalError, type ApprovalRequest, type Approvals } from "../core/gates/Approvals.ts"
import { ArtifactError, type ArtifactStore } from "../core/output/ArtifactStore.ts"
import { CheckpointError, type Checkpoints } from "../core/output/Checkpoints.ts"
import * as Journal from "../core/store/Journal.ts"
import * as StateStore from "../core/store/StateStore.ts"
import type { RegisteredTool, Registry, ToolHandlers } from "../core/vocabulary/ToolHandlers.ts"
import { around } from "../internal/around.ts"
import { randomFrom, type SeededRandom } from "./SeededRandom.ts"

/**
 * Kinds of faults.
 *
 * - `fails`: nothing is done, and it fails.
 * - `dies`: nothing is done, and it throws.
 * - `hangs`: nothing is done, and it never ends.
 * - `late`: it is done after a delay.
 * - `loses`: it is done, and fails.
 * - `twice`: it is done twice. Not for stores, whose callers retry.
 * - `cut`: a model's answer ends in the middle without an error.
 */
export type Kind = "fails" | "dies" | "hangs" | "late" | "loses" | "twice" | "cut"

/** Decides the faults of calls. */
export interface Trouble {
  /** The fault of the next call of that name, if any, out of the given kinds. */
  readonly next: (name: string, kinds: ReadonlyArray<Kind>) => Kind | undefined
  /** The delay of a late or hanging call. */
  readonly wait: (kind: "late" | "hangs") => Effect.Effect<void>
}

/** Seeded faults. */
export interface Faults extends Trouble {
  /** All injected faults, in order. */
  readonly injected: Effect.Effect<ReadonlyArray<{ readonly name: string; readonly kind: Kind }>>
}

/** How many faults to inject, and which. */
export interface Options {
  /** The same seed hits the same calls of each name, independent of other names. */
  readonly seed: number
  /** Share of calls hit, from 0 to 1. Default 0.2. */
  readonly rate?: number | undefined
  /** Default: all. */
  readonly kinds?: ReadonlyArray<Kind> | undefined
  /** The delay of late calls. Default 1 second. */
  readonly late?: Duration.Input | undefined
}

/**
 * Creates seeded faults.
 *
 * **Example** (A store that loses answers)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { StateStore } from "effect-tool-executor/ports"
 * import { Faults } from "effect-tool-executor/testing"
 *
 * const faults = Faults.make({ seed: 7, rate: 0.1, kinds: ["loses", "late"] })
 *
 * export const layer = Layer.effect(
 *   StateStore.StateStore,
 *   Effect.map(StateStore.StateStore, (store) => Faults.stateStore(faults, store))
 * )
 * ```
 */
export const make = ({ kinds: wanted = all, late = "1 second", rate = 0.2, seed }: Options): Faults => {
  const random = new Map<string, SeededRandom>()
  const injected: Array<{ readonly name: string; readonly kind: Kind }> = []
  return {
    next: (name, kinds) => {
      const possible = kinds.filter((it) => wanted.includes(it))
      let own = random.get(name)
      if (own === undefined) random.set(name, own = randomFrom(seed + hash(name)))
      const isHit = own.chance(rate)
      const kind = own.pick(possible)
      if (!isHit || kind === undefined) return undefined
      injected.push({ name, kind })
      return kind
    },
    wait: (kind) => kind === "late" ? Effect.sleep(late) : Effect.never,
    injected: Effect.sync(() => [...injected])
  }
}

/** Injects faults into tool handlers, by tool name. */
export const handlers = (
  trouble: Trouble,
  service: Context.Service.Shape<typeof ToolHandlers>
): Context.Service.Shape<typeof ToolHandlers> => {
  const faulty = (tool: RegisteredTool): RegisteredTool => ({
    ...tool,
    handler: (params, context) =>
      hit(trouble, tool.name, [...answers, "twice"], tool.handler(params, context), () => Effect.fail(outOfOrder))
  })
  const registries = new WeakMap<Registry, Registry>()
  const registryOf = (registry: Registry): Registry => {
    let found = registries.get(registry)
    if (found === undefined) {
      registries.set(registry, found = new Map(Array.from(registry, ([name, tool]) => [name, faulty(tool)])))
    }
    return found
  }
  return {
    ...service,
    current: () => registryOf(service.current()),
    changes: Stream.map(service.changes, registryOf)
  }
}

/** Injects faults into a state store. */
export const stateStore = (
  trouble: Trouble,
  driver: StateStore.StateStore["Service"]
): StateStore.StateStore["Service"] =>
  around(
    driver,
    StateStore.operations,
    within(trouble, "StateStore", (operation) => new StateStore.StateStoreError({ operation, cause: outOfOrder }))
  )

/** Injects faults into a journal. */
export const journal = (trouble: Trouble, driver: Journal.Journal["Service"]): Journal.Journal["Service"] => {
  const reader = { ...driver, read: (query: Journal.Query) => Effect.succeed(driver.read(query)) }
  const { read, ...others } = around(
    reader,
    ["append", "read", "page", "claim"],
    within(trouble, "Journal", (operation) => new Journal.JournalError({ operation, cause: outOfOrder }))
  )
  return { ...driver, ...others, read: (query) => Stream.unwrap(read(query)) }
}

/** Injects faults into an artifact store. */
export const artifactStore = (
  trouble: Trouble,
  driver: ArtifactStore["Service"]
): ArtifactStore["Service"] =>
  around(
    driver,
    ["put", "read", "prune"],
    within(trouble, "ArtifactStore", () => new ArtifactError({ reason: "StoreFailed", id: "", cause: outOfOrder }))
  )

/** Injects faults into checkpoints. */
export const checkpoints = (trouble: Trouble, driver: Checkpoints["Service"]): Checkpoints["Service"] =>
  around(
    driver,
    ["save", "list", "content", "forget", "prune"],
    within(trouble, "Checkpoints", () => new CheckpointError({ reason: "Store", id: "", cause: outOfOrder }))
  )

/** Injects faults into approvals: answers get lost, come late or come twice. */
export const approvals = (trouble: Trouble, service: Approvals["Service"]): Approvals["Service"] => ({
  ...service,
  answer: (id, answer, of, person) =>
    hit(
      trouble,
      "Approvals.answer",
      [...answers, "twice"],
      service.answer(id, answer, of, person),
      () => new ApprovalError({ id, reason: "NotPending" })
    )
})

/** Injects faults into an approver for `Approvals.layerApprover`: no answer, an error or a delay. */
export const approver =
  <R>(trouble: Trouble, put: (request: ApprovalRequest) => Effect.Effect<Answer, never, R>) =>
  (request: ApprovalRequest): Effect.Effect<Answer, never, R> =>
    hit(trouble, "approver", ["dies", "hangs", "late", "twice"], put(request), () => Effect.die(outOfOrder))

/** Injects faults into a language model: overload, silence, delays, cut-off answers, duplicate calls. */
export const model = (
  trouble: Trouble,
  service: Context.Service.Shape<typeof LanguageModel.LanguageModel>
): Context.Service.Shape<typeof LanguageModel.LanguageModel> => {
  const overloaded = (method: string) =>
    AiError.make({
      module: "Faults",
      method,
      reason: new AiError.InternalProviderError({ description: outOfOrder.message })
    })
  const once = (method: "generateText" | "generateObject") => (options: never) => {
    const ask = service[method] as unknown as (options: never) => Effect.Effect<unknown, AiError.AiError>
    return hit(trouble, `model.${method}`, answers, Effect.suspend(() => ask(options)), () => overloaded(method))
  }
  const streamText = (options: never) =>
    Stream.suspend((): Stream.Stream<Response.AnyPart, unknown> => {
      const parts = (service.streamText as (options: never) => unknown)(options) as Stream.Stream<
        Response.AnyPart,
        unknown
      >
      const kind = trouble.next("model.streamText", all)
      switch (kind) {
        case "fails":
          return Stream.fail(overloaded("streamText"))
        case "loses":
          return Stream.concat(parts, Stream.fail(overloaded("streamText")))
        case "dies":
          return Stream.die(outOfOrder)
        case "hangs":
        case "late":
          return Stream.unwrap(Effect.as(trouble.wait(kind), parts))
        case "twice":
          return Stream.flatMap(parts, (it) =>
            Stream.fromIterable<Response.AnyPart>(it.type === "tool-call" ? [it, it] : [it]))
        case "cut":
          return Stream.take(parts, 2)
        default:
          return parts
      }
    })
  return {
    ...service,
    generateText: once("generateText") as unknown as typeof service.generateText,
    generateObject: once("generateObject") as unknown as typeof service.generateObject,
    streamText: streamText as unknown as typeof service.streamText
  }
}

const all: ReadonlyArray<Kind> = ["fails", "dies", "hangs", "late", "loses", "twice", "cut"]

/** Faults of anything that answers. */
const answers: ReadonlyArray<Kind> = ["fails", "dies", "hangs", "late", "loses"]

const outOfOrder = new Error("out of order, as a test wants it")

/** Applies a fault to a call. */
const hit = <A, E, R>(
  trouble: Trouble,
  name: string,
  kinds: ReadonlyArray<Kind>,
  effect: Effect.Effect<A, E, R>,
  failed: () => Effect.Effect<never, E>
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const kind = trouble.next(name, kinds)
    switch (kind) {
      case "fails":
        return failed()
      case "dies":
        return Effect.die(outOfOrder)
      case "hangs":
      case "late":
        return Effect.andThen(trouble.wait(kind), effect)
      case "loses":
        return Effect.andThen(effect, Effect.suspend(failed))
      case "twice":
        return Effect.andThen(effect, effect)
      default:
        return effect
    }
  })

/** Applies faults to the operations of a port. */
const within =
  (trouble: Trouble, port: string, error: (operation: string) => unknown) =>
  <A, E>(run: () => Effect.Effect<A, E>, operation: string): Effect.Effect<A, E> =>
    hit(
      trouble,
      `${port}.${operation}`,
      answers,
      Effect.suspend(run),
      () => Effect.fail(error(operation) as E)
    )

/** Separates the sequences of names. */
const hash = (text: string): number =>
  Array.from(text).reduce((sum, it) => Math.imul(sum, 31) + it.codePointAt(0)! | 0, 7)
