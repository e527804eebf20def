/**
 * A rule set as a picture: the order it enforces, as nodes and edges, and as the text
 * of a Mermaid flowchart. Pure.
 *
 * @since 0.1.0
 */
import type { RuleSet } from "./RuleIndex.ts"

/**
 * A node of the picture: a tool, any tool, or where a turn starts or ends.
 *
 * @category models
 * @since 0.1.0
 */
export interface Node {
  readonly id: string
  readonly label: string
  readonly kind: "start" | "exit" | "tool"
  /** Its limits, and who is asked. */
  readonly notes: ReadonlyArray<string>
}

/**
 * An edge: `needs`, `from` is needed before `to`; `next`, `to` may come right after;
 * `forbids`, `to` may not come after, or only one of both where it is mutual.
 *
 * @category models
 * @since 0.1.0
 */
export interface Edge {
  readonly from: string
  readonly to: string
  readonly kind: "needs" | "next" | "forbids"
  readonly label: string
  readonly isMutual: boolean
}

/**
 * The picture.
 *
 * @category models
 * @since 0.1.0
 */
export interface Picture {
  readonly nodes: ReadonlyArray<Node>
  readonly edges: ReadonlyArray<Edge>
}

/**
 * Gives the order that a rule set enforces as nodes and edges: those that some rule is about.
 *
 * @category formatting
 * @since 0.1.0
 */
export const picture = (self: RuleSet): Picture => {
  const drawn = new Drawing(self)
  for (const rule of self.rules) {
    switch (rule._tag) {
      case "StartConstraint":
        drawn.edge(start, "next", rule.mode === "any" ? "one of" : "first", drawn.tool(rule.tool))
        drawn.edge(drawn.tool(rule.tool), "needs", "", drawn.tool("*"))
        break
      case "RequiresPrecedingTools":
        for (const tool of rule.tools) drawn.edge(drawn.tool(tool), "needs", "", drawn.tool(rule.tool))
        break
      case "RequiresFollowingTools":
        for (const tool of rule.tools) drawn.edge(drawn.tool(tool), "forbids", "no more", drawn.tool(rule.tool))
        break
      case "ChildTools":
      case "ParentTools":
        for (const child of rule.children) {
          const label = rule._tag === "ChildTools" ? "next" : "next, and only so"
          drawn.edge(drawn.tool(rule.tool), "next", label, drawn.tool(child))
        }
        break
      case "Conditional": {
        const from = drawn.tool(rule.tool)
        const value = rule.path === "" ? "output" : rule.path
        for (const it of rule.cases) {
          drawn.edge(from, "next", `${value} = ${JSON.stringify(it.equals)}`, drawn.tool(it.tool))
        }
        if (rule.default !== undefined) drawn.edge(from, "next", "otherwise", drawn.tool(rule.default))
        break
      }
      case "ExclusiveGroup":
        rule.tools.slice(1).forEach((tool, index) =>
          drawn.edge(drawn.tool(rule.tools[index]!), "excludes", "only one", drawn.tool(tool))
        )
        break
      case "RequiredBeforeExit":
        for (const tool of rule.when ?? []) drawn.edge(drawn.tool(tool), "needs", "demands", drawn.tool(rule.tool))
        drawn.edge(drawn.tool(rule.tool), "needs", "required", exit)
        break
      case "ExitLoop":
        drawn.edge(drawn.tool(rule.tool), "next", "ends", exit)
        break
      case "AllowedOperations":
        drawn.note(rule.tool, `${rule.field}: ${rule.allowed.map((it) => JSON.stringify(it)).join(", ")}`)
        break
      case "MaxCalls":
        drawn.note(rule.tool, rule.max === 0 ? "never" : `at most ${rule.max}`)
        break
      case "Cooldown":
        drawn.note(rule.tool, `rests ${rule.duration}`)
        break
      case "RequiresConsent":
        drawn.note(rule.tool, "asks a person")
        break
      case "Periodic":
        drawn.note(rule.tool, `by the host: ${rule.schedule}`)
        break
      case "ContinueLoop":
      case "NeverDedupe":
      case "AlwaysDedupe":
        // neither order nor limit
        break
    }
  }
  return drawn.done
}

/**
 * Draws the order that a rule set enforces. Solid arrows: needed first. Thick
 * arrows: may come right after. Dotted lines: forbidden after, or only one of
 * them. Limits stand in the boxes.
 *
 * @category formatting
 * @since 0.1.0
 */
export const graph = (self: RuleSet): string => {
  const { edges, nodes } = picture(self)
  return [
    "flowchart TD",
    ...nodes.map(({ id, kind, label, notes }) =>
      kind === "tool" ? `  ${id}[${quoted(label, ...notes)}]` : `  ${id}(["${label}"])`
    ),
    ...edges.map(({ from, isMutual, kind, label, to }) =>
      `  ${from} ${isMutual ? "-.-" : arrows[kind]}${label === "" ? "" : `|${quoted(label)}|`} ${to}`
    )
  ].join("\n")
}

// Utilities

const start = "start"
const exit = "exit"

const arrows: { readonly [K in Edge["kind"]]: string } = { needs: "-->", next: "==>", forbids: "-.->" }

class Drawing {
  private readonly ids: ReadonlyMap<string, string>
  private readonly notes = new Map<string, Array<string>>()
  /** By what they say: one that two rules make is one. */
  private readonly edges = new Map<string, Edge>()

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

  edge(from: string, kind: Edge["kind"] | "excludes", label: string, to: string): void {
    const isMutual = kind === "excludes"
    this.edges.set(JSON.stringify([from, kind, label, to]), {
      from,
      to,
      kind: isMutual ? "forbids" : kind,
      label,
      isMutual
    })
  }

  get done(): Picture {
    const edges = Array.from(this.edges.values())
    const ends = new Set(edges.flatMap(({ from, to }) => [from, to]))
    const node = (id: string, kind: Node["kind"], label: string): ReadonlyArray<Node> => {
      const notes = this.notes.get(id) ?? []
      // tools that no rule restrains are no part of the picture
      return notes.length > 0 || ends.has(id) ? [{ id, kind, label, notes }] : []
    }
    return {
      nodes: [
        ...node(start, "start", "start"),
        ...Array.from(this.ids, ([name, id]) => node(id, "tool", name === "*" ? "any tool" : name)).flat(),
        ...node(exit, "exit", "exit")
      ],
      edges
    }
  }
}

/** Lines as one quoted text; whatever Mermaid or its HTML would read is written as a code. */
const quoted = (...lines: ReadonlyArray<string>): string =>
  `"${lines.map((line) => line.replace(/[^\p{L}\p{N} .,:=_\-/()]/gu, (it) => `#${it.codePointAt(0)};`)).join("<br/>")}"`
