/**
 * Finds out whether a waiting call waits for itself.
 *
 * A handler that calls the executor holds permits while it waits. If its own caller, or a call that waits for its
 * caller, holds what the inner call needs, neither can continue.
 */

/** What is known of a call: what it holds, what it waits for, who waits for it. */
interface Node<T> {
  readonly permits: ReadonlyArray<unknown>
  readonly held: number
  readonly state: "new" | "waiting" | "ready" | "left"
  readonly parent: T | undefined
  readonly children: ReadonlySet<T> | undefined
  readonly joined: T | undefined
}

/**
 * Gives the nested call to refuse if the ticket can never go on, else `undefined`. `holdersOf` gives those that hold a
 * permit, or `undefined` if one is given back whatever they do.
 *
 * A waiting call continues when any holder of its permit does; a running call continues when all calls of its handler
 * do; one that runs and waits, as while its write is confirmed, when both hold. Starts with the calls that wait for
 * nothing and adds those that can continue, until nothing changes.
 */
export const findDeadlock = <T extends Node<T>>(
  ticket: T,
  holdersOf: (permit: T["permits"][number]) => ReadonlyArray<T> | undefined
): T | undefined => {
  const reachable = new Map<T, Waits<T>>()
  const open = [ticket]
  for (const node of open) {
    if (reachable.has(node)) continue
    const waits = waitsOf(node, holdersOf)
    reachable.set(node, waits)
    open.push(...waits.any ?? [], ...waits.all)
  }
  const free = new Set<T>()
  let before: number
  do {
    before = free.size
    for (const [node, { all, any }] of reachable) {
      const goesOn = all.every((it) => free.has(it)) && (any === undefined || any.some((it) => free.has(it)))
      if (goesOn) free.add(node)
    }
  } while (free.size > before)
  if (free.has(ticket)) return undefined
  // of several the one nearest to the start of the search
  for (const node of reachable.keys()) {
    if (!free.has(node) && node.parent !== undefined && isWaiting(node)) return node
  }
  return undefined
}

/** Whom a call waits for: for all of some, and for any one of others. */
interface Waits<T> {
  readonly all: ReadonlyArray<T>
  readonly any: ReadonlyArray<T> | undefined
}

const isWaiting = <T extends Node<T>>(node: T): boolean => node.joined !== undefined || node.state === "waiting"

const waitsOf = <T extends Node<T>>(
  { children = new Set(), held, joined, permits, state }: T,
  holdersOf: (permit: T["permits"][number]) => ReadonlyArray<T> | undefined
): Waits<T> => {
  if (joined !== undefined) return { all: [joined], any: undefined }
  // one that runs may wait for permits, too, while its handler's calls wait for what it holds
  const permit = state === "waiting" ? permits[held] : undefined
  return { all: Array.from(children), any: permit === undefined ? undefined : holdersOf(permit) }
}
