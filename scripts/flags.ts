// The flags of a script, each with its default: a number, a text, or a toggle.
import { parseArgs } from "node:util"

type Flag = number | string | boolean
type Wide<A extends Flag> = A extends number ? number : A extends boolean ? boolean : string

export const flags = <const Defaults extends Readonly<Record<string, Flag>>>(
  defaults: Defaults
): { readonly [Name in keyof Defaults]: Wide<Defaults[Name]> } => {
  const given = Object.entries(defaults)
  const options = given.map(([name, it]) => [name, { type: typeof it === "boolean" ? "boolean" : "string" }] as const)
  const { values } = parseArgs({ options: Object.fromEntries(options), allowNegative: true })
  const read = ([name, initial]: readonly [string, Flag]) => {
    const value = values[name] ?? initial
    return [name, typeof initial === "number" ? Number(value) : value]
  }
  return Object.fromEntries(given.map(read))
}
