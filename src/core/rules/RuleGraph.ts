/** A rule set as a picture: the order it enforces, as nodes and edges, and as the text of a Mermaid flowchart. Pure. */
import type { RuleSet } from "./RuleIndex.ts"
import type { Drawing } from "./RuleKind.ts"
import { kindOf, scopeOf } from "./RuleKinds.ts"
import { words } from "./RuleText.ts"

/** A node of the picture: a tool, any tool, or where a turn starts or ends. */
export interface Node {
  readonly id: string
  readonly label: string
  readonly kind: "start" | "exit" | "tool"
  /** Its limits, and who is asked. */
  readonly notes: ReadonlyArray<string>
}

/**
 * An edge: `needs`, `from` is needed before `to`; `next`, `to` may come right after; `forbids`, `to` may not come
 * after, or only one of both where it is mutual.
 */
export interface Edge {
  readonly from: string
  readonly to: string
  readonly kind: "needs" | "next" | "forbids"
  readonly label: string
  readonly isMutual: boolean
}

export interface Picture {
  readonly nodes: ReadonlyArray<Node>
  readonly edges: ReadonlyArray<Edge>
}

/** Gives the order that a rule set enforces as nodes and edges: those that some rule is about. */
export const picture = (self: RuleSet): Picture => {
  const canvas = new Canvas(self)
  for (const rule of self.rules) {
    const kind = kindOf(rule)
    const scope = scopeOf(rule)
    const isPlain = scope === kind.scope || scope === "principal" || typeof kind.scope === "object"
    canvas.within = isPlain ? undefined : `per ${words[scope]}`
    kind.draw(rule, canvas)
  }
  return canvas.done
}

/**
 * Draws the order that a rule set enforces. Solid arrows: needed first. Thick arrows: may come right after. Dotted
 * lines: forbidden after, or only one of them. Limits stand in the boxes.
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

const arrows: { readonly [K in Edge["kind"]]: string } = { needs: "-->", next: "==>", forbids: "-.->" }

class Canvas implements Drawing {
  /** Where the rule counts that is drawn, if that is not the default of its kind. */
  within: string | undefined
  readonly start = "start"
  readonly exit = "exit"
  private readonly ids: ReadonlyMap<string, string>
  private readonly notes = new Map<string, Array<string>>()
  /** By what they say: one that two rules make is one. */
  private readonly edges = new Map<string, Edge>()

  constructor({ tools }: RuleSet) {
    this.ids = new Map([...tools.map((name, index) => [name, `t${index}`] as const), ["*", "any"]])
  }

  tool(name: string): string {
    return this.ids.get(name) ?? "any"
  }

  note(name: string, note: string): void {
    const id = this.tool(name)
    this.notes.set(id, [...this.notes.get(id) ?? [], this.scoped(note)])
  }

  edge(from: string, kind: Edge["kind"] | "excludes", label: string, to: string): void {
    const isMutual = kind === "excludes"
    const text = this.scoped(label)
    const edge = { from, to, kind: isMutual ? "forbids" as const : kind, label: text, isMutual }
    this.edges.set(JSON.stringify([from, kind, text, to]), edge)
  }

  private scoped(text: string): string {
    return this.within === undefined ? text : text === "" ? this.within : `${text} ${this.within}`
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
        ...node(this.start, "start", "start"),
        ...Array.from(this.ids, ([name, id]) => node(id, "tool", name === "*" ? "any tool" : name)).flat(),
        ...node(this.exit, "exit", "exit")
      ],
      edges
    }
  }
}

/** Lines as one quoted text; whatever Mermaid or its HTML would read is written as a code. */
const quoted = (...lines: ReadonlyArray<string>): string =>
  `"${lines.map((line) => line.replace(/[^\p{L}\p{N} .,:=_\-/()]/gu, (it) => `#${it.codePointAt(0)};`)).join("<br/>")}"`
