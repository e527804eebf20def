/**
 * One JSON Schema as a document: the schemas in it, their names, and what its references lead to. Nothing outside of it
 * is known, and nothing is fetched.
 *
 * What it takes to read one grows with its size alone. References make it larger than it looks: how large, is counted,
 * not tried.
 */
import * as JsonPointer from "effect/JsonPointer"
import * as Result from "effect/Result"
import { clip } from "../clip.ts"
import { heldBy, inPlace, isKeys, type Keys, references, schemasIn, unused } from "./positions.ts"

/** Where a schema stands. */
export interface Place {
  /** The address that its references are relative to. */
  readonly resource: string
  readonly pointer: string
}

/** A reference of a schema, and what it leads to. */
export interface Reference {
  readonly key: typeof references[number]
  readonly target: unknown
  /** The name under which it leads elsewhere, where a schema on the way has it, too. */
  readonly dynamic: string | undefined
}

/** A JSON Schema and all that is in it. */
export interface Document {
  readonly root: unknown
  /** Every schema in it that is an object, also where only a reference says that it is one. */
  readonly schemas: ReadonlyMap<Keys, Place>
  /** What the references of a schema lead to. */
  readonly references: ReadonlyMap<Keys, ReadonlyArray<Reference>>
  /** The schemas that have a dynamic name, by their resource. */
  readonly named: (name: string) => ReadonlyMap<string, unknown>
  /** All schemas that have a dynamic name. */
  readonly dynamic: ReadonlyArray<unknown>
  readonly hasUnevaluated: boolean
  /** How many objects and lists it has, data included. */
  readonly parts: number
}

/**
 * Reads a schema, each schema in it by `check`; throws if a reference in it leads nowhere or without end, or if it is
 * too large.
 *
 * In older drafts the siblings of a `$ref` have no effect (`refAlone`).
 */
export const read = (root: unknown, refAlone: boolean, check: (schema: unknown, pointer: string) => void): Document => {
  const reader = new Reader(root, refAlone, check)
  const { document } = reader
  const reached = reachedIn(document)
  const inOne = countOf(document, reached, (key) => inPlace.has(key))
  if (inOne === Infinity) throw new Error("a reference in it leads back to itself without end")
  if (inOne > maxInPlace) throw new Error(`it asks ${said(inOne)} things of one value, and ${maxInPlace} are too many`)
  const inAll = countOf(document, reached, () => true)
  if (inAll > maxExpanded) {
    throw new Error(`with its references written out it has ${said(inAll)} parts, and ${maxExpanded} are too many`)
  }
  return document
}

/** What a pointer leads to. */
export const at = (pointer: string, root: unknown): unknown =>
  pointer.split("/").slice(1).reduce<unknown>((it, token) => {
    const key = JsonPointer.unescapeToken(decoded(token))
    return Object.hasOwn(Object(it), key) ? (it as Keys)[key] : undefined
  }, root)

const said = (count: number): string => count < 1e9 ? String(count) : `about ${count.toExponential(0)}`

/** So deep may a schema be nested. */
const maxDepth = 500

/** So many parts may it have. */
const maxParts = 200_000

/** So many schemas may it be with its references written out, and so many of them about one value. */
const maxExpanded = 1_000_000
const maxInPlace = 10_000

/** So long may an address be. */
const maxAddress = 4_000

/** So many characters may all addresses be, each with what it is relative to. */
const maxAddressed = 2_000_000

/** The address of a schema without one. */
const nowhere = "schema://root/"

const decoded = (token: string): string => Result.getOrElse(Result.try(() => decodeURIComponent(token)), () => token)

class Reader {
  private readonly places = new Map<object, Place>()
  private readonly schemas = new Map<Keys, Place>()
  private readonly resources = new Map<string, unknown>()
  private readonly names = new Map<string, unknown>()
  private readonly dynamic = new Map<string, Map<string, unknown>>()
  private hasUnevaluated = false
  private parts = 0
  private addressed = 0
  private readonly refAlone: boolean
  private readonly check: (schema: unknown, pointer: string) => void
  readonly document: Document

