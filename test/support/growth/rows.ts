/** All rows. */
import * as Events from "./events.ts"
import * as Files from "./files.ts"
import type { Row } from "./Growth.ts"
import * as Provenance from "./provenance.ts"
import * as Redaction from "./redaction.ts"
import * as Tools from "./tools.ts"
import * as Wire from "./wire.ts"

export const rows: ReadonlyArray<Row> = [
  ...Events.rows,
  ...Files.rows,
  ...Provenance.rows,
  ...Redaction.rows,
  ...Tools.rows,
  ...Wire.rows
]
