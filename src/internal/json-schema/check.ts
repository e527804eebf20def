/**
 * Checks values against the schemas of a document, and counts and limits the steps. Only size makes a check slow: a
 * schema and a value that meet repeatedly are checked once.
 */
import type { Dialect } from "./dialects.ts"
import type { Document } from "./document.ts"
import { isKeys, type Keys } from "./positions.ts"
import { stepsFor } from "./stepBudget.ts"

/** One thing that is wrong with a value. */
export interface Failure {
  readonly at: Path | undefined
  readonly message: string
  /** What the value should have been, where it is something else altogether. */
  readonly expected?: ReadonlyArray<string> | undefined
}

/** The way to a part of a value; `undefined` is the whole. */
export interface Path {
  readonly above: Path | undefined
  readonly key: string | number
}

/** Where failures go; without one, the first failure is enough. */
export type Sink = Array<Failure> | undefined

/** Tells whether a value fits what one keyword says. */
export type Check = (value: unknown, run: Run, at: Path | undefined, sink: Sink, seen: Seen | undefined) => boolean

/** What was looked at of a value, for what is to be left over. */
export interface Seen {
  readonly properties: Set<string>
  readonly indexes: Set<number>
  items: number
}

/** What the check of a keyword is made with. */
export interface Maker {
  readonly document: Document
  readonly dialect: Dialect
  readonly nodeOf: (schema: unknown) => Node
}

/** Makes the check of a keyword from what it says, and the schema it stands in. */
export type Keyword = (said: unknown, schema: Keys, maker: Maker) => Check | undefined

/** All keywords, in the order in which they are looked at. */
export type Keywords = ReadonlyArray<readonly [name: string, make: Keyword]>

/** Checks one value. */
export class Run {
  readonly document: Document
  /** Whether somebody else wrote the schema: then the step limit does not grow with the value. */
  readonly isForeign: boolean
  private readonly value: unknown
  /** The steps that it may take. */
  limit = maxSteps
  private isWeighed: boolean
  /** Where what is wrong with the whole value goes. */
  private asked: Sink
  private left = maxSteps
  private depth = 0
  /** The resources on the way, for names that mean the outermost. */
  readonly way: Array<string> = []
  private readonly known = new Map<unknown, Map<Node, ReadonlyArray<Failure>>>()

  constructor(document: Document, value: unknown, isForeign: boolean) {
    this.document = document
    this.value = value
    this.isForeign = isForeign
    this.isWeighed = isForeign
  }

  readonly spend = (steps: number): void => {
    if ((this.left -= steps) < 0) this.weigh()
  }

  /** What is large may take long: only now is it worth to find out how large it is. */
  private weigh(): void {
    if (!this.isWeighed) {
      this.isWeighed = true
      const more = stepsFor(this.document, this.value)
      this.limit += more
      this.left += more
    }
    if (this.left < 0) throw new TooMuch(this.limit)
  }

  /** Looks once more, to tell what is wrong. What was found out about values stays known. */
  again(sink: Array<Failure>): void {
    this.asked = sink
    this.left = this.limit
    this.depth = 0
    this.way.length = 0
  }

  enter(): void {
    this.spend(1)
    if (++this.depth > maxDepth) throw new RangeError("too deep")
  }

  leave(): void {
    this.depth--
  }

  /** Whether a value fits a schema, if known; reports its known failures again. */
  recall(node: Node, value: unknown, sink: Sink): boolean | undefined {
    const known = this.known.get(value)?.get(node)
    if (known === undefined || known === fitting) return known && true
    if (sink !== undefined && known.length === 0) return undefined
    if (sink !== undefined) this.tell(sink, known)
    return false
  }

  /** Reports failures, up to the limit. */
  tell(sink: Array<Failure>, failures: ReadonlyArray<Failure>): void {
    sink.push(...failures)
    if (sink === this.asked && sink.length >= maxFailures) throw new Enough()
  }

