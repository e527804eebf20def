/** Reads what a view shows. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import { get, type Problem } from "./api.ts"
import { html } from "./html.ts"
import { Failure } from "./pieces.ts"

/** What a path gives, and how to read it again. `failure` shows the problem of the last request, if it had one. */
export interface Read<A> {
  readonly value: A | undefined
  readonly failure: VNode | null
  readonly read: () => Promise<void>
  /** Shows the problem of another request. */
  readonly fail: (problem: Problem) => void
}

/** Reads a path when the view is shown. */
export const useRead = <A>(path: string): Read<A> => {
  const [value, setValue] = useState<A | undefined>(undefined)
  const [problem, fail] = useState<Problem | undefined>(undefined)
  const read = async () => {
    const reply = await get<A>(path)
    fail(reply.ok ? undefined : reply.problem)
    if (reply.ok) setValue(reply.value)
  }
  useEffect(() => void read(), [path])
  const failure = problem === undefined ? null : html`<${Failure} problem=${problem} onAgain=${() => void read()} />`
  return { value, failure, read, fail }
}
