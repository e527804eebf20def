/** Above so many members, a set is quicker than a list. */
const few = 16

/**
 * Members of a small, changing set, in the order in which they came. A `Set` that goes from none to one and back
 * allocates each time; a list of a few does not. Thousands of members cost no more each than a few.
 */
export class Crowd<A> {
  private members: Array<A> | Set<A> = []

  get size(): number {
    return Array.isArray(this.members) ? this.members.length : this.members.size
  }

  add(it: A): void {
    const { members } = this
    if (!Array.isArray(members)) members.add(it)
    else if (!members.includes(it)) {
      members.push(it)
      if (members.length > few) this.members = new Set(members)
    }
  }

  delete(it: A): void {
    const { members } = this
    if (Array.isArray(members)) {
      const at = members.lastIndexOf(it)
      if (at !== -1) members.splice(at, 1)
    } else {
      members.delete(it)
      if (members.size === 0) this.members = []
    }
  }

  /** The members, oldest first, as they are now: they may leave while these are visited. */
  [Symbol.iterator](): IterableIterator<A> {
    return Array.from(this.members)[Symbol.iterator]()
  }
}
