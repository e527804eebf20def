/** Words of the sentences about rules. */

/** The name of a tool or argument in quotes. */
export const quote = (name: string): string => `"${name}"`

/** A list such as `a, b and c`. */
export const list = (items: ReadonlyArray<string>, word: "and" | "or"): string =>
  items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} ${word} ${items.at(-1)}`

/** Names in quotes, each once. */
export const each = (names: ReadonlyArray<string>): ReadonlyArray<string> => Array.from(new Set(names), quote)

/** `"a" and "b"` */
export const and = (names: ReadonlyArray<string>): string => list(each(names), "and")

/** `"a" or "b"` */
export const or = (names: ReadonlyArray<string>): string => list(each(names), "or")

/** The verb for some names. */
export const have = (names: ReadonlyArray<string>): string => names.length > 1 ? "have" : "has"

/** A text with a capital letter. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** The tool a sentence begins with. */
export const who = (tool: string, except: ReadonlyArray<string> = []): string =>
  tool !== "*" ? quote(tool) : except.length === 0 ? "Every tool" : `Every tool but ${and(except)}`

/** A tool that does not, or no tool that does. */
export const noTool = (tool: string, not: string, does: string): string =>
  tool === "*" ? `No tool ${does}` : `${quote(tool)} ${not}`

/** The tool inside a sentence. */
export const whom = (tool: string): string => tool === "*" ? "any tool" : quote(tool)

/** How often. */
export const times = (max: number): string => max === 1 ? "once" : `${max} times`

export const json = (values: ReadonlyArray<unknown>): ReadonlyArray<string> => values.map((it) => JSON.stringify(it))
