/**
 * What a host declares about a tool so that its calls can be traced: its effect, the roles of its parameters and how
 * far its output can be trusted.
 */
import {
  type Declared,
  type Origin,
  origins,
  type Role,
  type RoleWith,
  type Trust
} from "../core/vocabulary/ToolProvenance.ts"

export type { Declared, Role, RoleWith, Trust } from "../core/vocabulary/ToolProvenance.ts"

/** A declared tool, ready for a ledger. */
export interface Tool {
  readonly name: string
  readonly effect: Declared["effect"]
  readonly isDeclared: boolean
  readonly parameters: Paths<Parameter>
  readonly output: Paths<Trusted>
}

/** What is compared for a parameter. */
export interface Parameter {
  readonly role: "target" | "object" | "content" | "detail"
  readonly kind: string
  readonly least: Origin
}

/** A trust with its kind. */
export interface Trusted {
  readonly trust: "own" | "label" | "peer" | "foreign"
  readonly kind: string
}

/** Rules by path. */
export interface Paths<A> {
  readonly rule: A | undefined
  readonly fields: ReadonlyMap<string, Paths<A>>
  readonly any: Paths<A> | undefined
  readonly keys: A | undefined
}

/** Compiles what a host declares about a tool. */
export const make = (name: string, declared: Declared): Tool => ({
  name,
  effect: declared.effect,
  isDeclared: true,
  parameters: pathsOf(declared.parameters ?? {}, (it) => parameterOf(declared.effect, it)),
  output: pathsOf(typeof declared.output === "string" ? { "": declared.output } : declared.output ?? {}, trustedOf)
})

/** A tool without a declaration: a write that asks, or a read whose output proves nothing. */
export const undeclared = (name: string, effect: "read" | "write" = "write"): Tool => ({
  name,
  effect,
  isDeclared: false,
  parameters: nothing,
  output: nothing
})

/** What is wrong with a declaration, by path. */
export const problemsOf = (declared: Declared): ReadonlyArray<{ readonly path: string; readonly problem: string }> => {
  const problems: Array<{ readonly path: string; readonly problem: string }> = []
  const check = (path: string, says: string) => {
    const problem = pathProblem(says)
    if (problem !== undefined) problems.push({ path: `${path}[${JSON.stringify(says)}]`, problem })
  }
  for (const [path, it] of Object.entries(declared.parameters ?? {})) {
    check("parameters", path)
    const role = typeof it === "string" ? it : it.role
    if (!/^(?:target|object)(?::.+)?$|^content$|^detail$/.test(role)) {
      problems.push({ path: `parameters[${JSON.stringify(path)}]`, problem: `${JSON.stringify(role)} is not a role` })
    }
    if (typeof it !== "string" && it.least !== undefined && !origins.includes(it.least)) {
      problems.push({
        path: `parameters[${JSON.stringify(path)}].least`,
        problem: `${JSON.stringify(it.least)} is not an origin`
      })
    }
  }
  if (declared.output === undefined) return problems
  const output = typeof declared.output === "string" ? { "": declared.output } : declared.output
  for (const [path, trust] of Object.entries(output)) {
    check("output", path)
    if (!/^own(?::.+)?$|^label$|^peer$|^foreign$/.test(trust)) {
      problems.push({ path: `output[${JSON.stringify(path)}]`, problem: `${JSON.stringify(trust)} is not a trust` })
    }
  }
  return problems
}

/** How deep values are looked at; what is deeper counts as one text. */
export const depthLimit = 64

/** Visits each scalar of a value with the rule of the longest path that fits it. */
export const visit = <A>(
  value: unknown,
  paths: Paths<A>,
  each: (path: string, value: string | number | boolean, rule: A | undefined) => void
): void => {
  const walk = (value: unknown, here: Paths<A> | undefined, inherited: A | undefined, path: string, depth: number) => {
    const rule = here?.rule ?? inherited
    if (typeof value !== "object" || value === null) {
      if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") each(path, value, rule)
    } else if (depth >= depthLimit) {
      each(path, JSON.stringify(value), rule)
    } else if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) walk(value[i], here, inherited, `${path}[${i}]`, depth + 1)
    } else {
      for (const key of Object.keys(value)) {
        const at = path === "" ? key : `${path}.${key}`
        if (here?.keys !== undefined) each(at, key, here.keys)
        walk((value as Record<string, unknown>)[key], here?.fields.get(key) ?? here?.any, rule, at, depth + 1)
      }
    }
  }
  walk(value, paths, undefined, "", 0)
}

// Utilities

const nothing: Paths<never> = { rule: undefined, fields: new Map(), any: undefined, keys: undefined }

const pathsOf = <A, B>(declared: { readonly [path: string]: A }, as: (it: A) => B): Paths<B> => {
  interface Node {
    rule: B | undefined
    fields: Map<string, Node>
    any: Node | undefined
    keys: B | undefined
  }
  const node = (): Node => ({ rule: undefined, fields: new Map(), any: undefined, keys: undefined })
  const root = node()
  for (const [path, it] of Object.entries(declared)) {
    const rule = as(it)
    let here = root
    const segments = segmentsOf(path)
    const last = segments[segments.length - 1]
    for (const segment of last === "{keys}" ? segments.slice(0, -1) : segments) {
      if (segment === "*") here = here.any ??= node()
      else {
        const next = here.fields.get(segment) ?? node()
        here.fields.set(segment, next)
        here = next
      }
    }
    if (last === "{keys}") here.keys = rule
    else here.rule = rule
  }
  return root
}

const segmentsOf = (path: string): ReadonlyArray<string> =>
  path.replaceAll("[*]", "").split(".").filter((it) => it !== "")

const pathProblem = (path: string): string | undefined => {
  if (path === "") return undefined
  const segments = path.replaceAll("[*]", "").split(".")
  if (segments.some((it, index) => it === "" && !(index === 0 && segments.length === 1))) return "a key is missing"
  if (/\[(?!\*\])|(?<!\[\*)\]/.test(path)) return "write [*] for the elements of an array, or nothing"
  return segments.slice(0, -1).includes("{keys}") ? "{keys} can only end a path" : undefined
}

const parameterOf = (effect: Declared["effect"], it: Role | RoleWith): Parameter => {
  const [role, least] = typeof it === "string" ? [it, undefined] : [it.role, it.least]
  const [name, kind] = parted(role)
  return {
    role: name as Parameter["role"],
    kind,
    least: least ?? (name === "object" || effect === "egress" ? "named" : "listed")
  }
}

const trustedOf = (trust: Trust): Trusted => {
  const [name, kind] = parted(trust)
  return { trust: name as Trusted["trust"], kind }
}

const parted = (text: string): readonly [name: string, kind: string] => {
  const at = text.indexOf(":")
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]
}
