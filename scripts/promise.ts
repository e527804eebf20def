// Lists the tests of a promise of docs/contract.md.
//
//     npm run promise -- ST5              the tests of one promise
//     npm run promise -- "ST5 or J4"      of several
//     npm test -- --tags-filter ST5       runs them
import { spawnSync } from "node:child_process"
import { promises, root, sources, tagged } from "./promises.ts"

const wanted = process.argv.slice(2).join(" ")
const numbers = promises.filter((it) => wanted.split(/\W+/).includes(it))

if (numbers.length === 0) {
  console.error(`Usage: npm run promise -- NUMBER, one of docs/contract.md: ${promises.join(" ")}`)
  process.exitCode = 1
} else {
  const files = tagged.filter(([, tags]) => tags.some((it) => numbers.includes(it))).map(([file]) => file)
  // scenarios and checks of suites have their tags where they are run
  const isRun = files.some((it) => it.includes("/support/"))
  const runners = isRun ? sources.filter(([, text]) => /support\/(?:contract|promises)\.ts"/.test(text)) : []
  const vitest = [
    "node_modules/vitest/vitest.mjs",
    "list",
    "--config",
    "test/vitest.config.ts",
    "--mode",
    "all",
    "--no-static-parse"
  ]
  const { status } = spawnSync(
    process.execPath,
    [...vitest, "--tags-filter", wanted, ...files, ...runners.map(([file]) => file)],
    { cwd: root, stdio: "inherit" }
  )
  process.exitCode = status ?? 1
}
