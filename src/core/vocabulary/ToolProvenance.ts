/** What the author of a tool or a host declares, so that the values of its calls can be traced. */

/** From weakest to strongest. */
export const origins = ["untrusted", "model", "listed", "named", "user"] as const

/**
 * The origin of a value:
 *
 * - `untrusted`: found only in text that strangers may have written.
 * - `model`: found nowhere, so the model made it.
 * - `listed`: a whole field of a trusted output.
 * - `named`: `listed`, and the user's words select its record.
 * - `user`: in the user's words.
 */
export type Origin = (typeof origins)[number]

/**
 * What a parameter is for:
 *
 * - `target`: who or where, such as an address, a URL, a person, a channel or an amount.
 * - `object:kind`: an existing thing, such as `object:file`.
 * - `content`: free text. Its links, addresses and numbers have to be proved.
 * - `detail`: dates, flags and the like. Never asked about.
 *
 * Default: `content` for texts, `detail` for other values.
 */
export type Role = "target" | `target:${string}` | "object" | `object:${string}` | "content" | "detail"

/**
 * How far a field of an output can be trusted. The test: can a stranger make a value appear here?
 *
 * - `own`: no. `own:kind` is an id that proves only parameters of that kind.
 * - `label`: yes, but it may select a record, such as a title, a subject or a sender. It is no source of values.
 * - `peer`: text by a member the host vouches for. A link in it may be fetched exactly as written.
 * - `foreign`: yes. The default.
 */
export type Trust = "own" | `own:${string}` | "label" | "peer" | "foreign"

/** The role of a parameter, with the least origin that its values need. */
export interface RoleWith {
  readonly role: Role
  /** Default: `listed` for targets of a write, `named` for objects and for targets of an egress. */
  readonly least?: Exclude<Origin, "untrusted"> | undefined
}

/**
 * What a host declares about a tool.
 *
 * Paths have dots: `items.id`. Arrays need no mark (`items[*].id` is the same), `*` is any key, and `shared.{keys}` are
 * the keys of a map, where they are data. The longest path that fits decides. The empty path is the whole value.
 */
export interface Declared {
  /** `egress` is a read whose arguments leave the system, such as a fetch or a search on a public site. */
  readonly effect: "read" | "write" | "egress"
  /** Roles of the parameters by path. */
  readonly parameters?: { readonly [path: string]: Role | RoleWith } | undefined
  /** Trust of the whole output, or by path. Default: `foreign`. */
  readonly output?: Trust | { readonly [path: string]: Trust } | undefined
}
