/**
 * Command lines that mean the same to everybody: words of harmless characters, separated by single spaces, that no
 * shell expands, joins or redirects.
 */

// letters, digits and what no shell gives a meaning inside a word; a `=` may allowed after the first word only, where
// it is not an assignment
const first = /^[A-Za-z0-9_./-][A-Za-z0-9_./:@%+,-]*$/
const later = /^[A-Za-z0-9_./:@%+,=-]+$/

/** Gives the words of a command line that is plain; `undefined` of any other. */
export const plainWords = (line: string): ReadonlyArray<string> | undefined => {
  const words = line.split(" ")
  return words.every((word, index) => (index === 0 ? first : later).test(word)) ? words : undefined
}
