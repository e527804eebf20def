/**
 * What becomes of approval requests, said plainly: a list of those that wait, a table of those that are over, and
 * for each thing that somebody does what it changes and what they are told.
 */
import * as Schema from "effect/Schema"

const place = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 }))

const Given = Schema.Struct({
  /** Which of all that were ever asked, and one that nobody asked. */
  at: place,
  answer: Schema.Literals(["once", "once", "deny", "deny", "scope", "scope", "scope", "endless", "endless"]),
  isOther: Schema.Literals([false, false, false, false, false, false, false, true])
})

export const approvers = { ada: ["bob"], dora: ["dan"], cy: ["*"], eve: [] } as const

const by = Schema.Literals(["ada", "dora", "cy", "cy", "cy", "cy", "cy", "eve"])

const Ask = Schema.TaggedStruct("Ask", {
  user: Schema.Literals(["bob", "bob", "bob", "bob", "dan"]),
  tool: Schema.Literals(["write", "write", "write", "write", "write", "remove"]),
  target: Schema.Literals(["a", "a", "a", "a", "b"]),
  remember: Schema.Literals(["tool", "call"]),
  minutes: Schema.Literals([1, 3, 10, 0, 0, 0])
})

/** Something that somebody does. */
export const Step = Schema.Union([
  Ask,
  Ask,
  Schema.TaggedStruct("Answer", { by, given: Given }),
  Schema.TaggedStruct("AnswerAll", {
    by,
    given: Schema.Array(Given).check(Schema.isMinLength(1), Schema.isMaxLength(4))
  }),
  Schema.TaggedStruct("Withdraw", { at: place }),
  Schema.TaggedStruct("Pass", { minutes: Schema.Literals([0, 0, 0, 1, 2]) })
])

export type Step = typeof Step.Type

export type Given = typeof Given.Type

export type Asked = Extract<Step, { readonly _tag: "Ask" }>

/** How an approval request ended, as far as anybody can see it. */
export interface End {
  readonly how: string
  readonly by?: string
  readonly at: number
}

/** What somebody is told who answers. */
export type Told =
  | { readonly _tag: "Taken"; readonly how: ReadonlyArray<string> }
  | { readonly _tag: "NotFound" }
  | ({ readonly _tag: "AlreadyEnded" } & End)
  | { readonly _tag: "NotAnswered"; readonly reasons: ReadonlyArray<string> }

interface Waiting extends Asked {
  readonly id: number
  readonly expiresAt: number
}

export class ApprovalOracle {
  readonly open: Array<Waiting> = []
  readonly ended = new Map<number, End>()
  readonly owners: Array<string> = []

  ask(asked: Asked, now: number): void {
    const id = this.owners.push(asked.user) - 1
    this.open.push({ ...asked, id, expiresAt: asked.minutes === 0 ? Infinity : now + asked.minutes * 60_000 })
  }

  withdraw(id: number, now: number): void {
    if (this.waiting(id) !== undefined) this.end(id, { how: "withdrawn", at: now })
  }

  pass(now: number): void {
    for (const { expiresAt, id } of Array.from(this.open)) {
      if (expiresAt <= now) this.end(id, { how: "expired", at: expiresAt })
    }
  }

  mayAnswer(by: keyof typeof approvers, id: number): boolean {
    const names: ReadonlyArray<string> = approvers[by]
    return id < this.owners.length && (names.includes("*") || names.includes(this.owners[id]!))
  }

  answer(by: keyof typeof approvers, given: Given, now: number): Told {
    const end = this.ended.get(given.at)
    return end !== undefined && this.mayAnswer(by, given.at)
      ? { _tag: "AlreadyEnded", ...end }
      : this.answerAll(by, [given], now)
  }

  answerAll(by: keyof typeof approvers, given: ReadonlyArray<Given>, now: number): Told {
    if (given.some(({ at }) => !this.mayAnswer(by, at))) return { _tag: "NotFound" }
    const stale = given.flatMap(({ at, isOther }, index) => {
      if (given.findIndex((it) => it.at === at) < index) return ["NotAnAnswer"]
      if (this.waiting(at) === undefined) return ["AlreadyEnded"]
      return isOther ? ["NotTheSame"] : []
    })
    if (stale.length > 0) return { _tag: "NotAnswered", reasons: stale }
    const endless = given.filter(({ answer }) => answer === "endless").map(() => "NoDuration")
    if (endless.length > 0) return { _tag: "NotAnswered", reasons: endless }
    const answered = given.map((it) => [this.waiting(it.at)!, it.answer] as const)
    for (const [{ id }, answer] of answered) {
      this.end(id, { how: answer === "deny" ? "denied" : "approved", by, at: now })
    }
    for (const [it, answer] of answered) {
      if (answer !== "scope" || it.remember === "call") continue
      for (const other of Array.from(this.open)) {
        const isSame = other.user === it.user && other.tool === it.tool && other.target === it.target
        if (isSame && other.remember !== "call") this.end(other.id, { how: "covered", by, at: now })
      }
    }
    return { _tag: "Taken", how: given.map(({ at }) => this.ended.get(at)!.how) }
  }

  private waiting(id: number): Waiting | undefined {
    return this.open.find((it) => it.id === id)
  }

  private end(id: number, end: End): void {
    this.open.splice(this.open.findIndex((it) => it.id === id), 1)
    this.ended.set(id, end)
  }
}
