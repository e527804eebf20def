/** Random programs of clients, as data: one for each session of a random world. */
import type { SeededRandom } from "../../src/testing/SeededRandom.ts"
import * as World from "./serviceWorld.ts"

/** A call of a message. */
export interface Call {
  /** Unique in all programs, and the id of the call. */
  readonly key: string
  readonly tool: World.Name
  readonly does: World.Does
}

/** What a person says to a request. */
export type Said = "ApproveOnce" | "ApproveForScope" | "Deny"

/** A step of a client. Waves are named by their place in the program. */
export type Step =
  /** Submits a wave; `twice`: at two runners at the same moment. */
  | { readonly _tag: "Submit"; readonly wave: string; readonly calls: ReadonlyArray<Call>; readonly twice: boolean }
  /** Submits a wave again, which changes nothing. */
  | { readonly _tag: "Again"; readonly wave: string }
  /** Submits something else under the name of a wave, which is refused. */
  | { readonly _tag: "Conflict"; readonly wave: string }
  /** Answers one of the pending requests; `second`: what another person says at the same moment. */
  | {
    readonly _tag: "Answer"
    readonly nth: number
    readonly person: string
    readonly says: Said
    readonly second: { readonly person: string; readonly says: Said } | undefined
  }
  | { readonly _tag: "Cancel"; readonly wave: string; readonly call: string | undefined }
  /** Lets a call go on that hangs. */
  | { readonly _tag: "Free"; readonly key: string }
  | { readonly _tag: "Revoke" }
  | { readonly _tag: "Read"; readonly wave: string }
  | { readonly _tag: "Pause"; readonly millis: number }
  | { readonly _tag: "EndSession" }

/** A program. */
export type Program = ReadonlyArray<Step>

const names = Object.keys(World.kinds) as ReadonlyArray<World.Name>

const said = (random: SeededRandom): Said =>
  random.chance(0.25) ? "Deny" : random.chance(0.15) ? "ApproveForScope" : "ApproveOnce"

/** Makes a program, whose keys begin with a name. */
export const make = (random: SeededRandom, name: string): Program => {
  const steps: Array<Step> = []
  const calls: Array<Call> = []
  const waves: Array<string> = []
  const submit = () => {
    const wave = `w${waves.length}`
    const own = Array.from({ length: 1 + random.int(4) }, (_, at): Call => ({
      key: `${name}.${wave}.${at}`,
      tool: random.pick(names),
      does: random.chance(0.6) ? "work" : random.pick(World.doings)
    }))
    waves.push(wave)
    calls.push(...own)
    steps.push({ _tag: "Submit", wave, calls: own, twice: random.chance(0.3) })
  }
  const others: ReadonlyArray<() => Step> = [
    () => ({ _tag: "Again", wave: random.pick(waves) }),
    () => ({ _tag: "Conflict", wave: random.pick(waves) }),
    () => ({ _tag: "Free", key: random.pick(calls).key }),
    () => ({ _tag: "Read", wave: random.pick(waves) }),
    () => ({ _tag: "Revoke" }),
    () => {
      const key = random.pick(calls).key
      return { _tag: "Cancel", wave: key.split(".")[1]!, call: random.chance(0.6) ? key : undefined }
    }
  ]
  const answer = (): Step => {
    const [person, other] = random.pick([["bob", "cleo"], ["cleo", "dan"], ["dan", "bob"]] as const)
    return {
      _tag: "Answer",
      nth: random.int(4),
      person,
      says: said(random),
      second: random.chance(0.4) ? { person: other, says: said(random) } : undefined
    }
  }
  submit()
  for (let left = 4 + random.int(10); left > 0; left--) {
    const dice = random.int(10)
    if (dice < 3) submit()
    else if (dice < 6) steps.push(answer())
    else if (dice < 8) steps.push(random.pick(others)())
    else steps.push({ _tag: "Pause", millis: random.pick([0, 5, 50, 400]) })
  }
  if (random.chance(0.1)) steps.push({ _tag: "EndSession" })
  return steps
}

/** A program as a reader wants to see it. */
export const print = (program: Program): string =>
  program.map((step) => {
    switch (step._tag) {
      case "Submit": {
        const calls = step.calls.map(({ does, key, tool }) => `${tool}(${key}${does === "work" ? "" : ` ${does}`})`)
        return `submit${step.twice ? " twice" : ""} ${step.wave}: ${calls.join(", ")}`
      }
      case "Answer": {
        const { nth, person, says, second } = step
        return `answer ${nth}: ${person} ${says}${second === undefined ? "" : ` | ${second.person} ${second.says}`}`
      }
      default: {
        const { _tag, ...rest } = step
        return `${_tag} ${Object.values(rest).filter((it) => it !== undefined).join(" ")}`
      }
    }
  }).join("\n")