  note(node: Node, value: unknown, failures: ReadonlyArray<Failure>): void {
    // to keep this costs more than it saves while there was little to do
    if (typeof value !== "object" || value === null || this.left > this.limit - 1_000) return
    const known = this.known.get(value) ?? new Map<Node, ReadonlyArray<Failure>>()
    this.known.set(value, known.set(node, failures))
  }
}

/** Notes for values that fit, and for those that do not while failures are not collected. */
const fitting: ReadonlyArray<Failure> = []
const unfit: ReadonlyArray<Failure> = []

/** Maximum number of reported failures of one schema. */
export const maxFailures = 10

/** So many steps may a check take, whatever the value: about a tenth of a second. */
const maxSteps = 500_000

/** So deep may schemas be in each other while a value is checked. */
const maxDepth = 2_000

/** The maximum number of failures is reached. */
class Enough extends Error {}

/** A check that would take too many steps. */
export class TooMuch extends Error {
  readonly steps: number

  constructor(steps: number) {
    super()
    this.steps = steps
  }
}

/** A schema that is ready to check. */
export class Node {
  private readonly schema: unknown
  private readonly maker: Maker
  private readonly keywords: Keywords
  private readonly resource: string | undefined
  private readonly keepsSeen: boolean
  private checks: ReadonlyArray<Check> | undefined

  constructor(schema: unknown, maker: Maker, keywords: Keywords) {
    this.schema = schema
    this.maker = maker
    this.keywords = keywords
    this.resource = maker.document.dynamic.length > 0 ? maker.document.schemas.get(schema as Keys)?.resource : undefined
    this.keepsSeen = maker.document.hasUnevaluated
  }

  /** Tells whether a value fits; if so, reports the evaluated parts to the caller. */
  readonly apply: Check = (value, run, at, sink, outer) => {
    run.enter()
    const isFar = this.resource !== undefined && this.resource !== run.way.at(-1)
    if (isFar) run.way.push(this.resource)
    const seen: Seen | undefined = this.keepsSeen ? { properties: new Set(), indexes: new Set(), items: 0 } : undefined
    let fits = true
    for (const check of this.checks ??= this.make()) {
      if (check(value, run, at, sink, seen)) continue
      fits = false
      if (sink === undefined) break
    }
    if (fits && seen !== undefined && outer !== undefined) {
      run.spend(seen.properties.size + seen.indexes.size)
      for (const it of seen.properties) outer.properties.add(it)
      for (const it of seen.indexes) outer.indexes.add(it)
      outer.items = Math.max(outer.items, seen.items)
    }
    if (isFar) run.way.pop()
    run.leave()
    return fits
  }

  /** The same by way of a reference, where values and schemas may meet again and again. */
  readonly applyOnce: Check = (value, run, at, sink, seen) => {
    if (this.keepsSeen || this.resource !== undefined) return this.apply(value, run, at, sink, seen)
    const known = run.recall(this, value, sink)
    if (known !== undefined) return known
    const from = sink?.length ?? 0
    const fits = this.apply(value, run, at, sink, seen)
    run.note(this, value, fits ? fitting : sink?.slice(from, from + maxFailures) ?? unfit)
    return fits
  }

  private make(): ReadonlyArray<Check> {
    const { maker, schema } = this
    const said = schema === false ? { not: {} } : schema
    if (!isKeys(said)) return []
    const alone = maker.dialect.refAlone && Object.hasOwn(said, "$ref")
    return this.keywords.flatMap(([key, make]) => {
      if (!Object.hasOwn(said, key) || (alone && key !== "$ref")) return []
      const check = make(said[key], said, maker)
      return check === undefined ? [] : [check]
    })
  }
}

/** Makes a schema ready to check, and those in it once they are needed. */
export const nodesOf = (document: Document, dialect: Dialect, keywords: Keywords): (schema: unknown) => Node => {
  const nodes = new Map<unknown, Node>()
  const nodeOf = (schema: unknown): Node => {
    const known = nodes.get(schema)
    if (known !== undefined) return known
    const node = new Node(schema, maker, keywords)
    nodes.set(schema, node)
    return node
  }
  const maker: Maker = { document, dialect, nodeOf }
  return nodeOf
}
