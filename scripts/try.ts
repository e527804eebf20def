// Lists and runs the trials that take minutes, need real time or kill processes.
//
//     npm run try                              lists them
//     npm run try -- crash --kills 5           runs one; what follows its name are its own options
//
// Each trial exits with 1 if a promise is broken.
import { spawn } from "node:child_process"
import { trials } from "./trials.ts"

const [name = "", ...given] = process.argv.slice(2)
const chosen = trials.get(name)

if (chosen === undefined) {
  const width = Math.max(...Array.from(trials.keys(), (it) => it.length))
  const lines = Array.from(trials, ([trial, { about }]) => `  ${trial.padEnd(width)}  ${about}`)
  const text = ["Usage: npm run try -- NAME [options]", "", ...lines].join("\n")
  if (name === "") console.log(text)
  else {
    console.error(`There is no trial "${name}".\n\n${text}`)
    process.exitCode = 1
  }
} else {
  const { file, options = [] } = chosen
  const node = ["--expose-gc", "--import", "./scripts/source-resolver.ts"]
  const child = spawn(process.execPath, [...node, file, ...options, ...given], {
    cwd: new URL("..", import.meta.url),
    stdio: "inherit"
  })
  // Ctrl-C reaches the trial too, which ends what it has started
  process.on("SIGINT", () => {})
  process.on("SIGTERM", () => child.kill("SIGTERM"))
  child.on("exit", (code) => {
    process.exitCode = code ?? 1
  })
}
