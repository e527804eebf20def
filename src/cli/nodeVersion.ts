/**
 * The Node that the commands need. What imports this file is loaded by older ones, too: nothing here or there may be
 * newer than they are.
 */

/** The oldest Node that has all that is used, as `engines` of the package says. */
export const oldest = "22.19"

/** Whether a version, such as `20.20.2`, is older. */
export const isTooOld = (version: string): boolean => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  const [least = 0, lesser = 0] = oldest.split(".").map(Number)
  return major < least || (major === least && minor < lesser)
}
