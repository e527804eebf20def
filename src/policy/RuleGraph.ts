/**
 * A rule set as a picture: the order it enforces, as the text of a Mermaid
 * flowchart. Pure.
 *
 * @since 0.1.0
 */
import type { RuleSet } from "./RuleIndex.ts"

/**
 * Draws the order that a rule set enforces. Solid arrows: needed first. Thick
 * arrows: may come right after. Dotted lines: forbidden after, or only one of
 * them. Limits stand in the boxes.
 *
 * @category formatting
 * @since 0.1.0
 */
export const graph = (self: RuleSet): string => {
  const picture = new Picture(self)
  for (const rule of self.rules) {
    switch (rule._tag) {
      case "StartConstraint":
        picture.edge(start, "==>", rule.mode === "any" ? "one of" : "first", picture.tool(rule.tool))
        picture.edge(picture.tool(rule.tool), "-->", "", picture.tool("*"))
        break
      case "RequiresPrecedingTools":
        for (const tool of rule.tools) picture.edge(picture.tool(tool), "-->", "", picture.tool(rule.tool))
        break
      case "RequiresFollowingTools":
        for (const tool of rule.tools) picture.edge(picture.tool(tool), "-.->", "no more", picture.tool(rule.tool))
        break
      case "ChildTools":
      case "ParentTools":
        for (const child of rule.children) {
          const label = rule._tag === "ChildTools" ? "next" : "next, and only so"
          picture.edge(picture.tool(rule.tool), "==>", label, picture.tool(child))
        }
        break
      case "Conditional": {
        const from = picture.tool(rule.tool)
        const value = rule.path === "" ? "output" : rule.path
        for (const it of rule.cases) {
          picture.edge(from, "==>", `${value} = ${JSON.stringify(it.equals)}`, picture.tool(it.tool))
        }
        if (rule.default !== undefined) picture.edge(from, "==>", "otherwise", picture.tool(rule.default))
        break
      }
      case "ExclusiveGroup":
        rule.tools.slice(1).forEach((tool, index) =>
          picture.edge(picture.tool(rule.tools[index]!), "-.-", "only one", picture.tool(tool))
        )
        break
      case "RequiredBeforeExit":
        for (const tool of rule.when ?? []) picture.edge(picture.tool(tool), "-->", "demands", picture.tool(rule.tool))
        picture.edge(picture.tool(rule.tool), "-->", "required", exit)
        break
      case "ExitLoop":
        picture.edge(picture.tool(rule.tool), "==>", "ends", exit)
        break
      case "AllowedOperations":
        picture.note(rule.tool, `${rule.field}: ${rule.allowed.map((it) => JSON.stringify(it)).join(", ")}`)
        break
      case "MaxCalls":
        picture.note(rule.tool, rule.max === 0 ? "never" : `at most ${rule.max}`)
        break
      case "Cooldown":
        picture.note(rule.tool, `rests ${rule.duration}`)
        break
      case "RequiresConsent":
        picture.note(rule.tool, "asks a person")
        break
      case "Periodic":
        picture.note(rule.tool, `by the host: ${rule.schedule}`)
        break
      case "ContinueLoop":
      case "NeverDedupe":
      case "AlwaysDedupe":
        // neither order nor limit
        break
    }
  }
  return picture.text
}

// Utilities

const start = "start"
const exit = "exit"

class Picture {
  private readonly ids: ReadonlyMap<string, string>
  private readonly notes = new Map<string, Array<string>>()
  private readonly edges = new Set<string>()

  constructor({ tools }: RuleSet) {
    this.ids = new Map([...tools.map((name, index) => [name, `t${index}`] as const), ["*", "any"]])
  }

  /** The id of a tool; `*` is one node for any tool. */
  tool(name: string): string {
    return this.ids.get(name) ?? "any"
  }

  note(name: string, note: string): void {
    const id = this.tool(name)
    this.notes.set(id, [...this.notes.get(id) ?? [], note])
  }

  edge(from: string, arrow: string, label: string, to: string): void {
    this.edges.add(`  ${from} ${arrow}${label === "" ? "" : `|${quoted(label)}|`} ${to}`)
  }

  get text(): string {
    const edges = Array.from(this.edges)
    const used = (id: string) => this.notes.has(id) || edges.some((edge) => edge.split(" ").includes(id))
    const nodes = Array.from(this.ids, ([name, id]) => [id, name === "*" ? "any tool" : name] as const)
      // tools that no rule restrains are no part of the picture
      .filter(([id]) => used(id))
      .map(([id, name]) => `  ${id}[${quoted(name, ...this.notes.get(id) ?? [])}]`)
    return [
      "flowchart TD",
      ...used(start) ? [`  ${start}(["start"])`] : [],
      ...nodes,
      ...used(exit) ? [`  ${exit}(["exit"])`] : [],
      ...edges
    ].join("\n")
  }
}

/** Lines as one quoted text; whatever Mermaid or its HTML would read is written as a code. */
const quoted = (...lines: ReadonlyArray<string>): string =>
  `"${lines.map((line) => line.replace(/[^\p{L}\p{N} .,:=_\-/()]/gu, (it) => `#${it.codePointAt(0)};`)).join("<br/>")}"`
