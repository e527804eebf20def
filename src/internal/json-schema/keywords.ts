/** What the keywords of JSON Schema say, in the order in which they are looked at. */
import { canonicalJson } from "../canonicalJson.ts"
import { clip } from "../clip.ts"
import type { Check, Failure, Keyword, Keywords, Path, Run, Sink } from "./check.ts"
import type { Reference } from "./document.ts"
import { linearPattern, nativePattern } from "./linearPattern.ts"
import { knownIn, literals, noneOf, notAllowed, orElse, shown } from "./messages.ts"
import { isMultiple } from "./numbers.ts"
import { isKeys, type Keys } from "./positions.ts"

/** What a failure costs to tell. */
const failureSteps = 20

const fail = (
  run: Run,
  at: Path | undefined,
  sink: Sink,
  message: () => string,
  expected?: ReadonlyArray<string>
): false => {
  if (sink !== undefined) {
    run.spend(failureSteps)
    run.tell(sink, [{ at, message: message(), expected }])
  }
  return false
}

const under = (at: Path | undefined, key: string | number, sink: Sink): Path | undefined =>
  sink === undefined ? undefined : { above: at, key }

/** The names in an object, charged by their number because they are listed each time. */
const namesIn = (value: Keys, run: Run): ReadonlyArray<string> => {
  const names = Object.keys(value)
  run.spend(names.length << 1)
  return names
}

/** A keyword about values of one kind, which tells what is wrong with them. */
const about =
  <A, S>(is: (value: unknown) => value is A, make: (said: S) => (value: A, run: Run) => string | undefined): Keyword =>
  (said) => {
    const problem = make(said as S)
    return (value, run, at, sink) => {
      if (!is(value)) return true
      const found = problem(value, run)
      return found === undefined || fail(run, at, sink, () => `${found}, got ${shown(value)}`)
    }
  }

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value)
/** Also the one that JSON writes as 1e999. */
const isAnyNumber = (value: unknown): value is number => typeof value === "number"
const isString = (value: unknown): value is string => typeof value === "string"
const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const isOf = (type: string, value: unknown): boolean => {
  switch (type) {
    case "object":
      return isKeys(value)
    case "array":
      return isList(value)
    case "integer":
      return Number.isInteger(value)
    case "number":
      return isNumber(value)
    case "null":
      return value === null
    default:
      return typeof value === type
  }
}

const type: Keyword = (said, { nullable }) => {
  const types = [said as string | ReadonlyArray<string>, ...nullable === true ? ["null"] : []].flat()
  return (value, run, at, sink) =>
    types.some((it) => isOf(it, value)) || fail(run, at, sink, () => orElse(types, value), types)
}

/** One text for equal values, paid for by its length. */
const textOf = (value: unknown, run: Run): string => {
  const text = canonicalJson(value)
  run.spend(10 + (text.length >> 2))
  return text
}

const oneOfValues = (values: ReadonlyArray<unknown>): Check => {
  const isObject = (value: unknown) => typeof value === "object" && value !== null
  const plain = new Set(values.filter((it) => !isObject(it)))
  const objects = values.filter(isObject)
  let texts: ReadonlySet<string> | undefined
  let expected: ReadonlyArray<string> | undefined
  return (value, run, at, sink) => {
    if (plain.has(value)) return true
    if (objects.length > 0 && isObject(value)) {
      texts ??= new Set(objects.map((it) => textOf(it, run)))
      if (texts.has(textOf(value, run))) return true
    }
    if (sink === undefined) return false
    const listed = expected ??= literals(values)
    return fail(run, at, sink, () => orElse(listed, value), listed)
  }
}

const reference = (key: Reference["key"]): Keyword => (_, schema, { document, nodeOf }) => {
  const found = document.references.get(schema)?.find((it) => it.key === key)
  if (found === undefined) return undefined
  const { dynamic, target } = found
  const node = nodeOf(target)
  if (dynamic === undefined) return node.applyOnce
  const named = document.named(dynamic)
  return (value, run, at, sink, seen) => {
    run.spend(run.way.length)
    const outermost = run.way.find((resource) => named.has(resource))
    const actual = outermost === undefined ? node : nodeOf(named.get(outermost))
    return actual.apply(value, run, at, sink, seen)
  }
}

