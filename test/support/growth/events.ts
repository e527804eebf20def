/** Events of agents and conversations. */
import { Secrets } from "../../../src/core/engine/report/Secrets.ts"
import * as Redact from "../../../src/internal/secrets/index.ts"
import { RedactedEvents } from "../../../src/server/work/RedactedEvents.ts"
import type { Row } from "./Growth.ts"

const about = { agentPath: [], batch: "b", process: "p", wave: 1, at: 0, tool: "look", sequence: 1 }

const answered = (name: string, calls: (size: number) => number, text: (size: number) => string): Row => ({
  name: `events: ${name}`,
  feeds: ["server/work/RedactedEvents.ts", "core/engine/report/Secrets.ts"],
  size: 200,
  input: (size) => {
    const events = new RedactedEvents()
    for (let index = 0; index < calls(size); index++) {
      const params = { password: `secret-${index}` }
      events.of({ _tag: "ToolCallQueued", ...about, callId: String(index), index, params })
    }
    const answer = {
      _tag: "AssistantMessageFinal",
      operation: "o",
      agentPath: [],
      text: text(size),
      calls: []
    } as const
    return () => events.ofAgent(answer as never)
  }
})

export const rows: ReadonlyArray<Row> = [
  answered("a long answer after many calls", (size) => size, (size) => "lorem ipsum ".repeat(size * 5)),
  answered("an answer of names after many calls", (size) => size, (size) => "token=$".repeat(size * 20)),
  {
    name: "secrets that are learnt one by one",
    feeds: ["core/engine/report/Secrets.ts"],
    size: 2_000,
    input: (size) => () => {
      const secrets = new Secrets(Redact.usual)
      for (let index = 0; index < size; index++) secrets.learn([`secret-${index}`])
      return secrets.text("secret-1")
    }
  }
]
