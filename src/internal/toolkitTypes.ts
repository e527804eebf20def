/** What the compiler knows of toolkits. */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"

/** The tools of one or more toolkits, by name. */
export type ToolsOf<T extends Toolkit.Any> = { readonly [K in NamesIn<T>]: ToolIn<T, K> }

export type Name<Tools> = Extract<keyof Tools, string>

/** Some of their names. */
export type Names<Tools> = readonly [Name<Tools>, ...ReadonlyArray<Name<Tools>>]

/** The arguments of one of them, as JSON. */
export type ArgumentsOf<Tools, N extends keyof Tools> = Tools[N] extends Tool.Any ? Tool.ParametersEncoded<Tools[N]>
  : never

/** The names of the tools of one or more toolkits. */
export type NamesIn<T> = T extends { readonly tools: infer Tools } ? Extract<keyof Tools, string> : never

type ToolIn<T, K> = T extends { readonly tools: infer Tools } ? K extends keyof Tools ? Extract<Tools[K], Tool.Any>
  : never
  : never