  constructor(root: unknown, refAlone: boolean, check: (schema: unknown, pointer: string) => void) {
    this.refAlone = refAlone
    this.check = check
    this.resources.set(nowhere, root)
    this.walk(root, { resource: nowhere, pointer: "" })
    const found = new Map<Keys, ReadonlyArray<Reference>>()
    // the target of a reference may be a schema that was not one before, with more references
    for (const [schema, place] of this.schemas) {
      const own = references.flatMap((key) =>
        typeof schema[key] === "string" ? [this.follow(key, schema[key], place)] : []
      )
      if (own.length > 0) found.set(schema, own)
    }
    this.document = {
      root,
      schemas: this.schemas,
      references: found,
      named: (name) => this.dynamic.get(name) ?? new Map(),
      dynamic: Array.from(this.dynamic.values()).flatMap((it) => Array.from(it.values())),
      hasUnevaluated: this.hasUnevaluated,
      parts: this.parts
    }
  }

  private resolved(address: string, base: string): string {
    // each is resolved against all before it
    const length = address.length + base.length
    if (length > maxAddress) throw new Error(`an address in it has more than ${maxAddress} characters`)
    if ((this.addressed += length) > maxAddressed) throw new Error("its addresses are too long together")
    return Result.getOrElse(Result.try(() => new URL(address, base).href), () => address)
  }

  /** Notes a schema and all that is in it, one after the other: it may be deeper than a stack. */
  private walk(start: unknown, from: Place): void {
    const open: Array<
      { readonly value: unknown; readonly isSchema: boolean; readonly depth: number; readonly place: Place }
    > = [
      { value: start, isSchema: true, depth: 0, place: from }
    ]
    for (let it = open.pop(); it !== undefined; it = open.pop()) {
      const { depth, isSchema, value } = it
      if (isSchema) this.check(value, it.place.pointer)
      if (typeof value !== "object" || value === null) continue
      if (depth > maxDepth) throw new Error("it is nested too deeply")
      if (++this.parts > maxParts) throw new Error(`it has more than ${maxParts} parts`)
      const isNew = isSchema && isKeys(value) && !this.schemas.has(value)
      const place = isNew ? this.name(value, it.place) : it.place
      if (!this.places.has(value)) this.places.set(value, place)
      const inner = (rest: string) => ({ resource: place.resource, pointer: `${place.pointer}/${rest}` })
      if (isNew) {
        for (const [key, rest, schema] of schemasIn(value)) {
          const path = rest === undefined ? key : `${JsonPointer.escapeToken(key)}/${JsonPointer.escapeToken(rest)}`
          open.push({ value: schema, isSchema: true, depth: depth + 1, place: inner(path) })
        }
      }
      for (const [key, data] of Object.entries(value)) {
        if (isSchema && heldBy(key, data) !== "data") continue
        if (typeof data !== "object" || data === null) continue
        open.push({ value: data, isSchema: false, depth: depth + 1, place: inner(JsonPointer.escapeToken(key)) })
      }
    }
  }

  /** Notes what a schema is called. */
  private name(schema: Keys, { pointer, resource }: Place): Place {
    const id = this.refAlone && Object.hasOwn(schema, "$ref") ? undefined : schema.$id
    const [address = "", fragment = ""] = typeof id === "string" ? id.split("#", 2) : []
    const place = { pointer, resource: address === "" ? resource : this.resolved(address, resource) }
    const note = (name: string) => {
      const key = `${place.resource}#${name}`
      if (!this.names.has(key)) this.names.set(key, schema)
    }
    const noteDynamic = (name: string) => {
      const named = this.dynamic.get(name) ?? new Map<string, unknown>()
      if (!named.has(place.resource)) this.dynamic.set(name, named.set(place.resource, schema))
    }
    if (address !== "" && !this.resources.has(place.resource)) this.resources.set(place.resource, schema)
    if (fragment !== "") note(fragment)
    if (typeof schema.$anchor === "string") note(schema.$anchor)
    if (typeof schema.$dynamicAnchor === "string") {
      note(schema.$dynamicAnchor)
      noteDynamic(schema.$dynamicAnchor)
    }
    // the name of a whole resource is empty
    if (schema.$recursiveAnchor === true) noteDynamic("")
    if ("unevaluatedItems" in schema || "unevaluatedProperties" in schema) this.hasUnevaluated = true
    this.schemas.set(schema, place)
    return place
  }

