/**
 * The usual names of secrets, told by the words of a name: `dbPassword`, `X-Api-Key` and `refresh_token` are,
 * `max_tokens` and `password_policy` are not.
 */

import { remembered } from "../remembered.ts"

/** A name with one of these words in it. */
const words: ReadonlySet<string> = new Set(
  `password passwords passwd pwd passphrase passcode passkey secret secrets token authorization bearer jwt cookie
  cookies credential credentials creds csrf xsrf otp totp cvv cvc mnemonic apikey apikeys apitoken accesskey
  accesstoken authkey authtoken clientsecret connectionstring idtoken pgpassword privatekey refreshtoken secretkey sessionid
  sessionkey sessiontoken signingkey sshpass`.split(/\s+/)
)

const followedBy = (last: string, first: ReadonlyArray<string>): ReadonlyArray<string> =>
  first.map((it) => `${it} ${last}`)

/** A name with these words in it, one behind the other. */
const pairs: ReadonlySet<string> = new Set([
  ...followedBy("key", ["access", "account", "api", "auth", "encryption", "master", "private", "secret"]),
  ...followedBy("key", ["service", "session", "shared", "signing", "ssh"]),
  ...followedBy("keys", ["access", "api", "private", "secret", "signing", "ssh"]),
  ...followedBy("tokens", ["access", "api", "auth", "bearer", "refresh", "session"]),
  ...followedBy("code", ["backup", "recovery", "verification"]),
  ...followedBy("codes", ["backup", "recovery", "verification"]),
  ...followedBy("phrase", ["recovery", "seed"]),
  ...followedBy("auth", ["basic", "proxy"]),
  "connection string",
  "session id"
])

/** A name that ends so is about a secret, and does not hold it. */
const about: ReadonlySet<string> = new Set(
  "at budget count endpoint expires expiry length limit name policy type uri url usage".split(" ")
)

/** Places in a list, not keys to anything. */
const cursors: ReadonlySet<string> = new Set(["continuation", "next", "page", "sync"])

/** Where a shell is: no password. */
const directories: ReadonlySet<string> = new Set(["PWD", "OLDPWD"])

/** Longer ones are texts, not names. */
const longest = 200

/** Tells whether a field of that name usually holds a secret. */
export const isSecretName = (name: string): boolean =>
  name.length <= longest && !directories.has(name) && isSecret(name)

/** The fields of a program's data have few names, which come with every value. */
const isSecret = remembered((name): boolean => {
  const parts = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((it) => it !== "")
  const last = parts.at(-1)
  if (last === undefined || (parts.length > 1 && about.has(last))) return false
  return parts.some((word, index) => {
    const before = parts[index - 1]
    if (word === "token" && before !== undefined && cursors.has(before)) return false
    return words.has(word) || (before !== undefined && pairs.has(`${before} ${word}`))
  })
}, 10_000)
