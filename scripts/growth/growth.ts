/**
 * Measures how processor time and memory grow with what strangers write, for each entry that they reach:
 * `npm run growth -- --only redaction --scale 4`. Exits with 1 if something grows faster than the size.
 */
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { exponent, factors, measure } from "../../test/support/growth/Growth.ts"
import { rows } from "../../test/support/growth/rows.ts"
import { flags } from "../flags.ts"

/** What takes less is not judged: milliseconds, and megabytes. */
const floor = { millis: 300, megabytes: 300 }

const most = 1.3

/** `scale`: how many times the sizes of the short form. `row`: the one that this process measures. */
const { only, row, scale } = flags({ only: "", row: "", scale: 4 })

const megabytes = (): number => process.resourceUsage().maxRSS / 1_024

/** Measures a row in a process of its own: what it takes at most is then that of the row. */
const one = async (name: string): Promise<void> => {
  const found = rows.find((it) => it.name === name)!
  await measure(found, 1)
  const before = megabytes()
  const measured = []
  for (const factor of factors) {
    const now = await measure(found, scale * factor, 2)
    measured.push({ ...now, megabytes: megabytes() - before })
    // the rest would take minutes
    if (now.millis > 20_000) break
  }
  const [first, last] = [measured[0]!, measured.at(-1)!]
  const time = exponent(first, last)
  const memory = exponent({ ...first, millis: first.megabytes }, { ...last, millis: last.megabytes })
  const isTooMuch = (last.millis > floor.millis && time > most) || (last.megabytes > floor.megabytes && memory > most)
  const seconds = (last.millis / 1_000).toFixed(2)
  console.log(
    `${isTooMuch ? "FAILS" : "holds"} ${String(last.size).padStart(9)} ${seconds.padStart(7)} s ^${time.toFixed(2)} ` +
      `${last.megabytes.toFixed(0).padStart(5)} MB ^${memory.toFixed(2)}  ${name}`
  )
  if (isTooMuch) process.exitCode = 1
}

if (row !== "") await one(row)
else {
  const chosen = rows.filter(({ name }) => name.includes(only))
  const failed = chosen.filter(({ name }) => {
    const options = [...process.execArgv, fileURLToPath(import.meta.url), "--row", name, "--scale", String(scale)]
    return spawnSync(process.execPath, options, { stdio: "inherit" }).status !== 0
  })
  console.log(`${chosen.length} rows, ${failed.length} grow faster than ^${most}`)
  if (failed.length > 0) process.exitCode = 1
}
