/**
 * Calls as they come in: whatever is handed over is read here, once, and becomes a
 * call that nothing later has to be careful with.
 *
 * What is no call is one all the same, with what is wrong with it: it is refused
 * like any other, and its siblings never notice. Parameters are copied, as the JSON
 * that they are; so a getter, a proxy or a change that comes later finds nobody.
 */
import type { MalformedArguments, ToolCall } from "../vocabulary/ToolCall.ts"
import type { ParameterIssue } from "../vocabulary/ToolRefusal.ts"
import { unreadable } from "./CallEnd.ts"

/** A call that was read. */
export interface Received extends ToolCall {
  /** Why it is no call; there is nothing else to know of it then. */
  readonly problem: ParameterIssue | undefined
}

/**
 * Reads the calls of a wave: as many as there are. What cannot be gone through is
 * one call, of which nothing is known.
 */
export const wave = (calls: unknown): ReadonlyArray<Received> => {
  const read = isList(calls) ? ofList(calls) : ofOther(calls)
  if (!read.some(isNameless)) return read as ReadonlyArray<Received>
  const ids = new Set(read.map((it) => it.id))
  return read.map((it, index): Received => ({ ...it, id: it.id ?? madeId(index, ids) }))
}

/** Reads one call. */
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

const isNameless = ({ id }: Read): boolean => id === undefined

/** A proxy that was revoked cannot even be asked. */
const isList = (value: unknown): value is ReadonlyArray<unknown> => {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}

/** The items of a list, each read in its own time. */
const ofList = (calls: ReadonlyArray<unknown>): ReadonlyArray<Read> => {
  const read: Array<Read> = []
  try {
    const { length } = calls
    for (let index = 0; index < length; index++) read.push(readItem(calls, index))
  } catch {
    read.push(wrong(unreadableCall))
  }
  return read
}

const readItem = (calls: ReadonlyArray<unknown>, index: number): Read => {
  let item: unknown
  try {
    item = calls[index]
  } catch {
    return wrong(unreadableCall)
  }
  return readCall(item)
}

/** What can be gone through, as far as it can; of any other thing nothing can be had. */
const ofOther = (calls: unknown): ReadonlyArray<Read> => {
  const read: Array<Read> = []
  try {
    if (typeof calls === "object" && calls !== null && Symbol.iterator in calls) {
      for (const item of calls as Iterable<unknown>) read.push(readCall(item))
    } else read.push(wrong({ path: "", message: `It is ${kindOf(calls)}, and has to be a list of calls` }))
  } catch {
    read.push(wrong(unreadableCall))
  }
  return read
}

const readCall = (call: unknown): Read => {
  if (typeof call !== "object" || call === null) {
    return wrong({
      path: "",
      message: `It is ${kindOf(call)}, and has to be a call: an object with id, name and params`
    })
  }
  let fields: Fields
  try {
    const { id, malformed, name, params } = call as Partial<Fields>
    fields = { id, malformed, name, params }
  } catch {
    // one of them cannot be had
    return wrong(unreadableCall, textOf(call, "id"), textOf(call, "name"))
  }
  const { id, malformed, name, params } = fields
  if (typeof id !== "string") {
    const message = `It is ${kindOf(id)}, and has to be a text`
    return wrong({ path: "id", message }, undefined, typeof name === "string" ? name : nameless)
  }
  if (typeof name !== "string") {
    return wrong({ path: "name", message: `It is ${kindOf(name)}, and has to be a text` }, id)
  }
  if (malformed !== undefined) {
    const known = readMalformed(malformed)
    return known === undefined
      ? wrong(
        { path: "malformed", message: `It is ${kindOf(malformed)}, and has to have a text and a message` },
        id,
        name
      )
      : { id, name, params: null, malformed: known, problem: undefined }
  }
  try {
    return { id, name, params: copying.of(params), problem: undefined }
  } catch (error) {
    if (error instanceof NoJson) return wrong({ path: "", message: error.message }, id, name)
    return wrong(error instanceof RangeError ? unreadable : unreadableCall, id, name)
  }
}

/** What a call has, whatever that is. */
interface Fields {
  readonly id: unknown
  readonly name: unknown
  readonly params: unknown
  readonly malformed: unknown
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

const madeId = (index: number, taken: Set<string | undefined>): string => {
  let id = `call_${index + 1}`
  while (taken.has(id)) id = `${id}_`
  taken.add(id)
  return id
}

/** One copying of parameters; throws where they cannot be copied. */
class Copying {
  private values = 0

  of(value: unknown): unknown {
    this.values = 0
    return this.copy(value)
  }

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

const copying = new Copying()

/** An object as JSON has it, of whatever realm. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}
