/**
 * Where the value of an argument comes from. A value has the strongest origin that can be proved for it.
 */

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

/** Tells whether an origin is as strong as another. */
export const atLeast = (origin: Origin, least: Origin): boolean => origins.indexOf(origin) >= origins.indexOf(least)
