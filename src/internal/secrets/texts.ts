/**
 * Redacts secrets in texts: known ones in any form, and those that a text itself reveals, such as the password of a URL
 * or the value after `API_KEY=`.
 */

/** Stands where a secret was. */
export const mark = "[redacted]"

/** Takes known secrets out of a text, also where they are escaped, or cut off. */
export const without = (text: string, secrets: ReadonlyArray<string>): string => {
  if (secrets.length === 0 || text === "") return text
  const forms = new Set(secrets.flatMap(formsOf))
  let left = text
  // a secret may be part of another one
  for (const form of Array.from(forms).sort((one, other) => other.length - one.length)) {
    if (form.length < shortest) left = left.replace(alone(form), mark)
    else if (left.includes(form)) left = left.replaceAll(form, mark)
    if (form.length >= 2 * telling) left = withoutEnds(left, form)
  }
  return left
}

/** Takes out of a text what it tells to be secret: behind names, and, if wanted, what has a usual shape. */
export const found = (
  text: string,
  isName: (name: string) => boolean,
  wantsShapes: boolean
): { readonly text: string; readonly secrets: ReadonlyArray<string> } => {
  if (text.length < shortest) return { text, secrets: [] }
  const secrets: Array<string> = []
  const take = (secret: string, isSure: boolean) => {
    // a plain word may mean anything elsewhere
    if (secret.length >= shortest && (isSure || /[^A-Za-z]/.test(secret))) secrets.push(secret)
    return mark
  }
  const left = withoutFields(text, isName, take)
  return { text: wantsShapes ? withoutShapes(left, take) : left, secrets }
}

/** Shorter secrets are redacted only as separate words: their letters are everywhere. */
const shortest = 4

/** So many characters of a secret twice as long give it away. */
const telling = 12

type Take = (secret: string, isSure: boolean) => string

const alone = (text: string): RegExp => new RegExp(`(?<![\\p{L}\\p{N}])${escaped(text)}(?![\\p{L}\\p{N}])`, "gu")

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")

/** A secret as texts have it. */
const formsOf = (secret: string): ReadonlyArray<string> => {
  const json = JSON.stringify(secret).slice(1, -1)
  // in a diff, each line has a separate mark
  const lines = secret.includes("\n") ? secret.split(/\r?\n/).map((it) => it.trim()).filter((it) => it.length > 7) : []
  // of cookies and parameters, each value
  const values = Array.from(secret.matchAll(/=([^\s=;&]{8,})/g), ([, value]) => value!)
  const bare = secret.replace(scheme, "")
  return [secret, bare, json, JSON.stringify(json).slice(1, -1), uriForm(secret), ...lines, ...values]
    .filter((it) => it !== "")
}

/** What stands before the secret of an `Authorization` header. */
const scheme = /^(?:basic|bearer|token)\s+/i

const uriForm = (text: string): string => {
  try {
    return encodeURIComponent(text)
  } catch {
    // half a surrogate pair
    return text
  }
}

/** Redacts the first or last part of a secret that remains where a text was cut. */
const withoutEnds = (text: string, secret: string): string => {
  const [head, tail] = [secret.slice(0, telling), secret.slice(-telling)]
  let left = text
  for (let at = left.indexOf(head); at !== -1; at = left.indexOf(head, at + mark.length)) {
    let length = telling
    while (length < secret.length && left[at + length] === secret[length]) length++
    left = left.slice(0, at) + mark + left.slice(at + length)
  }
  for (let at = left.indexOf(tail); at !== -1;) {
    const end = at + telling
    let length = telling
    while (length < secret.length && left[end - length - 1] === secret.at(-length - 1)) length++
    left = left.slice(0, end - length) + mark + left.slice(end)
    at = left.indexOf(tail, end - length + mark.length)
  }
  return left
}

