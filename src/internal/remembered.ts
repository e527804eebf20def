/**
 * A function of texts that remembers its answers, for texts that come again and again. It forgets all of them when they
 * are too many.
 */
export const remembered = <A>(f: (text: string) => A, most: number): (text: string) => A => {
  const known = new Map<string, A>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    const made = f(text)
    if (known.size >= most) known.clear()
    known.set(text, made)
    return made
  }
}
