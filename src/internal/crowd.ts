/** A few members that come and go often: as a `Set`, without its hashing, and quick where the last one leaves first. */
export class Crowd<A> {
  private readonly all: Array<A> = []

  get size(): number {
    return this.all.length
  }

  add(it: A): void {
    if (this.all.lastIndexOf(it) === -1) this.all.push(it)
  }

  delete(it: A): void {
    const { all } = this
    const at = all.lastIndexOf(it)
    if (at === -1) return
    if (at === all.length - 1) all.pop()
    else all.splice(at, 1)
  }

  /** The members, oldest first, as they are now: they may leave while these are visited. */
  [Symbol.iterator](): IterableIterator<A> {
    return this.all.slice()[Symbol.iterator]()
  }
}
