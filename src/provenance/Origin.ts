/** How strong the origins of values are. */
import { type Origin, origins } from "../core/vocabulary/ToolProvenance.ts"

export type { Origin } from "../core/vocabulary/ToolProvenance.ts"

/** Tells whether an origin is as strong as another. */
export const atLeast = (origin: Origin, least: Origin): boolean => origins.indexOf(origin) >= origins.indexOf(least)
