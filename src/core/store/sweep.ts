/** Maps that are cleaned up little by little, as new entries come. */

/** So many of the oldest are looked at whenever a new one comes: more than one, so that they are caught up with. */
const swept = 4

/** Drops the oldest that are over; those that are not go behind the others. */
export const sweep = <A>(all: Map<string, A>, isOver: (it: A) => boolean): void => {
  const oldest: Array<readonly [string, A]> = []
  for (const entry of all) {
    if (oldest.push(entry) === swept) break
  }
  for (const [id, it] of oldest) {
    all.delete(id)
    if (!isOver(it)) all.set(id, it)
  }
}
