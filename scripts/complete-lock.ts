/**
 * Adds to package-lock.json the optional platform packages that npm left out.
 *
 * npm drops an optional dependency from the lock when the registry in use does
 * not serve it, and `npm ci` of npm 11 then refuses the lock as out of step.
 * The entries carry no checksum: npm skips them on every other platform and
 * looks the checksum up on their own.
 *
 * Run it after every change of the dependencies: `npm run lock:complete`.
 */
import { readFileSync, writeFileSync } from "node:fs"

interface Entry {
  readonly version?: string
  readonly dev?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const systems: Readonly<Record<string, string>> = {
  android: "android",
  darwin: "darwin",
  freebsd: "freebsd",
  linux: "linux",
  openharmony: "openharmony",
  win32: "win32"
}
const processors = ["arm64", "arm", "x64", "ia32", "ppc64", "riscv64", "s390x", "loong64"]

/** Reads the platform from a name such as `@scope/binding-linux-x64-gnu`. */
const platformOf = (name: string) => {
  const words = name.split(/[-/]/)
  const system = words.find((word) => Object.hasOwn(systems, word))
  const processor = words.find((word) => processors.includes(word))
  if (system === undefined || processor === undefined) return undefined
  const last = words.at(-1) ?? ""
  const libc = system !== "linux"
    ? undefined
    : last.startsWith("musl")
    ? "musl"
    : last.startsWith("gnu") || last === "glibc"
    ? "glibc"
    : undefined
  return { os: [system], cpu: [processor], libc: libc === undefined ? undefined : [libc] }
}

const path = new URL("../package-lock.json", import.meta.url)
const lock = JSON.parse(readFileSync(path, "utf8")) as { packages: Record<string, Entry> }
const added: Array<string> = []

for (const owner of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(owner.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`
    if (Object.hasOwn(lock.packages, key)) continue
    const platform = platformOf(name)
    // A range or an unknown name needs the registry: only exact platform packages are safe to write by hand.
    if (platform === undefined || !/^\d+\.\d+\.\d+$/.test(version)) {
      console.error(`left out: ${name}@${version}`)
      continue
    }
    // In npm's own order of keys, so that npm leaves the file as it is.
    lock.packages[key] = {
      version,
      cpu: platform.cpu,
      ...(owner.dev === true ? { dev: true } : {}),
      ...(platform.libc === undefined ? {} : { libc: platform.libc }),
      optional: true,
      os: platform.os
    } as Entry
    added.push(`${name}@${version}`)
  }
}

if (added.length > 0) {
  lock.packages = Object.fromEntries(
    Object.entries(lock.packages).sort(([left], [right]) => left.localeCompare(right, "en"))
  )
  writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
}
console.log(`${added.length} optional packages added to the lock`)
