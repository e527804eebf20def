/**
 * A form that edits arguments: one field per property of the JSON Schema, with its problems. A value without a fitting
 * field is edited as JSON, and so can be the whole form.
 */
import type { VNode } from "preact"
import { useId, useLayoutEffect, useMemo, useState } from "preact/hooks"
import { escape as plain } from "../../internal/escape.ts"
import { html } from "../html.ts"
import {
  fieldOf,
  initial,
  jsonOf,
  numberOf,
  type Path,
  placeOf,
  pointer,
  removed,
  replaced,
  wordsOf
} from "./fields.ts"
import { type Problem, problemsOf } from "./fits.ts"
import { SafeText } from "./SafeText.ts"
import type { ArgsFormProps, Edited } from "./types.ts"

export type { Edited } from "./types.ts"

/** A form for arguments. */
export const ArgsForm = ({ onChange, schema, value: given }: ArgsFormProps): VNode => {
  const [value, setValue] = useState(given)
  // text that is not a valid value yet, by path
  const [drafts, setDrafts] = useState<ReadonlyMap<string, Draft>>(new Map())
  const isKnown = typeof schema === "object" && schema !== null && fieldOf(schema, given, schema).kind !== "json"
  const [isText, setText] = useState(!isKnown)
  const problems = useMemo(() => problemsOf(schema, value), [schema, value])
  const all = [...drafts.values()].flatMap(({ path, problem }) =>
    problem === undefined ? [] : [{ path: placeOf(path), message: problem }]
  )
    .concat(problems)
  // without delay, so that the old value cannot be approved
  useLayoutEffect(() => {
    onChange(all.length === 0 ? { _tag: "Fits", value } : { _tag: "Wrong", problems: all } satisfies Edited)
  }, [value, drafts, problems])
  const form: Form = {
    root: schema,
    problems,
    draft: (path) => drafts.get(pointer(path)),
    set: (path, next, text) => {
      setValue(replaced(value, path, next))
      setDrafts(without(drafts, path, text === undefined ? undefined : { path, text, problem: undefined }))
    },
    remove: (path) => {
      setValue(removed(value, path))
      setDrafts(without(drafts, path.slice(0, -1), undefined))
    },
    wrong: (path, text, problem) => setDrafts(without(drafts, path, { path, text, problem }))
  }
  return html`<div class="args-form">
    ${
    isKnown && html`<p><button class="btn slim" type="button" aria-pressed=${isText} onClick=${() => {
      setDrafts(new Map())
      setText(!isText)
    }}>Edit as JSON</button></p>`
  }
    ${
    isText
      ? html`<${JsonField} form=${form} path=${[]} value=${value} label="Arguments, as JSON" />`
      : html`<${Part} form=${form} path=${[]} value=${value} schema=${schema} label="" />`
  }
    ${
    all.length > 0 &&
    html`<div class="args-problems" role="status"><p>${
      all.length === 1 ? "Fix this problem:" : `Fix these ${all.length} problems:`
    }</p>
      <ul>${
      all.slice(0, 10).map(({ message, path }) =>
        html`<li key=${path + message}>${
          path !== "" && html`<code><${SafeText} text=${path} /></code>: `
        }<${SafeText} text=${message} /></li>`
      )
    }</ul></div>`
  }
  </div>`
}

interface Draft {
  readonly path: Path
  readonly text: string
  readonly problem: string | undefined
}

interface Form {
  readonly root: unknown
  readonly problems: ReadonlyArray<Problem>
  readonly draft: (path: Path) => Draft | undefined
  /** `text` is what was typed for the value. */
  readonly set: (path: Path, value: unknown, text?: string) => void
  readonly remove: (path: Path) => void
  readonly wrong: (path: Path, text: string, problem: string) => void
}

interface PartProps {
  readonly form: Form
  readonly path: Path
  readonly value: unknown
  readonly schema: unknown
  readonly label: string
}

const without = (
  drafts: ReadonlyMap<string, Draft>,
  path: Path,
  draft: Draft | undefined
): ReadonlyMap<string, Draft> => {
  const at = pointer(path)
  const left = new Map([...drafts].filter(([key]) => key !== at && !key.startsWith(`${at}/`)))
  return draft === undefined ? left : left.set(at, draft)
}

const Part = (props: PartProps): VNode => {
  const { form, label, path, schema, value } = props
  const field = fieldOf(schema, value, form.root)
  switch (field.kind) {
    case "object":
      return html`<${Group} path=${path} label=${label}>
        ${
        field.properties.map(({ isRequired, isThere, name, schema }) =>
          isThere
            ? html`<div class="args-entry" key=${name}>
              <${Part} form=${form} path=${[...path, name]} value=${
              (value as Readonly<Record<string, unknown>>)[name]
            } schema=${schema} label=${name} />
              ${
              !isRequired &&
              html`<${Small} words="Remove" name=${name} onClick=${() => form.remove([...path, name])} />`
            }
            </div>`
            : html`<div class="args-entry" key=${name}><${Small} words="Add" name=${name} onClick=${() =>
              form.set([...path, name], initial(schema, form.root))} /></div>`
        )
      }
      </${Group}>`
    case "list":
      return html`<${Group} path=${path} label=${label}>
        ${
        (value as ReadonlyArray<unknown>).slice(0, maxItems).map((it, at) =>
          html`<div class="args-entry" key=${at}>
            <${Part} form=${form} path=${[...path, at]} value=${it} schema=${field.item} label=${String(at + 1)} />
            <${Small} words="Remove" name=${`${label} ${at + 1}`} onClick=${() => form.remove([...path, at])} />
          </div>`
        )
      }
        ${
        (value as ReadonlyArray<unknown>).length > maxItems &&
        html`<p>${`The first ${maxItems} of ${
          (value as ReadonlyArray<unknown>).length
        } are shown; the others stay as they are.`}</p>`
      }
        <${Small} words="Add an item to" name=${label === "" ? "the list" : label} onClick=${() =>
        form.set(path, [...value as ReadonlyArray<unknown>, initial(field.item, form.root)])} />
      </${Group}>`
    case "json":
      return html`<${JsonField} form=${form} path=${path} value=${value} label=${label} />`
    default:
      return html`<${Single} ...${props} />`
  }
}

