/** Durations in words, such as `15 minutes`. Pure, and used in browsers. */

const units = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000, week: 604_800_000 }

/** Milliseconds of a duration from one second to 365 days; `undefined` if the text is none. */
export const millisOf = (text: string): number | undefined => {
  const [, number, unit] = /^(\d{1,9}(?:\.\d{1,3})?) ?(second|minute|hour|day|week)s?$/.exec(text) ?? []
  if (number === undefined || unit === undefined) return undefined
  const millis = Number(number) * units[unit as keyof typeof units]
  return millis >= 1_000 && millis <= 365 * units.day ? millis : undefined
}
