/**
 * Finds out whether a waiting call waits for itself.
 *
 * A handler that calls the executor holds permits while it waits. If what the
 * inner call waits for is held by its own caller, or by somebody who in turn
 * waits for that caller, nobody would ever go on.
 */

/** What is known of a call: what it holds, what it waits for, who waits for it. */
interface Node<T> {
  readonly permits: ReadonlyArray<{ readonly holders: ReadonlySet<T>; readonly isShared: boolean }>
  readonly held: number
  readonly state: "new" | "waiting" | "ready" | "left"
  readonly parent: T | undefined
  readonly children: ReadonlySet<T> | undefined
  readonly joined: T | undefined
}

/**
 * Gives the nested call to refuse if the ticket can never go on, else
 * `undefined`.
 *
 * **Details**
 *
 * A waiting call goes on when any holder of its permit does; a running call
 * goes on when all calls its handler made do; one that runs and waits, as while
 * its write is confirmed, when both hold. Who goes on is found by starting
 * from those that wait for nobody, until nobody is added.
 */
export const findDeadlock = <T extends Node<T>>(ticket: T): T | undefined => {
  const reachable = new Set<T>([ticket])
  for (const node of reachable) for (const next of waitsFor(node)) reachable.add(next)
  const free = new Set<T>()
  let before: number
  do {
    before = free.size
    for (const node of reachable) if (!free.has(node) && goesOn(node, free)) free.add(node)
  } while (free.size > before)
  if (free.has(ticket)) return undefined
  // of several the one nearest to the start of the search
  for (const node of reachable) if (!free.has(node) && node.parent !== undefined && isWaiting(node)) return node
  return undefined
}

const isWaiting = <T extends Node<T>>(node: T): boolean => node.joined !== undefined || node.state === "waiting"

const waitsFor = <T extends Node<T>>(node: T): Iterable<T> =>
  node.joined !== undefined
    ? [node.joined]
    : node.state === "waiting"
    ? [...node.permits[node.held]?.holders ?? [], ...node.children ?? []]
    : node.children ?? []

const goesOn = <T extends Node<T>>(node: T, free: ReadonlySet<T>): boolean => {
  if (node.joined !== undefined) return free.has(node.joined)
  // one that runs may wait for permits, too, while its handler's calls wait for what it holds
  if (!Array.from(node.children ?? []).every((child) => free.has(child))) return false
  if (node.state !== "waiting") return true
  const permit = node.permits[node.held]
  return permit === undefined || permit.isShared || Array.from(permit.holders).some((holder) => free.has(holder))
}
