/**
 * Finds secrets in values and texts and replaces them with a mark.
 *
 * A tool declares its secrets by paths, by a function, or by `Schema.Redacted` in its schemas (`marks.ts`). Other
 * secrets are recognised by the name of their field (`names.ts`) or by their shape in a text (`texts.ts`).
 * `redactor.ts` applies all three, and `seen.ts` tells how much they hid. Nothing outside this folder imports another file than this one.
 */
export {
  type Declared,
  type Found,
  mapTexts,
  type Redactor,
  redactor,
  type Sources,
  strayPaths,
  usual
} from "./redactor.ts"
export { type Seen, seen } from "./seen.ts"
export { mark, without } from "./texts.ts"
