/**
 * Our reader of JSON Schema next to ajv and effect's own, by the official
 * JSON-Schema-Test-Suite, which is not part of this repository:
 * `npm run try -- bench:json-schema PATH`, where PATH holds `tests/draft2020-12` and
 * its siblings, as far as they are there. Nothing here fails: it is for reading.
 *
 * "passed" counts tests whose answer is right. A schema that is refused is in
 * "refused": with ours those are references to other documents, which nobody is
 * given, metaschemas included. Of the required tests of drafts 7 and 2020-12 ours
 * gives no wrong answer.
 *
 * What hostile schemas take is at the end.
 */
import { Ajv } from "ajv"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { compile } from "../../src/internal/json-schema/validator.ts"
import { fixed, median } from "./measure.ts"

type Json = JsonSchema.JsonSchema | boolean
type Accepts = (value: unknown) => boolean

interface Draft {
  readonly folder: string
  readonly uri: string
  readonly document: (schema: JsonSchema.JsonSchema) => JsonSchema.Document<"draft-2020-12">
}

interface Candidate {
  readonly name: string
  /** Throws for a schema that it refuses. */
  readonly compile: (schema: Json, draft: Draft) => Accepts
}

const older = (folder: string, uri: string): Draft => ({
  folder,
  uri: `http://json-schema.org/${uri}/schema#`,
  document: JsonSchema.fromSchemaDraft07
})

const drafts: ReadonlyArray<Draft> = [
  older("draft6", "draft-06"),
  older("draft7", "draft-07"),
  {
    folder: "draft2019-09",
    uri: "https://json-schema.org/draft/2019-09/schema",
    document: JsonSchema.fromSchemaDraft2020_12
  },
  {
    folder: "draft2020-12",
    uri: "https://json-schema.org/draft/2020-12/schema",
    document: JsonSchema.fromSchemaDraft2020_12
  }
]

const draft2020 = drafts.at(-1)!

const candidates: ReadonlyArray<Candidate> = [
  {
    name: "ours",
    compile: (schema, { uri }) => {
      const whole = typeof schema === "boolean" ? schema : { $schema: uri, ...schema }
      const validate = Result.getOrThrowWith(compile(whole as JsonSchema.JsonSchema), (problem) => new Error(problem))
      return (value) => validate(value).length === 0
    }
  },
  {
    name: "ajv",
    compile: (schema, { folder }) => {
      const options = { allErrors: true, strict: false, validateFormats: false, logger: false } as const
      const ajv = folder === "draft2020-12" ? new Ajv2020(options) : new Ajv(options)
      const validate = ajv.compile(schema)
      return (value) => validate(value) === true
    }
  },
  {
    name: "effect",
    compile: (schema, { document }) => {
      const codec = SchemaRepresentation.fromJsonSchemaDocument(
        document(typeof schema === "boolean" ? (schema ? {} : { not: {} }) : schema),
        { patterns: "apply" }
      )
      const decode = Schema.decodeUnknownResult(codec as Schema.Codec<unknown>, { errors: "all" })
      return (value) => Result.isSuccess(decode(value))
    }
  }
]

interface Group {
  readonly schema: Json
  readonly tests: ReadonlyArray<{ readonly data: unknown; readonly valid: boolean }>
}

const groupsIn = (folder: string): ReadonlyArray<Group> =>
  (existsSync(folder) ? readdirSync(folder) : [])
    .filter((file) => file.endsWith(".json"))
    .flatMap((file) => JSON.parse(readFileSync(`${folder}/${file}`, "utf8")) as ReadonlyArray<Group>)

const correctness = (candidate: Candidate, draft: Draft, groups: ReadonlyArray<Group>) => {
  const counts = { passed: 0, "wrongly accepted": 0, "wrongly rejected": 0, refused: 0, crashed: 0 }
  for (const { schema, tests } of groups) {
    const accepts = Result.try(() => candidate.compile(schema, draft))
    if (Result.isFailure(accepts)) {
      counts.refused += tests.length
      continue
    }
    for (const { data, valid } of tests) {
      const answer = Result.try(() => accepts.success(data))
      if (Result.isFailure(answer)) counts.crashed++
      else if (answer.success === valid) counts.passed++
      else counts[valid ? "wrongly rejected" : "wrongly accepted"]++
    }
  }
  const total = groups.reduce((sum, { tests }) => sum + tests.length, 0)
  return { ...counts, passed: `${counts.passed} / ${total}` }
}