/** So many items have fields. */
const maxItems = 100

const Small = (
  { name, onClick, words }: { readonly words: string; readonly name: string; readonly onClick: () => void }
): VNode =>
  html`<button type="button" class="btn quiet slim" onClick=${onClick}>${words} <${SafeText} text=${name} /></button>`

const Group = (
  { children, label, path }: { readonly path: Path; readonly label: string; readonly children?: unknown }
): VNode =>
  path.length === 0
    ? html`<div>${children}</div>`
    : html`<fieldset class="args-group"><legend><${SafeText} text=${label} /></legend>${children}</fieldset>`

const Single = ({ form, label, path, schema, value }: PartProps): VNode => {
  const id = useId()
  const field = fieldOf(schema, value, form.root)
  const draft = form.draft(path)
  const at = placeOf(path)
  const problems = [
    ...draft?.problem === undefined ? [] : [draft.problem],
    ...form.problems.filter((it) => it.path === at).map(({ message }) => message)
  ]
  const { description, title } = wordsOf(schema, form.root)
  const common = { id, "aria-invalid": problems.length > 0, "aria-describedby": `${id}-said` }
  const onText = (event: Event) => form.set(path, (event.currentTarget as HTMLTextAreaElement).value)
  const control = () => {
    switch (field.kind) {
      case "boolean":
        return html`<input ...${common} type="checkbox" checked=${value === true} onChange=${(event: Event) =>
          form.set(path, (event.currentTarget as HTMLInputElement).checked)} />`
      case "number":
        return html`<input class="input" ...${common} inputmode="decimal" autocomplete="off" value=${
          draft?.text ?? String(value)
        } onInput=${(event: Event) => {
          const text = (event.currentTarget as HTMLInputElement).value
          const number = numberOf(text, field.isInteger)
          if (typeof number === "number") form.set(path, number, text)
          else form.wrong(path, text, number)
        }} />`
      case "choice":
        return html`<select class="input" ...${common} value=${
          String(field.options.findIndex((it) => JSON.stringify(it) === JSON.stringify(value)))
        }
          onChange=${(event: Event) =>
          form.set(path, field.options[Number((event.currentTarget as HTMLSelectElement).value)])}>
          ${
          field.options.map((it, index) =>
            html`<option key=${index} value=${String(index)}>${
              plain(typeof it === "string" ? it : JSON.stringify(it))
            }</option>`
          )
        }
        </select>`
      default:
        return html`<textarea ...${common} class="input args-typed" dir="ltr" spellcheck=${false} rows=${
          rowsOf(String(value))
        } value=${String(value)} onInput=${onText}></textarea>`
    }
  }
  return html`<div class="args-field">
    <label for=${id}><${SafeText} text=${label === "" ? "Value" : label} /></label>
    ${control()}
    ${
    field.kind === "text" && typeof value === "string" &&
    plain(value.replaceAll(/[\n\t]/g, "")) !== value.replaceAll(/[\n\t]/g, "") &&
    html`<p class="args-seen">Current text: <${SafeText} text=${value} block /></p>`
  }
    <div id=${`${id}-said`} class="args-said">
      ${title !== undefined && title !== label && html`<span><${SafeText} text=${title} /> </span>`}
      ${description !== undefined && html`<span><${SafeText} text=${description} /></span>`}
      ${problems.map((it) => html`<span key=${it} class="args-problem"><${SafeText} text=${it} /></span>`)}
    </div>
  </div>`
}

const JsonField = ({ form, label, path, value }: Omit<PartProps, "schema">): VNode => {
  const id = useId()
  const draft = form.draft(path)
  const text = draft?.text ?? JSON.stringify(value, undefined, 2) ?? ""
  return html`<div class="args-field">
    <label for=${id}><${SafeText} text=${label === "" ? "Value, as JSON" : label} /></label>
    <textarea id=${id} class="input args-typed" dir="ltr" spellcheck=${false} rows=${
    rowsOf(text)
  } value=${text} aria-invalid=${draft?.problem !== undefined} aria-describedby=${`${id}-said`}
      onInput=${(event: Event) => {
    const typed = (event.currentTarget as HTMLTextAreaElement).value
    const read = jsonOf(typed)
    if ("value" in read) form.set(path, read.value, typed)
    else form.wrong(path, typed, read.problem)
  }}></textarea>
    <div id=${`${id}-said`} class="args-said">${
    draft?.problem !== undefined && html`<span class="args-problem"><${SafeText} text=${draft.problem} /></span>`
  }</div>
  </div>`
}

const rowsOf = (text: string): number =>
  Math.min(20, Math.max(1, text.split("\n", 20).length, Math.ceil(Math.min(text.length, 2_000) / 80)))