  private follow(key: typeof references[number], reference: string, { resource }: Place): Reference {
    const [address = "", ...rest] = reference.split("#")
    const fragment = rest.join("#")
    const uri = address === "" ? resource : this.resolved(address, resource)
    const whole = this.resources.get(uri)
    const isPointer = fragment === "" || fragment.startsWith("/")
    const target = isPointer ? at(fragment, whole) : this.names.get(`${uri}#${decoded(fragment)}`)
    if (target === undefined) {
      const missing = JSON.stringify(clip(reference, 200))
      throw new Error(`${missing} is not in this schema; nothing is fetched, so write it under $defs`)
    }
    const isSchema = typeof target === "object" && target !== null && this.schemas.has(target as Keys)
    if (!isSchema) {
      const place = this.places.get(Object(target)) ?? { resource: uri, pointer: fragment }
      this.walk(target, place)
    }
    const name = key === "$dynamicRef" && !isPointer ? decoded(fragment) : key === "$recursiveRef" ? "" : undefined
    const isNamed = name !== undefined && this.dynamic.get(name)?.get(uri) === target
    return { key, target, dynamic: isNamed ? name : undefined }
  }
}

/** What a schema leads to under some keywords, and by reference. */
const stepsFrom = (schema: Keys, document: Document, isCounted: (key: string) => boolean): ReadonlyArray<Keys> => {
  const inside = schemasIn(schema).flatMap(([key, , inner]) => !unused.has(key) && isCounted(key) ? [inner] : [])
  const led = (document.references.get(schema) ?? []).map(({ target }) => target)
  return [...inside, ...led].filter(isKeys)
}

/** The schemas that are about something: the whole, what it leads to, and what a dynamic name may lead to. */
const reachedIn = (document: Document): ReadonlySet<Keys> => {
  const reached = new Set([document.root, ...document.dynamic].filter(isKeys))
  // those that are added meanwhile have their turn, too
  for (const schema of reached) {
    for (const it of stepsFrom(schema, document, () => true)) reached.add(it)
  }
  return reached
}

/**
 * Counts the schemas that a document is with its references written out, of those that stand under some keywords: one
 * that leads back to where it came from is counted once. `Infinity` where only such keywords lead back. What nothing
 * leads to is not counted.
 */
const countOf = (document: Document, reached: Iterable<Keys>, isCounted: (key: string) => boolean): number => {
  const frames: Array<Frame> = []
  const frameOf = new Map<Keys, Frame>()
  const open: Array<Frame> = []
  const enter = (schema: Keys) => {
    const frame = {
      schema,
      steps: stepsFrom(schema, document, isCounted),
      next: 0,
      number: frameOf.size,
      low: frameOf.size,
      count: undefined
    }
    frameOf.set(schema, frame)
    frames.push(frame)
    open.push(frame)
  }
  let most = 0
  for (const schema of reached) {
    if (!frameOf.has(schema)) enter(schema)
    for (let frame = frames.at(-1); frame !== undefined; frame = frames.at(-1)) {
      const step = frame.steps[frame.next++]
      const known = step === undefined ? undefined : frameOf.get(step)
      if (step !== undefined) {
        if (known === undefined) enter(step)
        else if (known.count === undefined) frame.low = Math.min(frame.low, known.number)
        continue
      }
      frames.pop()
      const above = frames.at(-1)
      if (above !== undefined) above.low = Math.min(above.low, frame.low)
      if (frame.low < frame.number) continue
      // a ring of schemas that lead to each other, mostly of one
      const ring = open.splice(open.lastIndexOf(frame))
      const isEndless = !isCounted("properties") && (ring.length > 1 || frame.steps.includes(frame.schema))
      const count = isEndless ? Infinity : ring.reduce(
        (sum, { steps }) => steps.reduce((sum, it) => sum + (frameOf.get(it)!.count ?? 0), sum + 1),
        0
      )
      for (const it of ring) it.count = count
      most = Math.max(most, count)
    }
  }
  return most
}

/** A schema on the way of a depth-first search for rings (Tarjan's). */
interface Frame {
  readonly schema: Keys
  readonly steps: ReadonlyArray<Keys>
  next: number
  readonly number: number
  low: number
  count: number | undefined
}
