/**
 * Finds all known secrets of a text in one pass, by Aho and Corasick: the time depends on the lengths of the text and of
 * the secrets together, never on their product.
 */

/** Tells where a text has secrets: for each position the end of the longest that starts there, or 0. */
export type Search = (text: string) => Uint32Array | undefined

/**
 * Makes the search for the forms of secrets. Of a form with `telling` characters twice, so many at its beginning or its
 * end count, too: a text may have been cut there.
 */
export const searchFor = (forms: Iterable<string>, telling: number): Search => {
  const [whole, ends] = [new Tree(), new Tree()]
  for (const form of forms) {
    const isTelling = form.length >= 2 * telling
    whole.add(form, "forwards", isTelling ? telling : form.length)
    if (isTelling) ends.add(form, "backwards", telling)
  }
  whole.link()
  ends.link()
  return (text) => {
    let until: Uint32Array | undefined
    const found = (start: number, end: number) => {
      until ??= new Uint32Array(text.length)
      if (until[start]! < end) until[start] = end
    }
    for (let at = 0, node = root; at < text.length; at++) {
      node = whole.next(node, text.charCodeAt(at))
      const length = whole.lengthAt(node)
      if (length > 0) found(at + 1 - length, at + 1)
    }
    if (ends.isEmpty) return until
    for (let at = text.length - 1, node = root; at >= 0; at--) {
      node = ends.next(node, text.charCodeAt(at))
      const length = ends.lengthAt(node)
      if (length > 0) found(at, at + length)
    }
    return until
  }
}

const root = 0

/** The beginnings of forms, as nodes of a tree. Most have one child. */
class Tree {
  private code = new Uint16Array(64)
  private first = new Uint32Array(64)
  private sibling = new Uint32Array(64)
  /** The longest proper end of a node's text that is a node, too. */
  private fallback = new Uint32Array(64)
  /** The length of the longest end of a node's text that counts. */
  private length = new Uint32Array(64)
  private size = 1
  /** Children that are not the first. */
  private readonly others = new Map<number, number>()

  get isEmpty(): boolean {
    return this.size === 1
  }

  /** Adds a form; its beginnings of at least so many characters count. */
  add(form: string, direction: "forwards" | "backwards", least: number): void {
    let node = root
    for (let at = 0; at < form.length; at++) {
      const code = form.charCodeAt(direction === "forwards" ? at : form.length - 1 - at)
      node = this.child(node, code) || this.grow(node, code)
      if (at + 1 >= least) this.length[node] = at + 1
    }
  }

  /** Finds the fallback of each node, once all forms are there. */
  link(): void {
    const queue = new Uint32Array(this.size)
    let end = 1
    for (let at = 0; at < end; at++) {
      const node = queue[at]!
      for (let child = this.first[node]!; child !== 0; child = this.sibling[child]!) {
        queue[end++] = child
        if (node === root) continue
        const fallback = this.next(this.fallback[node]!, this.code[child]!)
        this.fallback[child] = fallback
        this.length[child] ||= this.length[fallback]!
      }
    }
  }

  /** The node behind a node and a character. */
  next(node: number, code: number): number {
    for (let from = node;; from = this.fallback[from]!) {
      const child = this.child(from, code)
      if (child !== 0 || from === root) return child
    }
  }

  lengthAt(node: number): number {
    return this.length[node]!
  }

  private child(node: number, code: number): number {
    const first = this.first[node]!
    if (first === 0 || this.code[first] === code) return first
    return this.sibling[first] === 0 ? 0 : this.others.get(node * 0x10000 + code) ?? 0
  }

  private grow(node: number, code: number): number {
    const grown = this.size++
    if (grown === this.code.length) this.widen()
    this.code[grown] = code
    const first = this.first[node]!
    if (first === 0) this.first[node] = grown
    else {
      // behind the first, which stays the first
      this.sibling[grown] = this.sibling[first]!
      this.sibling[first] = grown
      this.others.set(node * 0x10000 + code, grown)
    }
    return grown
  }

  private widen(): void {
    const wider = (values: Uint32Array) => {
      const result = new Uint32Array(values.length * 2)
      result.set(values)
      return result
    }
    const code = new Uint16Array(this.code.length * 2)
    code.set(this.code)
    this.code = code
    this.first = wider(this.first)
    this.sibling = wider(this.sibling)
    this.fallback = wider(this.fallback)
    this.length = wider(this.length)
  }
}
