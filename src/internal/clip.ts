/** Text of others inside sentences of ours: a model must not be sent megabytes of it back. */

/** Cuts a text that is too long. */
export const clip = (text: string, length: number): string => text.length > length ? `${text.slice(0, length)}…` : text
