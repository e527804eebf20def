/**
 * Redacts secrets in texts: known ones in any form, and those that a text itself reveals, such as the password of a URL
 * or the value after `API_KEY=`.
 */

import { searchFor } from "./search.ts"

/** Stands where a secret was. */
export const mark = "[redacted]"

/** Takes known secrets out of a text, also where they are escaped, or cut off. */
export const without = (text: string, secrets: ReadonlyArray<string>): string => {
  if (secrets.length === 0 || text === "") return text
  const hide = hider(secrets)
  return hide === undefined ? mark : hide(text)
}

/**
 * Gives a function that takes some secrets out of texts; `undefined` if they are too many or too long to be searched
 * for. What may have one of them is then redacted as a whole.
 */
export const hider = (secrets: ReadonlyArray<string>): ((text: string) => string) | undefined => {
  if (hiders.has(secrets)) return hiders.get(secrets)
  const forms = secrets.length > mostSecrets ? [] : secrets.flatMap(formsOf)
  const isWithin = secrets.length <= mostSecrets && forms.reduce((sum, it) => sum + it.length, 0) <= mostCharacters
  const made = isWithin ? hiderOf(forms) : undefined
  hiders.set(secrets, made)
  return made
}

/** Made once for a list: values have many texts, and calls many values. */
const hiders = new WeakMap<ReadonlyArray<string>, ((text: string) => string) | undefined>()

/** So many secrets are searched for at once. */
const mostSecrets = 10_000

/** The characters of all their forms. */
const mostCharacters = 1_000_000

const hiderOf = (forms: ReadonlyArray<string>): (text: string) => string => {
  const words = new Set(forms.filter((it) => it.length < shortest))
  const search = searchFor(forms.filter((it) => it.length >= shortest), telling)
  return (text) => {
    const left = withoutPlaces(text, search(text))
    return words.size === 0 ? left : withoutWords(left, words)
  }
}

/** A mark stands for secrets that overlap. */
const withoutPlaces = (text: string, until: Uint32Array | undefined): string => {
  if (until === undefined) return text
  let left = ""
  let from = 0
  for (let at = 0; at < text.length; at++) {
    let end = until[at]!
    if (end === 0) continue
    left += text.slice(from, at) + mark
    for (at++; at < end; at++) end = Math.max(end, until[at]!)
    from = at--
  }
  return left + text.slice(from)
}

/** Redacts short secrets where they stand as separate words. */
const withoutWords = (text: string, words: ReadonlySet<string>): string => {
  let left = ""
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (isWord(characterBefore(text, at))) continue
    for (let length = Math.min(shortest - 1, text.length - at); length > 0; length--) {
      if (!words.has(text.slice(at, at + length)) || isWord(text.codePointAt(at + length))) continue
      left += text.slice(from, at) + mark
      from = at + length
      at = from - 1
      break
    }
  }
  return left + text.slice(from)
}

const characterBefore = (text: string, at: number): number | undefined => {
  const before = at > 1 ? text.codePointAt(at - 2)! : 0
  return before > 0xFFFF ? before : at > 0 ? text.charCodeAt(at - 1) : undefined
}

const isWord = (code: number | undefined): boolean =>
  code !== undefined && (code < 128 ? /[A-Za-z0-9]/ : /[\p{L}\p{N}]/u).test(String.fromCodePoint(code))

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

/** A secret as texts have it. */
const formsOf = (secret: string): ReadonlyArray<string> => {
  const json = JSON.stringify(secret).slice(1, -1)
  // in a diff, each line has a separate mark
  const lines = secret.includes("\n") ? secret.split(/\r?\n/).map((it) => it.trim()).filter((it) => it.length > 7) : []
  // of cookies and parameters, each value
  const values = Array.from(secret.matchAll(/=([^\s=;&]{8,})/g), ([, value]) => value!)
  const bare = secret.replace(scheme, "")
  const forms = [secret, bare, json, JSON.stringify(json).slice(1, -1), uriForm(secret), ...lines, ...values]
  return Array.from(new Set(forms)).filter((it) => it !== "")
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

const withoutShapes = (text: string, take: Take): string => {
  let left = text
  if (left.includes("://")) {
    // the user stays, the password goes
    left = left.replace(
      /(?<![a-z0-9])([a-z][a-z0-9+.-]{0,30}:\/\/[^\s/?#:@"'`]{0,200}:)([^\s/?#"'`]{1,500})@/gi,
      (_, before: string, password: string) => `${before}${take(password, true)}@`
    )
  }
  if (left.includes("PRIVATE KEY-----")) left = withoutKeys(left, take)
  return left
    .replace(
      /\b((?:basic|bearer)\s{1,4})([\w.~+/=-]{16,})/gi,
      (_, before: string, secret: string) => before + take(secret, true)
    )
    .replace(token, (secret) => take(secret, true))
}

/** Redacts private keys, also one that was cut off. */
const withoutKeys = (text: string, take: Take): string => {
  const begin = /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----/g
  const end = /-----END [A-Z ]{0,30}PRIVATE KEY-----/g
  let left = ""
  let from = 0
  /** Where the next key ends that begins here or later. */
  let [last, until] = [-1, -1]
  for (let match = begin.exec(text); match !== null; match = begin.exec(text)) {
    const inside = begin.lastIndex
    if (last < inside) {
      end.lastIndex = inside
      const found = end.exec(text)
      ;[last, until] = found === null ? [text.length, text.length] : [found.index, end.lastIndex]
    }
    if (last - inside > longestKey) {
      // the next one may begin with the last dashes of this
      begin.lastIndex = inside - dashes
      continue
    }
    left += text.slice(from, match.index) + take(text.slice(match.index, until), true)
    from = begin.lastIndex = until
  }
  return left + text.slice(from)
}

const longestKey = 20_000

const dashes = 5

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
    if (isPlaceholder(text, start)) return undefined
    let end = text.indexOf(open, start)
    // an escaped quote is part of the value
    while (end > start && text[end - 1] === "\\" && open.length === 1) end = text.indexOf(open, end + 1)
    // a text that was cut ends inside
    if (end === -1) end = Math.min(text.length, start + longest)
    return end === start ? undefined : { start, end }
  }
  if (isPlaceholder(text, at)) return undefined
  const bare = isHeader ? line : word
  bare.lastIndex = at
  const [value = ""] = bare.exec(text) ?? []
  if (value === "") return undefined
  // `token: string` is a type, `token=abc` is a token
  if (!isHeader && !isTight && !(value.length >= shortest && /[^A-Za-z_$.]/.test(value))) return undefined
  return { start: at, end: at + value.length }
}

const longest = 8_000

const quote = /\\{0,8}["'`]/y

const line = /[^\r\n"'`]{1,8000}/y

const word = /[^\s,;&"'`<>(){}[\]\\]{1,8000}/y

/** A variable, a place to fill in, or the mark of what somebody has taken out. */
const standsForOne = /(?:[$<{%]|\*{3}|\[redacted|\[removed)/iy

const isPlaceholder = (text: string, at: number): boolean => {
  standsForOne.lastIndex = at
  return standsForOne.test(text)
}
