/**
 * What all views of the page share. Everything else is a view's own.
 *
 * @since 0.1.0
 */
import { signal } from "@preact/signals"
import type { Me } from "../server/ApiModels.ts"
import { type Known, nothing } from "./known.ts"

/** Who is logged in; `undefined`: nobody; `"unknown"`: not yet asked. */
export const me = signal<Me | undefined | "unknown">("unknown")

/** What is known of the server. */
export const known = signal<Known>(nothing)

/** How the stream is. */
export const connection = signal<"connecting" | "live" | "lost">("connecting")

/** How far the server's clock is ahead of the browser's: deadlines are the server's. */
export const clockOffset = signal(0)

/** Epoch milliseconds of the server, each second. */
export const now = signal(Date.now())

/** The question that is shown whole, chosen or open by itself. */
export const shownQuestion = signal<string | undefined>(undefined)

/** Questions that are ticked. */
export const ticked = signal<ReadonlySet<string>>(new Set())

/** What is announced to who cannot see it happen. */
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
