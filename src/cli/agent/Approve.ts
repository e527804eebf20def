/** `--approve`: who answers the approval requests of a command. */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Semaphore from "effect/Semaphore"
import * as Approvals from "../../core/gates/Approvals.ts"
import * as Asking from "../../terminal/Asking.ts"
import * as Keyboard from "../../terminal/Keyboard.ts"
import * as FolderTools from "../gateway/FolderTools.ts"

export const flag = Flag.Literals("approve", ["ask", "deny", "auto"]).pipe(
  Flag.withDescription(
    "How approval requests are answered: ask (default) on the terminal; deny: denied; auto: all approved"
  ),
  Flag.withDefault("ask")
)

export type Approve = "ask" | "deny" | "auto"

/** Who answers: nobody if there is no terminal to ask on. */
export const answeredBy = (approve: Approve): Effect.Effect<Approve> =>
  Effect.map(Keyboard.isThere, (isThere) => approve === "ask" && !isThere ? "deny" : approve)

/** Layer of the pending requests. Without it, calls that need approval are denied immediately. */
export const layerOf = (approve: Approve) => approve === "deny" ? Layer.empty : Approvals.layer()

/** Answers the requests while the scope is open. Nobody else writes to the screen meanwhile. */
export const answering = Effect.fnUntraced(function*(approve: Approve, screen: Semaphore.Semaphore) {
  const approvals = yield* Effect.serviceOption(Approvals.Approvals)
  if (Option.isNone(approvals)) return
  const answering = approve === "auto" ? Asking.approveAll : Asking.askPerson(screen)
  yield* Effect.forkScoped(Effect.provideService(answering, Approvals.Approvals, approvals.value), {
    startImmediately: true
  })
})

/** Says why calls were denied, and how to allow them. */
export const whyDenied = (approve: Approve): string => approve === "auto" ? needsOthers : howToAllow

const needsOthers = "--approve auto cannot approve calls that need named or several people, or a form. " +
  "Serve the tools, so that people can approve them on a page (tool-executor serve).\n"

const howToAllow = `No approver was available. ${FolderTools.howToAllow}, ` +
  "run it on a terminal to approve calls there, or use --approve auto to approve all of them. " +
  `${FolderTools.askWins}\n`
