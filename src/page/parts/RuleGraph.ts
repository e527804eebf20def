/** Draws the rules as a graph of what comes before what. dagre does the layout; this file and dagre load on demand. */
import * as dagre from "@dagrejs/dagre"
import type { VNode } from "preact"
import { useMemo, useRef, useState } from "preact/hooks"
import { escape } from "../../internal/escape.ts"
import { html } from "../html.ts"
import { SafeText } from "./SafeText.ts"
import type { RuleGraphProps } from "./types.ts"

/** The graph of the rules, and its edges in words. */
export const RuleGraph = ({ rules }: RuleGraphProps): VNode => {
  const [chosen, choose] = useState<string | undefined>(undefined)
  const place = useRef<SVGSVGElement>(null)
  const isLarge = rules.nodes.length > maxNodes
  const picture = useMemo(() => isLarge ? undefined : layoutOf(rules), [rules])
  const name = (id: string) => rules.nodes.find((it) => it.id === id)?.label ?? id
  const around = rules.edges.filter(({ from, to }) => chosen === undefined || from === chosen || to === chosen)
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    const nodes = [...place.current?.querySelectorAll<SVGGElement>(".graph-node") ?? []]
    const at = nodes.findIndex((node) => node === document.activeElement)
    if (by === undefined || at === -1) return
    event.preventDefault()
    nodes[(at + by + nodes.length) % nodes.length]?.focus()
  }
  return html`<section class="graph" aria-label="Graph of the rules">
    ${
    picture === undefined
      ? html`<p>There are too many tools to draw. The list below has the same content.</p>`
      : html`<div class="graph-box"><svg ref=${place} viewBox=${`0 0 ${picture.width} ${picture.height}`} width=${picture.width} height=${picture.height}
        role="group" aria-label="Tools, and arrows from what comes first" onKeyDown=${move}>
        <defs><marker id="graph-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" /></marker></defs>
        ${
        picture.edges.map(({ edge, path }, at) =>
          html`<path key=${at} class=${`graph-edge graph-${edge.kind}${
            edge.from === chosen || edge.to === chosen ? " chosen" : ""
          }`}
            d=${path} marker-end=${isMutual(edge) ? undefined : "url(#graph-arrow)"} />`
        )
      }
        ${
        picture.nodes.map(({ height, node, width, x, y }, at) =>
          html`<g key=${node.id} class=${`graph-node graph-${node.kind}${
            node.id === chosen ? " chosen" : ""
          }`} transform=${`translate(${x - width / 2} ${y - height / 2})`}
            tabindex=${(chosen === undefined ? at === 0 : node.id === chosen) ? 0 : -1} role="button" aria-pressed=${
            node.id === chosen
          }
            onFocus=${() => choose(node.id)} onClick=${() => choose(node.id)}>
            <rect width=${width} height=${height} rx=${node.kind === "tool" ? 6 : height / 2} />
            <text x=${width / 2} y="21" text-anchor="middle">${shortened(node.label)}</text>
            ${
            node.notes.length > 0 &&
            html`<text class="graph-note" x=${width / 2} y="37" text-anchor="middle">${
              shortened(node.notes.length === 1 ? node.notes[0]! : `${node.notes.length} rules`)
            }</text>`
          }
          </g>`
        )
      }
      </svg></div>`
  }
    <div class="graph-words" aria-live="polite">
      <h3>${
    chosen === undefined
      ? "All rules"
      : html`Rules for <${SafeText} text=${name(chosen)} />`
  }
        ${
    chosen !== undefined && html` <button class="btn slim" type="button" onClick=${() =>
      choose(undefined)}>Show all</button>`
  }</h3>
      <ul>
        ${
    rules.nodes.filter(({ id }) => id === chosen).flatMap(({ notes }) => notes).map((note, at) =>
      html`<li key=${`note ${at}`}><${SafeText} text=${note} /></li>`
    )
  }
        ${
    around.map((edge, at) =>
      html`<li key=${at}><${SafeText} text=${
        edge.label === ""
          ? `${name(edge.from)} ${verbs[edge.kind]} ${name(edge.to)}`
          : `${name(edge.from)} ${isMutual(edge) ? "–" : "→"} ${name(edge.to)}: ${edge.label}`
      } /></li>`
    )
  }
      </ul>
    </div>
  </section>`
}

type Rules = RuleGraphProps["rules"]
type Edge = Rules["edges"][number]
type Node = Rules["nodes"][number]

/** Larger graphs are hard to read and slow to lay out. */
const maxNodes = 300

const verbs: Readonly<Record<Edge["kind"], string>> = {
  needs: "must come before",
  next: "is followed by",
  forbids: "rules out"
}

/** An edge without a direction: only one of both. */
const isMutual = (edge: Edge): boolean => "isMutual" in edge && edge.isMutual === true

interface Picture {
  readonly width: number
  readonly height: number
  readonly nodes: ReadonlyArray<
    { readonly node: Node; readonly x: number; readonly y: number; readonly width: number; readonly height: number }
  >
  readonly edges: ReadonlyArray<{ readonly edge: Edge; readonly path: string }>
}

const layoutOf = ({ edges, nodes }: Rules): Picture => {
  const graph = new dagre.graphlib.Graph({ multigraph: true })
  graph.setGraph({ rankdir: "LR", nodesep: 24, ranksep: 60, marginx: 12, marginy: 12 })
  const known = new Map(nodes.map((node) => [node.id, node]))
  for (const node of nodes) {
    const longest = Math.max(...[node.label, ...node.notes.slice(0, 1)].map((text) => shortened(text).length))
    graph.setNode(node.id, { width: Math.max(70, 24 + longest * 8.5), height: node.notes.length > 0 ? 46 : 32 })
  }
  const drawn = edges.filter(({ from, to }) => known.has(from) && known.has(to))
  drawn.forEach((edge, at) => graph.setEdge(edge.from, edge.to, {}, String(at)))
  dagre.layout(graph)
  const { height = 0, width = 0 } = graph.graph()
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    nodes: nodes.map((node) => ({ node, ...placeOf(graph.node(node.id)) })),
    edges: drawn.map((edge, at) => {
      const points: ReadonlyArray<{ readonly x: number; readonly y: number }> =
        graph.edge({ v: edge.from, w: edge.to, name: String(at) }).points ?? []
      return {
        edge,
        path: points.map(({ x, y }, index) => `${index === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("")
      }
    })
  }
}

const placeOf = ({ height = 0, width = 0, x = 0, y = 0 }: {
  readonly height?: number
  readonly width?: number
  readonly x?: number
  readonly y?: number
}) => ({ height, width, x, y })

/** Shortens tool names for the picture; the list next to it has the full names. */
const shortened = (text: string): string => {
  const shown = escape(text)
  return shown.length > 28 ? `${shown.slice(0, 27)}…` : shown
}
