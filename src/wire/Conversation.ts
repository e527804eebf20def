/** Which calls of a conversation still have to be answered. */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type { Mistake, Read } from "./Shape.ts"

/** The answer to a call, by the id of the call. */
export interface Answer {
  readonly answers: unknown
}

/**
 * A call that only its own kind of answer fits, which an outcome is not: a mistake, unless somebody has answered it.
 */
export interface Foreign {
  readonly id: string
  readonly mistake: Mistake
}

/** First in, first out, in constant time however long it is. */
export class Queue<A> {
  private readonly entries: Array<A>
  private first = 0

  constructor(entry: A) {
    this.entries = [entry]
  }

  add(entry: A): void {
    this.entries.push(entry)
  }

  take(): A | undefined {
    return this.entries[this.first++]
  }
}

/** The calls that no later entry answers, in order. With equal ids, an answer belongs to the first unanswered call. */
export const unanswered = (
  conversation: ReadonlyArray<ToolCall.ToolCall | Foreign | Answer>
): Read<ReadonlyArray<ToolCall.ToolCall>> => {
  const open = new Map<unknown, Queue<ToolCall.ToolCall | Foreign>>()
  const answered = new Set<ToolCall.ToolCall | Foreign>()
  const calls: Array<ToolCall.ToolCall | Foreign> = []
  for (const entry of conversation) {
    if ("answers" in entry) {
      const call = open.get(entry.answers)?.take()
      if (call !== undefined) answered.add(call)
    } else {
      calls.push(entry)
      const equal = open.get(entry.id)
      if (equal === undefined) open.set(entry.id, new Queue(entry))
      else equal.add(entry)
    }
  }
  return Result.all(
    calls.filter((call) => !answered.has(call)).map((call) =>
      "mistake" in call ? Result.fail(call.mistake) : Result.succeed(call)
    )
  )
}
