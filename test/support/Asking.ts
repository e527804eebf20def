/** Approval requests asked by hand, as an executor asks them, and people who may answer. */
import { Approvals } from "effect-tool-executor"
import { type ApiAccess, LiveLog, PendingApprovals } from "effect-tool-executor/server"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Somebody who may approve for these users. */
export const user = (name: string, approve: ReadonlyArray<string>): ApiAccess.User => ({
  name,
  run: true,
  approve,
  records: ["*"],
  operate: true
})

export const approval = (more: Partial<Approvals.NewRequest> = {}): Approvals.NewRequest => ({
  principal: "bob/home",
  agentPath: [],
  batch: "b",
  process: "p",
  callId: "c",
  index: 0,
  tool: "write",
  class: "SerialMut",
  args: { path: "a.txt" },
  targets: [{ text: "a.txt" }],
  why: "the policy asks",
  preview: undefined,
  isRunning: false,
  remember: "tool",
  ...more
})

/** Asks, and waits in a fiber of its own. */
export const ask = Effect.fnUntraced(function*(more?: Partial<Approvals.NewRequest>) {
  const approvals = yield* Approvals.Approvals
  const request = yield* approvals.request(approval(more))
  const fiber = yield* Effect.forkChild(approvals.submit(request), { startImmediately: true })
  return { id: request.id, fiber }
})

export const layer = (options?: PendingApprovals.Options) =>
  PendingApprovals.layer(options).pipe(Layer.provideMerge(LiveLog.layer()))
