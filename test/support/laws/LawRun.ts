/**
 * A random run that laws are tried on, as plain data: what is done with an executor,
 * step by step. Pure.
 *
 * @since 0.1.0
 */
import type { SeededRandom } from "../../../src/testing/SeededRandom.ts"

/**
 * What an executor is given besides its tools, if it does not bring its own.
 *
 * @category models
 * @since 0.1.0
 */
export interface World {
  readonly read: number
  readonly concurrent: number
  /** How often `limited` may start in a batch. */
  readonly max: number
  readonly dedupe: "reject" | "join" | "replay" | "off"
  readonly approval: "perCall" | "upfront"
}

/**
 * A call: what a tool of the kit is to do, or the arguments of one of the executor's own.
 *
 * @category models
 * @since 0.1.0
 */
export interface Call {
  readonly tool: string
  readonly params: Params
}

/**
 * What a tool of the kit does and is about, and what a person says to it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Params {
  readonly act?: "fail" | "die" | "hang" | "deaf" | "commit" | "late"
  readonly millis?: number
  readonly key?: string
  readonly target?: string
  /** Tells calls apart that are not to be equal. */
  readonly n?: number
  readonly answer?: "once" | "duration" | "scope" | "edit" | "no" | "silence"
  /** Milliseconds till the person answers. */
  readonly patience?: number
  /** What a sub-agent does, in one wave. */
  readonly calls?: ReadonlyArray<Call>
  /** What it may not do, though its parent may. */
  readonly forbids?: "changes" | "promoted"
}

/**
 * One step of a run.
 *
 * @category models
 * @since 0.1.0
 */
export type Step = Wave | { readonly _tag: "sleep"; readonly millis: number } | {
  readonly _tag: "revoke"
  readonly tool: string
}

/**
 * A wave, and what happens to it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Wave {
  readonly _tag: "wave"
  /** 0 and 1 share a batch, 2 has one of its own. */
  readonly process: number
  readonly calls: ReadonlyArray<Call>
  readonly by: "executeWave" | "stream"
  /** Whether the next step waits for it. */
  readonly waits: boolean
  /** Milliseconds till its process is cancelled, its first call is, or its caller goes away. */
  readonly cancelAfter?: number
  readonly cancelCallAfter?: number
  readonly interruptAfter?: number
}

/**
 * A run: the world and the steps.
 *
 * @category models
 * @since 0.1.0
 */
export interface Run {
  readonly world: World
  readonly steps: ReadonlyArray<Step>
}

/**
 * How a tool of an executor's own is called.
 *
 * @category models
 * @since 0.1.0
 */
export interface Caller {
  readonly name: string
  readonly params: (random: SeededRandom) => unknown
}

/**
 * Makes a run for an executor over the tools of the kit.
 *
 * @category constructors
 * @since 0.1.0
 */
export const random = (random: SeededRandom): Run => {
  const { chance, int, pick } = random
  const world: World = {
    read: 2 + int(3),
    concurrent: 1 + int(3),
    max: 1 + int(3),
    dedupe: pick(["reject", "reject", "reject", "join", "replay", "off"]),
    approval: chance(0.2) ? "upfront" : "perCall"
  }
  const steps = Array.from({ length: 2 + int(4) }, () => pick(motifs)(random, world)).flat()
  return { world, steps }
}

/**
 * Makes a run for an executor with tools of its own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const randomOver = (random: SeededRandom, callers: ReadonlyArray<Caller>): Run => ({
  world: { read: 20, concurrent: 10, max: 1, dedupe: "reject", approval: "perCall" },
  steps: Array.from({ length: 1 + random.int(4) }, () =>
    randomWave(random, () => {
      const { name, params } = random.pick(callers)
      return { tool: name, params: params(random) as Params }
    }))
})

/**
 * Gives runs that do a little less than this one, the shortest first.
 *
 * @category shrinking
 * @since 0.1.0
 */