const microseconds = (run: () => void): number => {
  const start = process.hrtime.bigint()
  run()
  return Number(process.hrtime.bigint() - start) / 1000
}

const tool = {
  type: "object",
  properties: {
    owner: { type: "string", minLength: 1 },
    labels: { type: "array", items: { type: "string" }, maxItems: 20 },
    state: { enum: ["open", "closed", "all"] },
    page: { type: "integer", minimum: 1 },
    sort: { anyOf: [{ const: "created" }, { $ref: "#/$defs/Sort" }, { type: "null" }] }
  },
  required: ["owner"],
  additionalProperties: false,
  $defs: {
    Sort: { type: "object", properties: { by: { type: "string" }, down: { type: "boolean" } }, required: ["by"] }
  }
}

const call = { owner: "effect", labels: ["bug", "help"], state: "open", page: 2, sort: { by: "updated", down: true } }

/** Schemas and values that want a validator to work for long. */
const hostile: ReadonlyArray<readonly [what: string, schema: JsonSchema.JsonSchema, value: unknown]> = [
  ["pattern that goes back", { pattern: "^(a+)+$" }, `${"a".repeat(26)}!`],
  [
    "24 schemas, each twice the next",
    {
      $ref: "#/$defs/s0",
      $defs: {
        ...Object.fromEntries(Array.from({ length: 23 }, (_, i) => {
          const next = { $ref: `#/$defs/s${i + 1}` }
          return [`s${i}`, { allOf: [next, next] }]
        })),
        s23: { required: ["a"] }
      }
    },
    { a: 1 }
  ],
  ["5,000 properties", {
    properties: Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`p${i}`, { type: "string", minLength: 1 }]))
  }, { p1: "a" }],
  ["5,000 unique objects", { uniqueItems: true }, Array.from({ length: 5_000 }, (_, a) => ({ a }))],
  ["1,000 schemas over 1,000 wrong items", {
    items: { allOf: Array.from({ length: 1_000 }, () => ({ type: "string" })) }
  }, Array.from({ length: 1_000 }, () => 1)]
]

const path = process.argv[2]
if (path === undefined || !existsSync(`${path}/tests/draft2020-12`)) {
  console.error(
    "usage: npm run try -- bench:json-schema PATH, a folder with tests/draft2020-12 of the JSON-Schema-Test-Suite"
  )
  process.exitCode = 1
} else {
  const rows: Record<string, object> = {}
  for (const draft of drafts) {
    for (const part of ["", "/optional"]) {
      const groups = groupsIn(`${path}/tests/${draft.folder}${part}`)
      if (groups.length === 0) continue
      for (const candidate of candidates) {
        rows[`${draft.folder}${part} ${candidate.name}`] = correctness(candidate, draft, groups)
      }
    }
  }
  console.table(rows)

  const compiled = candidates.map((candidate) => candidate.compile(tool, draft2020))
  const compileTimes = candidates.map((): Array<number> => [])
  const callTimes = candidates.map((): Array<number> => [])
  for (let round = -50; round < 200; round++) {
    for (const [index, candidate] of candidates.entries()) {
      const compileTime = microseconds(() => candidate.compile(tool, draft2020))
      const callTime = microseconds(() => {
        for (let i = 0; i < 100; i++) compiled[index]!(call)
      }) / 100
      if (round < 0) continue
      compileTimes[index]!.push(compileTime)
      callTimes[index]!.push(callTime)
    }
  }
  console.table(Object.fromEntries(candidates.map(({ name }, index) => [name, {
    "compile us": fixed(median(compileTimes[index]!)),
    "validate us": fixed(median(callTimes[index]!))
  }])))

  console.table(Object.fromEntries(hostile.map(([what, schema, value]) => [
    what,
    Object.fromEntries(candidates.map((candidate) => {
      let answer: Result.Result<boolean, unknown> | undefined
      const time = microseconds(() => {
        answer = Result.try(() => candidate.compile(schema, draft2020)(value))
      })
      return [`${candidate.name} ms`, `${Math.round(time / 1000)}${answer?._tag === "Failure" ? " (refused)" : ""}`]
    }))
  ])))
}
