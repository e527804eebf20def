/** Shows what a call would write. Files load in parts; a call cannot be approved before all parts are loaded. */
import type { VNode } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import type { Part, Preview as Shown } from "../server/ApiApprovals.ts"
import type { Problem, Reply } from "./api.ts"
import { html } from "./html.ts"
import { Diff, DiffText } from "./parts/Diff.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure } from "./pieces.ts"
import { count } from "./words.ts"

type Load = (index: number, side: "before" | "after", from: number) => Promise<Reply<typeof Part.Type>>
type File = Extract<Shown, { readonly _tag: "Files" }>["files"][number]

/** Shows the preview and calls `onWhole` once all of it is loaded. */
export const Preview = (
  { load, onWhole, preview }: {
    readonly preview: Shown
    readonly load: Load
    readonly onWhole: (isWhole: boolean) => void
  }
): VNode => {
  const loaded = useRef(new Set<number>())
  const files = preview._tag === "Files" ? preview.files.length : 0
  const onFile = useCallback((index: number) => {
    loaded.current.add(index)
    onWhole(loaded.current.size === files)
  }, [files, onWhole])
  const onDiff = useCallback(() => onWhole(true), [onWhole])
  const isNothing = preview._tag === "None"
  useEffect(() => {
    if (isNothing) onWhole(true)
  }, [isNothing, onWhole])
  switch (preview._tag) {
    case "None":
      return html`<p>No preview: <${SafeText} text=${preview.because} /></p>`
    case "Diff":
      return html`<${DiffText} diff=${preview.diff} onShown=${onDiff} />`
    case "Files":
      return html`${
        preview.files.map((file, index) =>
          html`<${FileView} key=${index} file=${file} index=${index} load=${load} onLoaded=${onFile} />`
        )
      }`
  }
}

interface Texts {
  readonly before: string | null
  readonly after: string | null
}

const FileView = (
  { file, index, load, onLoaded }: {
    readonly file: File
    readonly index: number
    readonly load: Load
    readonly onLoaded: (index: number) => void
  }
): VNode => {
  const isText = [file.before, file.after].every((it) => it === null || it.isText)
  const [texts, setTexts] = useState<Texts | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const [attempt, setAttempt] = useState(0)
  const onShown = useCallback(() => onLoaded(index), [index, onLoaded])
  useEffect(() => {
    if (!isText) return onShown()
    const asked = { isCurrent: true }
    setProblem(undefined)
    const read = (side: "before" | "after") => readAll(file[side], (from) => load(index, side, from))
    void Promise.all([read("before"), read("after")]).then(([before, after]) => {
      if (!asked.isCurrent) return
      if (!before.ok) return setProblem(before.problem)
      if (!after.ok) return setProblem(after.problem)
      setTexts({ before: before.value, after: after.value })
    })
    return () => {
      asked.isCurrent = false
    }
  }, [file, index, isText, load, onShown, attempt])
  if (!isText) {
    return html`<h4><${SafeText} text=${file.path} /></h4><p>Not a text file: ${said(file.before)} before, ${
      said(file.after)
    } after.</p>`
  }
  if (problem !== undefined) return html`<${Failure} problem=${problem} onAgain=${() => setAttempt(attempt + 1)} />`
  if (texts === undefined) return html`<p role="status">Loading <${SafeText} text=${file.path} /> …</p>`
  return html`<${Diff} path=${file.path} before=${texts.before} after=${texts.after} onShown=${onShown} />`
}

const said = (content: File["before"]): string => content === null ? "no file" : count(content.length, "byte")

/** Reads all parts of a file; a missing file has no text. */
const readAll = async (
  content: File["before"],
  load: (from: number) => Promise<Reply<typeof Part.Type>>
): Promise<Reply<string | null>> => {
  if (content === null) return { ok: true, value: null }
  const texts: Array<string> = []
  let from: number | undefined = 0
  while (from !== undefined) {
    const reply: Reply<typeof Part.Type> = await load(from)
    if (!reply.ok) return reply
    texts.push(reply.value.text)
    from = reply.value.next
  }
  return { ok: true, value: texts.join("") }
}
