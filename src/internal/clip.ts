/** Shortens texts of others inside our sentences: a model must not get megabytes of it back. */

/** Cuts a text that is too long. */
export const clip = (text: string, length: number): string => text.length > length ? `${text.slice(0, length)}…` : text