const withoutShapes = (text: string, take: Take): string => {
  let left = text
  if (left.includes("://")) {
    // the user stays, the password goes
    left = left.replace(
      /(?<![a-z0-9])([a-z][a-z0-9+.-]{0,30}:\/\/[^\s/?#:@"'`]{0,200}:)([^\s/?#"'`]{1,500})@/gi,
      (_, before: string, password: string) => `${before}${take(password, true)}@`
    )
  }
  if (left.includes("PRIVATE KEY-----")) {
    left = left.replace(
      /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,20000}?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g,
      (key) => take(key, true)
    )
  }
  return left
    .replace(
      /\b((?:basic|bearer)\s{1,4})([\w.~+/=-]{16,})/gi,
      (_, before: string, secret: string) => before + take(secret, true)
    )
    .replace(token, (secret) => take(secret, true))
}

/**
 * Tokens that tell by their first letters what they are: of GitHub, GitLab, npm, OpenAI, Anthropic, Stripe, Slack, AWS,
 * Google, Hugging Face; those of this server and of its page; and JSON Web Tokens.
 */
const token = new RegExp(
  [
    "gh[pousr]_[A-Za-z0-9]{30,255}",
    "github_pat_\\w{30,255}",
    "glpat-[\\w-]{20,255}",
    "npm_[A-Za-z0-9]{30,255}",
    "sk-(?=[\\w-]{0,255}\\d)[\\w-]{20,255}",
    "[prs]k_(?:live|test)_[A-Za-z0-9]{16,255}",
    "xox[abeprs]-[A-Za-z0-9-]{10,255}",
    "A(?:KIA|SIA)[0-9A-Z]{16}",
    "AIza[\\w-]{35}",
    "hf_[A-Za-z0-9]{30,255}",
    "texs?_[A-Za-z0-9]{30,255}",
    "eyJ[\\w-]{8,2000}\\.eyJ[\\w-]{8,8000}\\.[\\w-]{8,2000}"
  ].map((it) => `(?<![\\w-])${it}(?![\\w-])`).join("|"),
  "g"
)

/** A name with what parts it from its value: `"token": `, `API_KEY=`, `--password `. */
const field = /(?<![\w.-])(-{0,2})([A-Za-z_][\w.-]{0,99})((?:\\{0,8}["'`]\]?)?\s{0,4}(?:=>|[:=])\s{0,4}|\s{1,4})/g

const withoutFields = (text: string, isName: (name: string) => boolean, take: Take): string => {
  let left = ""
  let from = 0
  field.lastIndex = 0
  for (let match = field.exec(text); match !== null; match = field.exec(text)) {
    const [whole, flag, name, between] = match as unknown as [string, string, string, string]
    if ((flag === "" && between.trim() === "") || !isName(name)) continue
    const isTight = flag !== "" || between === "="
    // `Secrets.ts:10:5` is a place
    if (between === ":" && !/["'`\\]/.test(text[match.index + whole.length] ?? "") && !header.test(name)) continue
    const value = valueAt(text, match.index + whole.length, { isHeader: header.test(name), isTight })
    if (value === undefined) continue
    left += text.slice(from, value.start) + take(text.slice(value.start, value.end), isTight)
    from = field.lastIndex = value.end
  }
  return from === 0 ? text : left + text.slice(from)
}

const header = /^(?:proxy-)?authorization$|^(?:set-)?cookie$/i

/** Position of the value after a name; `undefined` if it is missing or a placeholder. */
const valueAt = (
  text: string,
  at: number,
  { isHeader, isTight }: { readonly isHeader: boolean; readonly isTight: boolean }
): { readonly start: number; readonly end: number } | undefined => {
  quote.lastIndex = at
  const [open] = quote.exec(text) ?? []
  if (open !== undefined) {
    const start = at + open.length
    let end = text.indexOf(open, start)
    // an escaped quote is part of the value
    while (end > start && text[end - 1] === "\\" && open.length === 1) end = text.indexOf(open, end + 1)
    // a text that was cut ends inside
    if (end === -1) end = Math.min(text.length, start + longest)
    return end === start || standsForOne.test(text.slice(start, end)) ? undefined : { start, end }
  }
  const bare = isHeader ? line : word
  bare.lastIndex = at
  const [value = ""] = bare.exec(text) ?? []
  if (value === "" || standsForOne.test(value)) return undefined
  // `token: string` is a type, `token=abc` is a token
  if (!isHeader && !isTight && !(value.length >= shortest && /[^A-Za-z_$.]/.test(value))) return undefined
  return { start: at, end: at + value.length }
}

const longest = 8_000

const quote = /\\{0,8}["'`]/y

const line = /[^\r\n"'`]{1,8000}/y

const word = /[^\s,;&"'`<>(){}[\]\\]{1,8000}/y

/** A variable, a place to fill in, or the mark of what somebody has taken out. */
const standsForOne = /^(?:[$<{%]|\*{3}|\[redacted|\[removed)/i
