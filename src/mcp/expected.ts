/** Which tools a pattern may come to be about. */

/** Whether a pattern may name a tool with one of these prefixes: a wildcard within its first characters leaves open whose it is. */
export const mayBeginWithAny = (pattern: string, prefixes: ReadonlyArray<string>): boolean => {
  const wild = pattern.search(/[*?]/)
  return wild !== -1 && prefixes.some((it) => it.startsWith(pattern.slice(0, wild)))
}
