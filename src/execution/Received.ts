/**
 * Calls as they come in: whatever is handed over is read here, once, and becomes a
 * call that nothing later has to be careful with.
 *
 * What is no call is one all the same, with what is wrong with it: it is refused
 * like any other, and its siblings never notice. Parameters are copied, as the JSON
 * that they are; so a getter, a proxy or a change that comes later finds nobody.
 *
 * @since 0.1.0
 */
import type { MalformedArguments, ToolCall } from "../ToolCall.ts"
import type { ParameterIssue } from "../ToolRefusal.ts"
import { unreadable } from "./Ends.ts"

/**
 * A call that was read.
 *
 * @category models
 * @since 0.1.0
 */
export interface Received extends ToolCall {
  /** Why it is no call; there is nothing else to know of it then. */
  readonly problem: ParameterIssue | undefined
}

/**
 * Reads the calls of a wave: as many as there are. What cannot be gone through is
 * one call, of which nothing is known.
 *
 * @category constructors
 * @since 0.1.0
 */
export const wave = (calls: unknown): ReadonlyArray<Received> => {
  const ids = new Set<string>()
  const read = itemsOf(calls).map((item) => {
    const it = "problem" in item ? item : readCall(item.value)
    if (it.id !== undefined) ids.add(it.id)
    return it
  })
  return read.map((it, index): Received => it.id === undefined ? { ...it, id: madeId(index, ids) } : it as Received)
}

/**
 * Reads one call.
 *
 * @category constructors
 * @since 0.1.0
 */
export const one = (call: unknown): Received => wave([call])[0]!

// Utilities

/** A call whose id may have to be made. */
type Read = Omit<Received, "id"> & { readonly id: string | undefined }

/** What is there of a name that is none. */
const nameless = "unknown"

/** So many values parameters may have: nobody sends more, and a list may say that it has any number. */
const maxValues = 1_000_000

/** Why parameters are no JSON. */
class NoJson extends Error {}

const wrong = (problem: ParameterIssue, id?: string, name = nameless): Read => ({ id, name, params: null, problem })

const unreadableCall: ParameterIssue = { path: "", message: "It cannot be read" }

/** The items of a list, each read in its own time; of any other thing none can be had. */
const itemsOf = (calls: unknown): ReadonlyArray<{ readonly value: unknown } | Read> => {
  const items: Array<{ readonly value: unknown } | Read> = []
  try {
    if (Array.isArray(calls)) {
      const { length } = calls
      for (let index = 0; index < length; index++) items.push(itemOf(calls, index))
    } else if (typeof calls === "object" && calls !== null && Symbol.iterator in calls) {
      for (const value of calls as Iterable<unknown>) items.push({ value })
    } else items.push(wrong({ path: "", message: `It is ${kindOf(calls)}, and has to be a list of calls` }))
  } catch {
    items.push(wrong(unreadableCall))
  }
  return items
}

const itemOf = (calls: ReadonlyArray<unknown>, index: number): { readonly value: unknown } | Read => {
  try {
    return { value: calls[index] }
  } catch {
    return wrong(unreadableCall)
  }
}

const readCall = (call: unknown): Read => {
  if (typeof call !== "object" || call === null) {
    return wrong({
      path: "",
      message: `It is ${kindOf(call)}, and has to be a call: an object with id, name and params`
    })
  }
  const id = textOf(call, "id")
  const name = textOf(call, "name")
  const problem = (path: string, message: string) => wrong({ path, message }, id, name)
  try {
    const { malformed, params } = call as { readonly malformed?: unknown; readonly params?: unknown }
    if (id === undefined) return problem("id", `It is ${kindOf(Reflect.get(call, "id"))}, and has to be a text`)
    if (name === undefined) return problem("name", `It is ${kindOf(Reflect.get(call, "name"))}, and has to be a text`)
    if (malformed === undefined) return { id, name, params: new Copying().copy(params), problem: undefined }
    const known = readMalformed(malformed)
    return known === undefined
      ? problem("malformed", `It is ${kindOf(malformed)}, and has to have a text and a message`)
      : { id, name, params: null, malformed: known, problem: undefined }
  } catch (error) {
    if (error instanceof NoJson) return problem("", error.message)
    return error instanceof RangeError ? wrong(unreadable, id, name) : problem("", "It cannot be read")
  }
}

/** A field that is a text, and can be read. */
const textOf = (call: object, field: string): string | undefined => {
  try {
    const value: unknown = Reflect.get(call, field)
    return typeof value === "string" ? value : undefined
  } catch {
    return undefined
  }
}

const readMalformed = (malformed: unknown): MalformedArguments | undefined => {
  try {
    const { message, text } = malformed as { readonly [key: string]: unknown }
    return typeof text === "string" && typeof message === "string" ? { text, message } : undefined
  } catch {
    return undefined
  }
}

const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  switch (typeof value) {
    case "undefined":
      return "missing"
    case "string":
      return "a text"
    case "object":
      return "an object"
    default:
      return `a ${typeof value}`
  }
}

const madeId = (index: number, taken: Set<string>): string => {
  let id = `call_${index + 1}`
  while (taken.has(id)) id = `${id}_`
  taken.add(id)
  return id
}

/** One copying of parameters; throws where they cannot be copied. */
class Copying {
  private values = 0

  copy(value: unknown): unknown {
    if (++this.values > maxValues) throw new NoJson(`They have more than ${maxValues} values`)
    switch (typeof value) {
      case "object":
        break
      case "function":
      case "symbol":
        throw new NoJson(`They are no JSON: there is a ${typeof value} in them`)
      default:
        return value
    }
    if (value === null) return null
    if (Array.isArray(value)) {
      const { length } = value
      const list: Array<unknown> = []
      for (let index = 0; index < length; index++) list.push(this.copy(value[index]))
      return list
    }
    // a date or a map that a host hands over; a proxy of one is none
    if (!isPlain(value)) return structuredClone(value)
    const copy: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const it = this.copy((value as Record<string, unknown>)[key])
      if (key === "__proto__") {
        Object.defineProperty(copy, key, { value: it, enumerable: true, writable: true, configurable: true })
      } else copy[key] = it
    }
    return copy
  }
}

/** An object as JSON has it, of whatever realm. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}
