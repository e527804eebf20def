/**
 * Finds out whether a waiting call waits for itself.
 *
 * A handler that calls the executor holds permits while it waits. If what the
 * inner call waits for is held by its own caller, or by somebody who in turn
 * waits for that caller, nobody would ever go on.
 */

/** What is known of a call: what it holds, what it waits for, who waits for it. */
interface Node {
  readonly permits: ReadonlyArray<{ readonly holders: ReadonlySet<Node>; readonly isShared: boolean }>
  readonly held: number
  readonly state: "new" | "waiting" | "ready" | "left"
  readonly parent: Node | undefined
  readonly children: ReadonlySet<Node> | undefined
  readonly joined: Node | undefined
}

/**
 * Gives the nested call to refuse if the ticket can never go on, else
 * `undefined`.
 *
 * **Details**
 *
 * A waiting call goes on when any holder of its permit does; a running call
 * goes on when all calls its handler made do. A call met again on the way
 * counts as stuck.
 */
export const findDeadlock = <T extends Node>(ticket: T): T | undefined => {
  const met = new Set<Node>()
  const free = new Set<Node>()
  let nested: Node | undefined
  const goesOn = (node: Node): boolean => {
    if (free.has(node)) return true
    if (met.has(node)) return false
    met.add(node)
    const waits = node.joined !== undefined || node.state === "waiting"
    const permit = node.permits[node.held]
    const able = node.joined !== undefined
      ? goesOn(node.joined)
      : node.state === "waiting"
      ? permit === undefined || permit.isShared || Array.from(permit.holders).some(goesOn)
      : Array.from(node.children ?? []).every(goesOn)
    if (able) free.add(node)
    // of several the one nearest to the start of the search
    else if (waits && node.parent !== undefined) nested = node
    return able
  }
  return goesOn(ticket) ? undefined : nested as T | undefined
}