export const shorter = ({ steps, world }: Run): ReadonlyArray<Run> => [
  ...steps.length > 2
    ? [steps.slice(0, steps.length >> 1), steps.slice(steps.length >> 1)].map((it) => ({ world, steps: it }))
    : [],
  ...steps.map((_, index) => ({ world, steps: steps.toSpliced(index, 1) })),
  ...steps.flatMap((step, index) =>
    step._tag === "wave" ? shorterWaves(step).map((it) => ({ world, steps: steps.with(index, it) })) : []
  ),
  ...world.dedupe === "reject" ? [] : [{ world: { ...world, dedupe: "reject" } as const, steps }],
  ...world.approval === "perCall" ? [] : [{ world: { ...world, approval: "perCall" } as const, steps }]
]

/**
 * Tells a run, a line for each step.
 *
 * @category formatting
 * @since 0.1.0
 */
export const lines = ({ steps, world }: Run): ReadonlyArray<string> => [
  `with pools of ${world.read} reads and ${world.concurrent} concurrent calls, MaxCalls ${world.max}, ` +
  `duplicates: ${world.dedupe}, questions: ${world.approval}`,
  ...steps.map((step) => {
    switch (step._tag) {
      case "sleep":
        return `sleep ${step.millis} ms`
      case "revoke":
        return `revoke ${step.tool}`
      case "wave": {
        const { by, calls, cancelAfter, cancelCallAfter, interruptAfter, process, waits } = step
        const meanwhile = [
          ...cancelAfter === undefined ? [] : [`its process is cancelled after ${cancelAfter} ms`],
          ...cancelCallAfter === undefined ? [] : [`its first call is cancelled after ${cancelCallAfter} ms`],
          ...interruptAfter === undefined ? [] : [`its caller goes away after ${interruptAfter} ms`],
          ...waits ? [] : ["nobody waits for it"]
        ]
        return `process ${process}, ${by}: ${calls.map((it) => `${it.tool} ${JSON.stringify(it.params)}`).join(", ")}` +
          (meanwhile.length === 0 ? "" : ` (${meanwhile.join("; ")})`)
      }
    }
  })
]

// Utilities

const shorterWaves = (wave: Wave): ReadonlyArray<Wave> => {
  const { cancelAfter, cancelCallAfter, interruptAfter, ...plain } = wave
  return [
    ...wave.calls.length < 2 ? [] : wave.calls.map((_, index) => ({ ...wave, calls: wave.calls.toSpliced(index, 1) })),
    ...wave.calls.flatMap((call, index) => {
      const nested = call.params.calls
      if (!Array.isArray(nested) || nested.length < 2) return []
      return nested.map((_, at) => ({
        ...wave,
        calls: wave.calls.with(index, { ...call, params: { ...call.params, calls: nested.toSpliced(at, 1) } })
      }))
    }),
    ...cancelAfter ?? cancelCallAfter ?? interruptAfter === undefined ? [] : [plain],
    ...wave.waits ? [] : [{ ...wave, waits: true }]
  ]
}

/** Something that a law is about, as it may well happen. */
type Motif = (random: SeededRandom, world: World) => ReadonlyArray<Step>

const sleep = (millis: number): Step => ({ _tag: "sleep", millis })

const waveOf = ({ chance, int }: SeededRandom, calls: ReadonlyArray<Call>): Wave => ({
  _tag: "wave",
  process: int(3),
  calls,
  by: chance(0.3) ? "stream" : "executeWave",
  waits: true
})

const callOf = ({ chance, int, pick }: SeededRandom, tool: string): Call => ({
  tool,
  params: {
    millis: pick([0, 5, 10, 20]),
    n: chance(0.1) ? 0 : int(1_000_000),
    ...tool === "promoted" ? { key: pick(["a", "b"]) } : {},
    ...tool === "asked" || tool === "limited"
      ? {
        target: pick(["a", "b"]),
        answer: pick(["once", "duration", "scope", "edit", "no", "silence"] as const),
        patience: pick([0, 5])
      }
      : {},
    ...chance(0.3) ? { act: pick(["fail", "die", "hang", "deaf", "commit", "late"] as const) } : {}
  }
})

const inner = ["read", "read", "capped", "promoted", "write", "asked", "denied"]
const outer = [...inner, "limited", "cooled", "after"]

