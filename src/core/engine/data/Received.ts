/**
 * Reads submitted calls once, so that later code can trust them.
 *
 * An invalid call becomes a call with a `problem`: it is refused like any other, and its siblings are not affected.
 * Parameters are copied as JSON, so a getter, a proxy or a later change has no effect.
 */
import { mostDepth, tooDeep } from "../../../internal/jsonDepth.ts"
import type { MalformedArguments, ToolCall } from "../../vocabulary/ToolCall.ts"
import type { ParameterIssue } from "../../vocabulary/ToolRefusal.ts"

/** A call that was read. */
export interface Received extends ToolCall {
  /** Why the call is invalid; its other fields are then not reliable. */
  readonly problem: ParameterIssue | undefined
}

/** Reads the calls of a wave. A value that cannot be iterated becomes one invalid call. */
export const wave = (calls: unknown): ReadonlyArray<Received> => {
  const read = isList(calls) ? ofList(calls) : ofOther(calls)
  if (!read.some(isNameless)) return read as ReadonlyArray<Received>
  const ids = new Set(read.map((it) => it.id))
  return read.map((it, index): Received => ({ ...it, id: it.id ?? madeId(index, ids) }))
}

export const one = (call: unknown): Received => wave([call])[0]!

/** A call that may still need an id. */
type Read = Omit<Received, "id"> & { readonly id: string | undefined }

/** The name of a call whose name is invalid. */
const nameless = "unknown"

/** How many values parameters may have; guards against lists that claim any length. */
const maxValues = 1_000_000

/** Why parameters are not JSON. */
class NoJson extends Error {}

const wrong = (problem: ParameterIssue, id?: string, name = nameless): Read => ({ id, name, params: null, problem })

const unreadableCall: ParameterIssue = { path: "", message: "It cannot be read" }

const isNameless = ({ id }: Read): boolean => id === undefined

/** Whether a value is a list. A revoked proxy throws even here. */
const isList = (value: unknown): value is ReadonlyArray<unknown> => {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}

/** The items of a list, each read separately. */
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

/** Reads any other iterable as far as it goes; anything else is one invalid call. */
const ofOther = (calls: unknown): ReadonlyArray<Read> => {
  const read: Array<Read> = []
  try {
    if (typeof calls === "object" && calls !== null && Symbol.iterator in calls) {
      for (const item of calls as Iterable<unknown>) read.push(readCall(item))
    } else read.push(wrong({ path: "", message: `It is ${kindOf(calls)}. Pass a list of calls` }))
  } catch {
    read.push(wrong(unreadableCall))
  }
  return read
}

const readCall = (call: unknown): Read => {
  if (typeof call !== "object" || call === null) {
    return wrong({
      path: "",
      message: `It is ${kindOf(call)}. Pass a call: an object with id, name and params`
    })
  }
  let fields: Fields
  try {
    const { id, malformed, name, params } = call as Partial<Fields>
    fields = { id, malformed, name, params }
  } catch {
    // one of the fields throws
    return wrong(unreadableCall, textOf(call, "id"), textOf(call, "name"))
  }
  const { id, malformed, name, params } = fields
  if (typeof id !== "string") {
    const message = `It is ${kindOf(id)}. Pass a text`
    return wrong({ path: "id", message }, undefined, typeof name === "string" ? name : nameless)
  }
  if (typeof name !== "string") {
    return wrong({ path: "name", message: `It is ${kindOf(name)}. Pass a text` }, id)
  }
  if (malformed !== undefined) {
    const known = readMalformed(malformed)
    return known === undefined
      ? wrong(
        { path: "malformed", message: `It is ${kindOf(malformed)}. It needs a text and a message` },
        id,
        name
      )
      : { id, name, params: null, malformed: known, problem: undefined }
  }
  try {
    return { id, name, params: copying.of(params), problem: undefined }
  } catch (error) {
    return wrong(error instanceof NoJson ? { path: "", message: error.message } : unreadableCall, id, name)
  }
}

/** The fields of a call, unchecked. */
interface Fields {
  readonly id: unknown
  readonly name: unknown
  readonly params: unknown
  readonly malformed: unknown
}

/** The text in a field; `undefined` if it is not a text or cannot be read. */
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

/** Copies parameters; throws if they cannot be copied. */
class Copying {
  private values = 0

  of(value: unknown): unknown {
    this.values = 0
    return this.copy(value, 0)
  }

  private copy(value: unknown, depth: number): unknown {
    if (++this.values > maxValues) throw new NoJson(`They have more than ${maxValues} values`)
    switch (typeof value) {
      case "object":
        break
      case "function":
      case "symbol":
        throw new NoJson(`They are not JSON: they contain a ${typeof value}`)
      default:
        return value
    }
    if (value === null) return null
    if (depth === mostDepth) throw new NoJson(`They are ${tooDeep}`)
    if (Array.isArray(value)) {
      const { length } = value
      const list: Array<unknown> = []
      for (let index = 0; index < length; index++) list.push(this.copy(value[index], depth + 1))
      return list
    }
    // a date or a map from a host; a proxy of one cannot be cloned
    if (!isPlain(value)) return structuredClone(value)
    const copy: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const it = this.copy((value as Record<string, unknown>)[key], depth + 1)
      if (key === "__proto__") {
        Object.defineProperty(copy, key, { value: it, enumerable: true, writable: true, configurable: true })
      } else copy[key] = it
    }
    return copy
  }
}

const copying = new Copying()

/** Whether a value is a plain object, from any realm. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}
