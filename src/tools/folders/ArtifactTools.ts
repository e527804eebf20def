/**
 * Tools that read on in large outputs: `read_artifact` and `search_artifact`.
 *
 * An output over the limit goes to the artifact store, and the model is shown its beginning and an id. These tools read
 * only what belongs to the same request, are bounded themselves, and never become artifacts.
 *
 * **Example** (Beside one's own tools)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { Toolkit } from "effect/ai"
 * import { LocalExecutor } from "effect-tool-executor"
 * import { ArtifactTools } from "effect-tool-executor/tools"
 *
 * const kit = Toolkit.make()
 *
 * export const executor = LocalExecutor.layer([kit, ArtifactTools.toolkit]).pipe(Layer.provide(ArtifactTools.layer))
 * ```
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as ToolContext from "../../core/contract/ToolContext.ts"
import type { ArtifactError } from "../../core/output/ArtifactStore.ts"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"

/** Characters that are read at most: with what stands around them they fit into what a model is shown. */
const maxLength = 8_000

/** Matches that are shown at most, and the characters around each. */
const maxMatches = 20
const around = 80

/** Characters that a search reads in one step. */
const window = 1_000_000

const Failure = Schema.Struct({
  error: Schema.Literals(["NotFound", "Expired", "Unreadable"]),
  /** What was wrong, and what would be right. */
  message: Schema.String
})

const id = Schema.NonEmptyString.annotate({ description: "Id of the artifact, as given in the output that was cut" })

/** The tool `read_artifact`. */
export const read = Tool.make("read_artifact", {
  description: `Reads part of an output that was too large to show: at most ${maxLength} characters from an offset.`,
  parameters: Schema.Struct({
    id,
    offset: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
        description: "First character to read, from 0; default 0"
      })
    ),
    length: Schema.optionalKey(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxLength })).annotate({
        description: `Characters to read, at most ${maxLength}; default 4000`
      })
    )
  }),
  /** A line that says which part it is, and the part. */
  success: Schema.String,
  failure: Failure
})

/** The tool `search_artifact`. */
export const search = Tool.make("search_artifact", {
  description:
    `Finds a text in an output that was too large to show, ignoring case. Returns the first ${maxMatches} matches with ` +
    "the text around them. To read more at an offset, use read_artifact.",
  parameters: Schema.Struct({
    id,
    query: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)).annotate({
      description: "The text to find, taken literally; not a pattern"
    })
  }),
  success: Schema.Struct({
    matches: Schema.Array(Schema.Struct({ offset: Schema.Int, text: Schema.String })),
    /** There are more. */
    isCut: Schema.Boolean
  }),
  failure: Failure
})

/** Both tools. */
export const toolkit = Toolkit.make(bounded(read), bounded(search))

/** Layer with the handlers of both tools. */
export const layer: Layer.Layer<Tool.HandlersFor<typeof toolkit.tools>> = toolkit.toLayer({
  read_artifact: ({ id, length = 4_000, offset = 0 }) =>
    Effect.map(part(id, offset, length), ({ chars, text }) => {
      const end = offset + text.length
      const more = end < chars ? `; continue with offset ${end}` : ", the end"
      return `[characters ${offset} to ${end} of ${chars}${more}]\n${text}`
    }),
  search_artifact: Effect.fnUntraced(function*({ id, query }) {
    const wanted = query.toLowerCase()
    const matches: Array<{ readonly offset: number; readonly text: string }> = []
    for (let offset = 0, chars = 1; offset < chars; offset += window) {
      // a match may begin in one window and end in the next
      const read = yield* part(id, offset, window + query.length + around)
      chars = read.chars
      const text = read.text.toLowerCase()
      for (let at = text.indexOf(wanted); at !== -1 && at < window; at = text.indexOf(wanted, at + wanted.length)) {
        if (matches.length === maxMatches) return { matches, isCut: true }
        matches.push({
          offset: offset + at,
          text: read.text.slice(Math.max(0, at - around), at + query.length + around)
        })
      }
    }
    return { matches, isCut: false }
  })
})

function bounded<T extends Tool.Any & { readonly annotate: Tool.Any["annotate"] }>(tool: T): T {
  return tool
    .annotate(Tool.Readonly, true)
    .annotate(Tool.Destructive, false)
    .annotate(Tool.Idempotent, true)
    .annotate(Tool.OpenWorld, false)
    .annotate(ToolAnnotations.Closed, true)
    .annotate(ToolAnnotations.Bounded, true)
    .annotate(ToolAnnotations.Rules, [{ _tag: "NeverDedupe" }]) as unknown as T
}

const part = (id: string, offset: number, length: number) =>
  Effect.flatMap(
    ToolContext.ToolContext,
    (context) => Effect.mapError(context.readArtifact(id, { offset, length }), failureOf)
  )

const failureOf = ({ message, reason }: ArtifactError): typeof Failure.Type => ({
  error: reason === "NotFound" || reason === "Expired" ? reason : "Unreadable",
  message: reason === "NotFound" ? `${message}. Use an id from an output of this request.` : `${message}.`
})
