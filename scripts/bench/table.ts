// What was measured as one table, for a terminal or for Markdown, with the bars that it is to hold.

/** What one figure is to be: at most `limit`, and `aim` is what is wished for. */
export interface Bar {
  readonly of: "value" | "ratio"
  readonly limit: number
  readonly aim: number
}

/** One line of the table. */
export interface Line {
  readonly what: string
  readonly value: number
  readonly unit: string
  /** The same of what it is compared with: the floor by hand, where nothing else is said. */
  readonly beside?: number
  /** By how much it is dearer, where that is not `value / beside`. */
  readonly ratio?: number
  readonly bar?: Bar
}

const head = ["", "this", "beside", "", "ratio", "limit", "aim", "verdict"] as const
const left = new Set([0, 3, 7])

const ratioOf = ({ beside, ratio, value }: Line): number | undefined =>
  ratio ?? (beside === undefined ? undefined : value / beside)

const figure = (value: number | undefined): string =>
  value === undefined ? "" : value >= 1_000 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3)

const verdict = (line: Line): string => {
  if (line.bar === undefined) return ""
  const { aim, limit, of } = line.bar
  const got = of === "value" ? line.value : ratioOf(line)!
  if (got <= aim) return "aim"
  return got <= limit ? "limit" : `${(got / limit).toFixed(1)} × too dear`
}

const cells = (line: Line): ReadonlyArray<string> => {
  const { bar, beside, unit, value, what } = line
  const shown = (of: number | undefined) =>
    of === undefined ? "" : `${of}${bar?.of === "value" ? ` ${unit.split("/")[0]}` : ""}`
  return [
    what,
    figure(value),
    figure(beside),
    unit,
    figure(ratioOf(line)),
    shown(bar?.limit),
    shown(bar?.aim),
    verdict(line)
  ]
}

/** The table for a terminal. */
export const text = (lines: ReadonlyArray<Line>): string => {
  const rows = [[...head], ...lines.map(cells)]
  const widths = head.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
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
