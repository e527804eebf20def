/** Which files of a workspace commands cannot read, by their names. Pure. */
import { matches } from "../../internal/wildcard.ts"

/** Files that hold secrets, by their names. */
const secrets: ReadonlyArray<string> = [
  ".env",
  ".env.*",
  "*.pem",
  "*.key",
  "*.p12",
  "*.pfx",
  "*.jks",
  "*.keystore",
  "id_rsa",
  "id_dsa",
  "id_ecdsa",
  "id_ed25519",
  ".netrc",
  ".pypirc",
  ".pgpass",
  ".git-credentials",
  "credentials.json",
  "service-account*.json"
]

/** What stands for a file with secrets in a repository. */
const examples: ReadonlyArray<string> = [".env.example", ".env.sample", ".env.template"]

/** Tells whether a path, relative to the workspace, is among the patterns: its name, or all of it. In any case. */
export const of = (patterns: ReadonlyArray<string> | undefined): (path: string) => boolean => {
  const wanted = (patterns ?? secrets).map((it) => it.toLowerCase())
  return (path) => {
    const whole = path.toLowerCase()
    const name = whole.slice(whole.lastIndexOf("/") + 1)
    return wanted.some((it) => matches(it, name) || matches(it, whole)) &&
      !(patterns === undefined && examples.includes(name))
  }
}
