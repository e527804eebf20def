/** Shows what a call would write. Files load in parts; a call cannot be approved before all parts are loaded. */
import type { ComponentChildren, VNode } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import type { Part, Preview as Shown } from "../server/api/ApiApprovals.ts"
import type { Problem, Reply } from "./api.ts"
import { html } from "./html.ts"
import { Diff, DiffText } from "./parts/Diff.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, icon } from "./pieces.ts"
import { count } from "./words.ts"

type Load = (index: number, side: "before" | "after", from: number) => Promise<Reply<typeof Part.Type>>
type File = Extract<Shown, { readonly _tag: "Files" }>["files"][number]

/** Shows the preview and calls `onShown` with the texts that it shows once all of it is loaded. */
export const Preview = (
  { actions, load, onShown, preview, title }: {
    /** What the headline names: the only file is not named again. */
    readonly title: string | undefined
    readonly preview: Shown
    readonly load: Load
    readonly onShown: (texts: ReadonlyArray<string> | undefined) => void
    /** Buttons in the head of the first diff. */
    readonly actions?: ComponentChildren
  }
): VNode => {
  const loaded = useRef(new Map<number, Texts>())
  const files = preview._tag === "Files" ? preview.files.length : 0
  const onFile = useCallback((index: number, texts: Texts) => {
    loaded.current.set(index, texts)
    const all = Array.from(loaded.current.values(), ({ after, before }) => [before ?? "", after ?? ""])
    onShown(all.length === files ? all.flat() : undefined)
  }, [files, onShown])
  const diff = preview._tag === "Diff" ? preview.diff : ""
  // without signs, lines can be found that arguments have
  const onDiff = useCallback(() => onShown([diff.replaceAll(/^[-+ ]/gm, "")]), [diff, onShown])
  const isNothing = preview._tag === "None"
  useEffect(() => {
    if (isNothing) onShown([])
  }, [isNothing, onShown])
  switch (preview._tag) {
    case "None":
      return html`<p class="note">${
        icon("file")
      }<span class="grow">No preview: <${SafeText} text=${preview.because} /></span></p>`
    case "Diff":
      return html`${
        preview.files === undefined ? null : elsewhere()
      }<${DiffText} diff=${preview.diff} onShown=${onDiff} actions=${actions} />`
    case "Files":
      return html`${
        preview.files.map((file, index) =>
          html`<${FileView} key=${index} file=${file} isNamed=${
            files > 1 || file.path !== title
          } index=${index} load=${load} onLoaded=${onFile} actions=${index === 0 ? actions : null} />`
        )
      }`
  }
}

/** Only the process where the call waits has the files. */
const elsewhere = (): VNode =>
  html`<p class="note">${
    icon("file")
  }<span class="grow">This server has only the diff of the files. If the diff is cut, read the arguments.</span></p>`

interface Texts {
  readonly before: string | null
  readonly after: string | null
}

const FileView = (
  { actions, file, index, isNamed, load, onLoaded }: {
    readonly actions: ComponentChildren
    readonly file: File
    readonly index: number
    readonly isNamed: boolean
    readonly load: Load
    readonly onLoaded: (index: number, texts: Texts) => void
  }
): VNode => {
  const isText = [file.before, file.after].every((it) => it === null || it.isText)
  const [texts, setTexts] = useState<Texts | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const [attempt, setAttempt] = useState(0)
  const onShown = useCallback(() => onLoaded(index, texts ?? { before: null, after: null }), [index, onLoaded, texts])
  useEffect(() => {
    if (!isText) return onLoaded(index, { before: null, after: null })
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
  }, [file, index, isText, load, onLoaded, attempt])
  if (!isText) {
    return html`<section class="block"><header><span class="mono grow"><${SafeText} text=${file.path} /></span>${actions}</header>
      <p class="hint">Not a text file: ${said(file.before)} before, ${said(file.after)} after.</p></section>`
  }
  if (problem !== undefined) return html`<${Failure} problem=${problem} onAgain=${() => setAttempt(attempt + 1)} />`
  if (texts === undefined) return html`<p role="status">Loading <${SafeText} text=${file.path} /> …</p>`
  return html`<${Diff} path=${
    isNamed ? file.path : ""
  } before=${texts.before} after=${texts.after} onShown=${onShown} actions=${actions} />`
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