const not: Keyword = (said, schema, { document, nodeOf }) => {
  const node = nodeOf(said)
  const place = document.schemas.get(schema)
  return (value, run, at, sink) =>
    !node.apply(value, run, undefined, undefined, undefined) ||
    fail(run, at, sink, () =>
      place === undefined
        ? `must be left out, got ${shown(value)}`
        : `must not fit ${clip(`#${place.pointer}/not`, 200)} of the schema, got ${shown(value)}`)
}

const alternatives = (most: number): Keyword => (said, _, { document, nodeOf }) => {
  const nodes = (said as ReadonlyArray<unknown>).map(nodeOf)
  return (value, run, at, sink, seen) => {
    const fitting: Array<number> = []
    const inside: Array<ReadonlyArray<Failure>> = []
    for (const [index, node] of nodes.entries()) {
      const failures: Sink = sink === undefined ? undefined : []
      if (node.apply(value, run, at, failures, seen)) fitting.push(index)
      else if (failures !== undefined) inside.push(failures)
      // what else fits matters only to what is left over
      if (fitting.length > most || (most === Infinity && fitting.length > 0 && !document.hasUnevaluated)) break
    }
    if (fitting.length > 0 && fitting.length <= most) return true
    if (sink === undefined) return false
    if (fitting.length === 0) {
      run.tell(sink, noneOf(at, value, inside))
      return false
    }
    const numbers = fitting.map((index) => index + 1).join(" and ")
    return fail(run, at, sink, () => `must fit exactly one of ${nodes.length} alternatives, fits ${numbers}`)
  }
}

const all: Keyword = (said, _, { nodeOf }) => {
  const nodes = (said as ReadonlyArray<unknown>).map(nodeOf)
  return (value, run, at, sink, seen) => {
    let fits = true
    for (const node of nodes) {
      if (node.apply(value, run, at, sink, seen)) continue
      fits = false
      if (sink === undefined) break
    }
    return fits
  }
}

const condition: Keyword = (said, schema, { nodeOf }) => {
  const [test, then, otherwise] = [said, schema.then ?? true, schema.else ?? true].map(nodeOf)
  return (value, run, at, sink, seen) =>
    (test!.apply(value, run, undefined, undefined, seen) ? then! : otherwise!).apply(value, run, at, sink, seen)
}

const multipleOf = about(
  isAnyNumber,
  (of: number) => (value) => isMultiple(value, of) ? undefined : `must be multiple of ${of}`
)

/** Counts characters, not the halves that some are made of. */
const lengthOf = (text: string, run: Run): number => {
  run.spend(text.length >> 5)
  let length = 0
  for (let at = 0; at < text.length; at++) {
    if ((text.codePointAt(at) ?? 0) > 0xffff) at++
    length++
  }
  return length
}

/** A pattern that is made when the first text comes. */
const matcher = (source: string): (text: string, run: Run) => boolean => {
  let test: ((text: string, run: Run) => boolean) | undefined
  return (text, run) => {
    if (test === undefined) {
      const linear = linearPattern(source)
      const native = linear === undefined ? nativePattern(source) : undefined
      if (run.isForeign) run.spend(100 + 10 * (linear?.size ?? 0))
      test = (it, { isForeign, spend }) => {
        // a pattern costs its size for each character; the author of an own schema knows that
        if (!isForeign) spend(it.length)
        return linear?.test(it, isForeign ? spend : undefined) ?? native!.test(it)
      }
    }
    return test(text, run)
  }
}

const pattern = about(isString, (source: string) => {
  const matches = matcher(source)
  return (text, run) => matches(text, run) ? undefined : `must match the pattern ${shown(source)}`
})

/** The first items by a list of schemas, the others by one. */
const items: Keyword = (_, schema, { dialect, nodeOf }) => {
  const { additionalItems, items, prefixItems } = schema
  const [list, rest] = dialect.prefixItems
    ? [prefixItems, items]
    : isList(items)
    ? [items, additionalItems]
    : [undefined, items]
  const first = isList(list) ? list.map(nodeOf) : []
  const others = rest === undefined ? undefined : nodeOf(rest)
  return (value, run, at, sink, seen) => {
    if (!isList(value)) return true
    let fits = true
    if (rest === false && value.length > first.length) {
      fits = fail(run, at, sink, () => `must NOT have more than ${first.length} items, got an array`)
      if (sink === undefined) return false
    }
    const end = others === undefined || !fits ? Math.min(first.length, value.length) : value.length
    for (let index = 0; index < end; index++) {
      const node = first[index] ?? others!
      if (node.apply(value[index], run, under(at, index, sink), sink, undefined)) continue
      fits = false
      if (sink === undefined) return false
    }
    if (seen !== undefined) seen.items = Math.max(seen.items, end)
    return fits
  }
}

const contains: Keyword = (said, { maxContains, minContains }, { dialect, nodeOf }) => {
  const node = nodeOf(said)
  const least = dialect.isModern && isNumber(minContains) ? minContains : 1
  const most = dialect.isModern && isNumber(maxContains) ? maxContains : Infinity
  return (value, run, at, sink, seen) => {
    if (!isList(value)) return true
    let found = 0
    for (const [index, item] of value.entries()) {
      if (!node.apply(item, run, undefined, undefined, undefined)) continue
      found++
      if (dialect.prefixItems) seen?.indexes.add(index)
    }
    if (found >= least && found <= most) return true
    const bound = most === Infinity ? "" : ` and no more than ${most}`
    return fail(run, at, sink, () => `must contain at least ${least}${bound} valid item(s), got an array`)
  }
}

const uniqueItems: Keyword = (said) => {
  if (said !== true) return undefined
  return (value, run, at, sink) => {
    if (!isList(value)) return true
    const plain = new Map<unknown, number>()
    const objects = new Map<string, number>()
    for (const [index, item] of value.entries()) {
      run.spend(1)
      const isObject = typeof item === "object" && item !== null
      const [known, key] = isObject ? [objects, textOf(item, run)] : [plain, item]
      const same = known.get(key as string)
      if (same !== undefined) {
        const message = `must NOT have duplicate items (items ## ${same} and ${index} are identical), got an array`
        return fail(run, at, sink, () => message)
      }
      known.set(key as string, index)
    }
    return true
  }
}

/** The names that are required, always or together with another name. */
const names = (missing: (name: string) => string, list: ReadonlyArray<string>): Check => (value, run, at, sink) => {
  if (!isKeys(value)) return true
  let fits = true
  for (const name of list) {
    run.spend(1)
    if (Object.hasOwn(value, name)) continue
    fits = fail(run, at, sink, () => `the required property ${shown(name)} is missing${missing(name)}`)
    if (sink === undefined) break
  }
  return fits
}

/** What holds only for objects that have some property. */
const dependent: Keyword = (said, _, { nodeOf }) => {
  const checks = Object.entries(said as Keys).map(([name, it]) =>
    [
      name,
      isList(it) ? names(() => `: it is required with ${shown(name)}`, it as ReadonlyArray<string>) : nodeOf(it).apply
    ] as const
  )
  return (value, run, at, sink, seen) =>
    !isKeys(value) || each(checks, sink, ([name, check]) => {
      run.spend(1)
      return !Object.hasOwn(value, name) || check(value, run, at, sink, seen)
    })
}

/** Whether all fit; without anybody to tell, until one does not. */
const each = <A>(list: Iterable<A>, sink: Sink, check: (it: A) => boolean): boolean => {
  let fits = true
  for (const it of list) {
    if (check(it)) continue
    fits = false
    if (sink === undefined) break
  }
  return fits
}

const propertyNames: Keyword = (said, _, { nodeOf }) => {
  const node = nodeOf(said)
  return (value, run, at, sink) =>
    !isKeys(value) || each(namesIn(value, run), sink, (name) => {
      const failures: Sink = sink === undefined ? undefined : []
      if (node.apply(name, run, undefined, failures, undefined)) return true
      for (const { message } of failures ?? []) {
        fail(run, at, sink, () => `the property name ${shown(name)} ${message}`)
      }
      return false
    })
}

/** A property that no other keyword is about. */
const leftOver = (said: unknown, schema: Keys, nodeOf: (schema: unknown) => { readonly apply: Check }): (
  value: Keys,
  name: string,
  run: Run,
  at: Path | undefined,
  sink: Sink
) => boolean => {
  const node = nodeOf(said)
  let known: string | undefined
  return (value, name, run, at, sink) =>
    said === false
      ? fail(run, at, sink, () => notAllowed(name, known ??= knownIn(schema.properties)))
      : node.apply(value[name], run, under(at, name, sink), sink, undefined)
}

const additionalProperties: Keyword = (said, schema, { nodeOf }) => {
  const properties = isKeys(schema.properties) ? schema.properties : {}
  const patterns = Object.keys(isKeys(schema.patternProperties) ? schema.patternProperties : {}).map(matcher)
  const check = leftOver(said, schema, nodeOf)
  return (value, run, at, sink, seen) =>
    !isKeys(value) || each(namesIn(value, run), sink, (name) => {
      run.spend(1)
      if (Object.hasOwn(properties, name) || patterns.some((it) => it(name, run))) return true
      seen?.properties.add(name)
      return check(value, name, run, at, sink)
    })
}

const properties: Keyword = (said, _, { nodeOf }) => {
  const nodes = new Map(Object.entries(said as Keys).map(([name, it]) => [name, nodeOf(it)] as const))
  return (value, run, at, sink, seen) => {
    if (!isKeys(value)) return true
    const own = namesIn(value, run)
    // report in the order of the schema
    return each(sink === undefined && own.length < nodes.size ? own : nodes.keys(), sink, (name) => {
      run.spend(1)
      const node = nodes.get(name)
      if (node === undefined || !Object.hasOwn(value, name)) return true
      seen?.properties.add(name)
      return node.apply(value[name], run, under(at, name, sink), sink, undefined)
    })
  }
}

const patternProperties: Keyword = (said, _, { nodeOf }) => {
  const nodes = Object.entries(said as Keys).map(([source, it]) => [matcher(source), nodeOf(it)] as const)
  return (value, run, at, sink, seen) =>
    !isKeys(value) || each(namesIn(value, run), sink, (name) =>
      each(nodes, sink, ([matches, node]) => {
        run.spend(1)
        if (!matches(name, run)) return true
        seen?.properties.add(name)
        return node.apply(value[name], run, under(at, name, sink), sink, undefined)
      }))
}

const unevaluatedItems: Keyword = (said, _, { nodeOf }) => {
  const node = nodeOf(said)
  return (value, run, at, sink, seen) => {
    if (!isList(value) || seen === undefined) return true
    const first = seen.items
    seen.items = value.length
    run.spend(value.length >> 3)
    return each(value.slice(first).keys(), sink, (offset) => {
      const index = first + offset
      run.spend(1)
      return seen.indexes.has(index) || node.apply(value[index], run, under(at, index, sink), sink, undefined)
    })
  }
}

const unevaluatedProperties: Keyword = (said, schema, { nodeOf }) => {
  const check = leftOver(said, schema, nodeOf)
  return (value, run, at, sink, seen) =>
    !isKeys(value) || seen === undefined || each(namesIn(value, run), sink, (name) => {
      run.spend(1)
      if (seen.properties.has(name)) return true
      seen.properties.add(name)
      return check(value, name, run, at, sink)
    })
}

const modern = (keyword: Keyword): Keyword => (said, schema, maker) =>
  maker.dialect.isModern ? keyword(said, schema, maker) : undefined

/** A keyword that another keyword evaluates together with itself. */
const beside = (name: string, keyword: Keyword): Keyword => (said, schema, maker) =>
  Object.hasOwn(schema, name) ? undefined : keyword(said, schema, maker)

const sized = <A>(
  is: (value: unknown) => value is A,
  sizeOf: (value: A, run: Run) => number,
  of: string,
  most: boolean
) =>
  about(is, (bound: number) => (value, run) => {
    const size = sizeOf(value, run)
    if (most ? size <= bound : size >= bound) return undefined
    return `must NOT have ${most ? "more" : "fewer"} than ${bound} ${of}`
  })

const itemsIn = (value: ReadonlyArray<unknown>) => value.length
const propertiesIn = (value: Keys, run: Run) => namesIn(value, run).length

/** All keywords that say something about a value. */
export const keywords: Keywords = [
  ["type", type],
  ["$ref", reference("$ref")],
  ["$dynamicRef", modern(reference("$dynamicRef"))],
  ["$recursiveRef", modern(reference("$recursiveRef"))],
  ["enum", (said) => oneOfValues(said as ReadonlyArray<unknown>)],
  ["const", (said) => oneOfValues([said])],
  ["not", not],
  ["anyOf", alternatives(Infinity)],
  ["oneOf", alternatives(1)],
  ["allOf", all],
  ["if", condition],
  ["maximum", about(isAnyNumber, (bound: number) => (value) => value <= bound ? undefined : `must be <= ${bound}`)],
  ["minimum", about(isAnyNumber, (bound: number) => (value) => value >= bound ? undefined : `must be >= ${bound}`)],
  [
    "exclusiveMaximum",
    about(isAnyNumber, (bound: number) => (value) => value < bound ? undefined : `must be < ${bound}`)
  ],
  [
    "exclusiveMinimum",
    about(isAnyNumber, (bound: number) => (value) => value > bound ? undefined : `must be > ${bound}`)
  ],
  ["multipleOf", multipleOf],
  ["maxLength", sized(isString, lengthOf, "characters", true)],
  ["minLength", sized(isString, lengthOf, "characters", false)],
  ["pattern", pattern],
  ["maxItems", sized(isList, itemsIn, "items", true)],
  ["minItems", sized(isList, itemsIn, "items", false)],
  ["uniqueItems", uniqueItems],
  ["prefixItems", beside("items", items)],
  ["items", items],
  ["contains", contains],
  ["maxProperties", sized(isKeys, propertiesIn, "properties", true)],
  ["minProperties", sized(isKeys, propertiesIn, "properties", false)],
  ["required", (said) => names(() => "", said as ReadonlyArray<string>)],
  ["dependentRequired", modern(dependent)],
  ["dependentSchemas", modern(dependent)],
  ["dependencies", dependent],
  ["propertyNames", propertyNames],
  ["additionalProperties", additionalProperties],
  ["properties", properties],
  ["patternProperties", patternProperties],
  ["unevaluatedItems", modern(unevaluatedItems)],
  ["unevaluatedProperties", modern(unevaluatedProperties)]
]
