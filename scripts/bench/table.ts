// Prints measurements as one table, for a terminal or for Markdown.

/** The most that a figure or its ratio should be. Shown on a terminal only. */
export interface Bar {
  readonly of: "value" | "ratio"
  readonly limit: number
}

export interface Line {
  readonly what: string
  readonly value: number
  readonly unit: string
  /** The same measurement of the peer; where nothing else is said, the floor written by hand. */
  readonly peer?: number
  /** How many times the peer it costs, if that is not `value / peer`. */
  readonly ratio?: number
  readonly bar?: Bar
}

const head = ["", "figure", "peer", "", "ratio"] as const
const left = new Set([0, 3, 6])

const ratioOf = ({ peer, ratio, value }: Line): number | undefined =>
  ratio ?? (peer === undefined ? undefined : value / peer)

const figure = (value: number | undefined): string =>
  value === undefined ? "" : value >= 1_000 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3)

const cells = (line: Line): ReadonlyArray<string> => [
  line.what,
  figure(line.value),
  figure(line.peer),
  line.unit,
  figure(ratioOf(line))
]

/** The limit of a line, and whether its figure keeps it. */
const bars = (line: Line): ReadonlyArray<string> => {
  if (line.bar === undefined) return ["", ""]
  const { limit, of } = line.bar
  const holds = (of === "value" ? line.value : ratioOf(line)!) <= limit
  return [`${limit}${of === "value" ? ` ${line.unit.split("/")[0]}` : ""}`, holds ? "within" : "over"]
}

/** The table for a terminal. */
export const text = (lines: ReadonlyArray<Line>): string => {
  const rows = [[...head, "limit", ""], ...lines.map((line) => [...cells(line), ...bars(line)])]
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row.map((cell, column) => left.has(column) ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!))
      .join("  ")
      .trimEnd()
  ).join("\n")
}

/** The table for a document. */
export const markdown = (lines: ReadonlyArray<Line>): string => {
  const row = (of: ReadonlyArray<string>) => `| ${of.join(" | ")} |`
  return [row(head), row(head.map((_, column) => left.has(column) ? "---" : "---:")), ...lines.map(cells).map(row)]
    .join("\n")
}
