/** Reads what a call would write, as a diff for the page of a link. */
import * as Effect from "effect/Effect"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import type { User } from "../api/ApiAccess.ts"
import type { ApprovalRequest, Preview } from "../api/ApiApprovals.ts"
import type { NotFound, Unavailable } from "../api/ApiProblems.ts"
import type { SessionDirectory } from "../sessions/SessionDirectory.ts"
import type { Write } from "./LinkPages.ts"

/** Characters of files that are read, before and after. */
const mostRead = 300_000

/** Characters of the diff. */
const mostShown = 50_000

/** The write of a request; `undefined` if it has no preview. */
export const read = Effect.fnUntraced(function*(
  directory: SessionDirectory["Service"],
  user: User,
  { id, preview }: Pick<ApprovalRequest, "id" | "preview">
): Effect.fn.Return<Write | undefined, NotFound | Unavailable> {
  if (preview === null || preview._tag === "None") return undefined
  if (preview._tag === "Diff") return cut(preview.diff)
  const { files } = preview
  const length = files.reduce((sum, { after, before }) => sum + (after?.length ?? 0) + (before?.length ?? 0), 0)
  const isText = files.every(({ after, before }) => after?.isText !== false && before?.isText !== false)
  if (!isText || length > mostRead) return { text: files.map(sizesOf).join(""), isWhole: false }
  const changes = yield* Effect.forEach(files, ({ after, before, path }, index) =>
    Effect.map(
      Effect.all([
        before === null ? Effect.undefined : textOf(directory, user, { id, index, side: "before" }),
        after === null ? Effect.undefined : textOf(directory, user, { id, index, side: "after" })
      ]),
      ([before, after]): FileChange.FileChange => ({ path, before, after })
    ))
  return cut(FileChange.diff(changes, { maxChars: mostShown }))
})

/** All parts of a text. */
const textOf = (
  directory: SessionDirectory["Service"],
  user: User,
  of: { readonly id: string; readonly index: number; readonly side: "before" | "after" }
): Effect.Effect<string, NotFound | Unavailable> =>
  Effect.gen(function*() {
    let text = ""
    let from: number | undefined = 0
    while (from !== undefined) {
      const part: { readonly text: string; readonly next?: number } = yield* directory.approvalPart(user, {
        ...of,
        from
      })
      text += part.text
      from = part.next
    }
    return text
  })

const cut = (diff: string): Write =>
  diff.length > mostShown
    ? { text: `${diff.slice(0, mostShown)}\n[the rest is not shown]\n`, isWhole: false }
    // lines of files begin with a space, a plus or a minus
    : { text: diff, isWhole: !/^\[(?:\d+ more lines are not shown|.* bytes become .* bytes)\]$/m.test(diff) }

const sizesOf = (
  { after, before, path }: Extract<Preview, { readonly _tag: "Files" }>["files"][number]
): string => `${path}: ${sizeOf(before)} become ${sizeOf(after)}\n`

const sizeOf = (content: { readonly length: number; readonly isText: boolean } | null): string =>
  content === null ? "no file" : `${content.length.toLocaleString("en")} ${content.isText ? "characters" : "bytes"}`