const agentOf = (random: SeededRandom, depth: number): Call => ({
  tool: "agent",
  params: {
    n: random.int(1_000_000),
    ...random.chance(0.5) ? { forbids: random.pick(["changes", "promoted"] as const) } : {},
    calls: Array.from(
      { length: 1 + random.int(3) },
      () => depth > 1 && random.chance(0.3) ? agentOf(random, depth - 1) : callOf(random, random.pick(inner))
    )
  }
})

const randomWave = (random: SeededRandom, make: () => Call): Wave => {
  const { chance, int } = random
  return {
    ...waveOf(random, Array.from({ length: 1 + int(6) }, make)),
    waits: chance(0.6),
    ...chance(0.15) ? { cancelAfter: int(30) } : chance(0.15) ? { cancelCallAfter: int(30) } : chance(0.15)
      ? { interruptAfter: int(30) }
      : {}
  }
}

const motifs: ReadonlyArray<Motif> = [
  // anything beside anything
  (random) => [
    randomWave(random, () => random.chance(0.1) ? agentOf(random, 2) : callOf(random, random.pick(outer))),
    ...random.chance(0.5) ? [sleep(random.int(20))] : []
  ],
  // an equal call after one that failed or succeeded
  (random) => {
    const call = callOf(random, random.pick(["read", "promoted", "write"]))
    const again: Call = { ...call, params: { ...call.params, act: random.pick(["fail", "die", "commit"]), millis: 1 } }
    const wave = waveOf(random, [again])
    return [wave, sleep(1), wave]
  },
  // a limit that is used up, with calls that never started in between
  (random, { max }) => {
    const limited = (answer: "once" | "no") => ({
      ...callOf(random, "limited"),
      params: { target: "b", answer, patience: 1, millis: 1, n: random.int(1_000_000) }
    })
    const { process } = waveOf(random, [])
    return Array.from({ length: max + 2 }, (_, index) => [
      { ...waveOf(random, [limited(index === 0 ? "no" : "once")]), process },
      sleep(1)
    ]).flat()
  },
  // the same again while it cools down, and after it
  (random) => {
    const wave = () => waveOf(random, [{ tool: "cooled", params: { millis: 1, n: random.int(1_000_000) } }])
    return [wave(), sleep(5), wave(), sleep(random.pick([5, 150])), wave()]
  },
  // a grant, what it is not for, and what becomes of it once it is revoked
  (random) => {
    const asked = (target: string, answer: NonNullable<Params["answer"]>) =>
      waveOf(random, [{ tool: "asked", params: { target, answer, millis: 1, n: random.int(1_000_000) } }])
    const others = [
      asked("b", random.pick(["no", "silence", "edit"])),
      asked("a", "no"),
      { _tag: "revoke", tool: "asked" } as const,
      asked("a", "no")
    ]
    return [asked("a", random.pick(["scope", "duration"])), ...others.filter(() => random.chance(0.8))]
  },
  // reads and writes in turn
  (random) => [
    waveOf(
      random,
      Array.from({ length: 2 + random.int(3) }, () => ({
        tool: random.pick(["read", "capped", "promoted", "write"]),
        params: { millis: 10, key: random.pick(["a", "b"]), n: random.int(1_000_000) }
      }))
    )
  ],
  // many of a kind
  (random) => {
    const tool = random.pick(["read", "capped", "promoted", "write"])
    return [
      waveOf(
        random,
        Array.from({ length: 3 + random.int(4) }, () => ({
          tool,
          params: { millis: 10, key: random.pick(["a", "b"]), n: random.int(1_000_000) }
        }))
      )
    ]
  },
  // a queue that is cancelled
  (random) => [
    {
      ...waveOf(random, [callOf(random, "write"), callOf(random, "write"), callOf(random, "read")]),
      ...random.chance(0.7) ? { cancelAfter: random.int(10) } : { interruptAfter: random.int(10) }
    }
  ],
  // a sub-agent
  (random) => [waveOf(random, [agentOf(random, 2)])],
  // what does not end by itself
  (random) => [
    waveOf(random, [{
      tool: random.pick(["read", "promoted", "write"]),
      params: { act: random.pick(["hang", "deaf", "late"]), millis: random.pick([5, 20]), n: random.int(1_000_000) }
    }])
  ]
]
