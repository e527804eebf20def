/** Ends a run with the promises that it left unchecked, since a program that their tests need is missing. */
import { readFileSync } from "node:fs"
import type { Reporter, TestModule, Vitest } from "vitest/node"
import { unchecked } from "./installed.ts"

export class Unchecked implements Reporter {
  private isFiltered = false

  onInit({ config }: Vitest): void {
    this.isFiltered = config.testNamePattern !== undefined || (config.tagsFilter?.length ?? 0) > 0
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    // who chooses tests by name knows that others do not run
    if (this.isFiltered) return
    const skipped = modules.flatMap((module) => {
      const text = readFileSync(module.moduleId, "utf8")
      const needs = Array.from(text.matchAll(/\bisInstalled\("(\w+)"\)/g), ([, program = ""]) => program)
      return needs.length === 0
        ? []
        : Array.from(module.children.allTests("skipped"), ({ tags }) => ({ needs, tags }))
    })
    const text = unchecked(skipped)
    if (text !== undefined) console.log(`\n${text}\n`)
  }
}
