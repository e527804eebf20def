/** The public approver at a terminal and at a pipe, each with a person who types at random moments. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "@lydell/node-pty"
import * as Effect from "effect/Effect"
import { spawn as spawnPlain } from "node:child_process"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import { program } from "../support/programs.ts"
import { seeds } from "../support/seeds.ts"

const worker = program("test/support/terminalWorker.ts")

type Way = "layer" | "ask"

interface Person {
  /** Types before the first request is there. */
  readonly before: string
  /** Types once a request is shown. `undefined`: the input ends. */
  readonly answers: ReadonlyArray<string | undefined>
}

interface Typist {
  readonly type: (text: string) => void
  readonly end: () => void
}

const prompt = "[v] view all "

/** Types when there is something to answer; every text that follows an answer is typed too early for the next request. */
const typist = ({ answers, before }: Person, { end, type }: Typist) => {
  let screen = ""
  let seen = 0
  let next = 0
  let hasBegun = false
  return {
    see: (text: string) => {
      screen += text
      if (!hasBegun && screen.includes("starting")) {
        hasBegun = true
        type(before)
      }
      for (let at = screen.indexOf(prompt, seen); at >= 0; at = screen.indexOf(prompt, seen)) {
        seen = at + prompt.length
        const answer = answers[next++]
        if (answer === undefined) end()
        else type(answer)
      }
    },
    screen: () => screen
  }
}

const endsIn = (screen: string): ReadonlyArray<string> =>
  JSON.parse(/ends (\[.*\])/.exec(screen)?.[1] ?? "[]") as ReadonlyArray<string>

const arguments_ = (way: Way, person: Person) => [...worker, way, String(person.answers.length)]

const atTerminal = (way: Way, person: Person) =>
  Effect.callback<{ readonly ends: ReadonlyArray<string>; readonly screen: string }>((resume) => {
    const terminal = spawn(process.execPath, arguments_(way, person), {
      cols: 100,
      rows: 40,
      env: { ...process.env, NO_COLOR: "1", TERM: "xterm" }
    })
    const { screen, see } = typist(person, {
      type: (text) => terminal.write(text),
      end: () => terminal.write("\u0004")
    })
    terminal.onData(see)
    terminal.onExit(() => resume(Effect.succeed({ ends: endsIn(screen()), screen: screen() })))
    return Effect.sync(() => terminal.kill("SIGKILL"))
  })

const atPipe = (way: Way, person: Person) =>
  Effect.callback<{ readonly ends: ReadonlyArray<string>; readonly screen: string }>((resume) => {
    const child = spawnPlain(process.execPath, arguments_(way, person), { stdio: "pipe", detached: true })
    const { screen, see } = typist(person, {
      type: (text) => void child.stdin.write(text),
      end: () => void child.stdin.end()
    })
    child.stdin.on("error", () => undefined)
    for (const name of ["stdout", "stderr"] as const) child[name].setEncoding("utf8").on("data", see)
    child.on("close", () => resume(Effect.succeed({ ends: endsIn(screen()), screen: screen() })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** What a person types ahead: much of it would approve. */
const ahead = ["y", "s", "h", "1", "n", "\r", "\n", " ", "é", "\u001b[A", "yes\n", "y\r", "y\n"]

const personOf = (seed: number, yes: ReadonlyArray<string>, no: ReadonlyArray<string>) => {
  const random = randomFrom(seed)
  const typedAhead = () => Array.from({ length: random.int(12) }, () => random.pick(ahead)).join("")
  const answers = Array.from({ length: 1 + random.int(8) }, () => {
    const isYes = random.chance(0.5)
    return { isYes, text: random.pick(isYes ? yes : no) + typedAhead() }
  })
  return { before: typedAhead(), answers }
}

const terminals = [
  { where: "a terminal", run: atTerminal, yes: ["y", "Y"], no: ["n", "\r"] },
  { where: "a pipe", run: atPipe, yes: ["y\n", "yes\r\n"], no: ["n\n", "\n", "no\n", "later\n"] }
] as const

for (const { no, run, where, yes } of terminals) {
  describe(`the approver at ${where}`, { concurrent: true }, () => {
    for (const way of ["layer", "ask"] as const) {
      it.live(
        `gives each of many requests at once its own answer, whatever is typed too early (${way})`,
        () =>
          Effect.gen(function*() {
            for (const seed of seeds(10)) {
              const { answers, before } = personOf(seed, yes, no)
              const { ends, screen } = yield* run(way, { before, answers: answers.map((it) => it.text) })
              assert.deepStrictEqual(
                ends,
                answers.map((it) => it.isYes ? "Approved" : "Denied"),
                JSON.stringify({ seed, before, answers, screen })
              )
            }
          }),
        { tags: ["AP3"] }
      )

      it.live(
        `approves one of two requests by one yes, and denies the other at the end of the input (${way})`,
        () =>
          Effect.gen(function*() {
            const { ends, screen } = yield* run(way, { before: "", answers: ["y\n", undefined] })
            assert.deepStrictEqual(ends, ["Approved", "Denied"])
            // what a terminal obeys or hides is shown
            assert.include(screen, "\\u202e\\u001b[2J")
          }),
        { tags: ["AP3"] }
      )
    }
  })
}

describe("the approver at a pipe that was written before", () => {
  it.live("denies, because nobody had seen the request", () =>
    Effect.gen(function*() {
      const { ends } = yield* atPipe("layer", { before: "y\ny\n", answers: [undefined, undefined] })
      assert.deepStrictEqual(ends, ["Denied", "Denied"])
    }))
})
