/** All rows. */
import * as Events from "./events.ts"
import type { Row } from "./Growth.ts"
import * as Redaction from "./redaction.ts"
import * as Tools from "./tools.ts"

export const rows: ReadonlyArray<Row> = [...Events.rows, ...Redaction.rows, ...Tools.rows]
