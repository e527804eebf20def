/** State that all views share. */
import { signal } from "@preact/signals"
import type { AnsweredApproval } from "../server/api/ApiApprovals.ts"
import type { Me } from "../server/api/ApiModels.ts"
import { type Known, nothing } from "./known.ts"

/** The logged-in user; `undefined` if logged out, `"unknown"` until the server has answered. */
export const me = signal<Me | undefined | "unknown">("unknown")

/** What the page knows of the server. */
export const known = signal<Known>(nothing)

/** The state of the live stream. */
export const connection = signal<"connecting" | "live" | "lost">("connecting")

/** How far the server's clock is ahead of the browser's, in milliseconds. */
export const clockOffset = signal(0)

/** The server's time in epoch milliseconds, updated every second. */
export const now = signal(Date.now())

/** The id of the approval request in the detail view. */
export const shownApproval = signal<string | undefined>(undefined)

/** Ids of the selected approval requests. */
export const ticked = signal<ReadonlySet<string>>(new Set())

/** The request that was answered last, and whether its write can be undone. */
export const answered = signal<{ readonly approval: AnsweredApproval; readonly isUndoable: boolean } | undefined>(
  undefined
)

/** The latest announcement for screen readers. */
export const announced = signal("")

/** Announces something politely; the same text twice is announced twice. */
export const say = (text: string): void => {
  announced.value = announced.value === text ? `${text}\u00a0` : text
}

/** Keeps `now` going. */
export const keepTime = (): void => {
  const tick = () => {
    now.value = Date.now() + clockOffset.peek()
  }
  tick()
  setInterval(tick, 1_000)
}
