/** What the pictures of the page show: agents at work on a price list, and what they need approval for. */
import { Schema } from "effect"
import * as ToolEvent from "../src/core/facts/ToolEvent.ts"
import type { Script } from "../test/support/scriptedServer.ts"
import { tellConversations } from "./conversation-story.ts"

const before = `import { Money } from "./money"

/** Prices after a discount. */
export interface Discount {
  readonly name: string
  readonly percent: number
}

export const none: Discount = { name: "none", percent: 0 }

export const discounted = (price: Money, percent: number) => {
  const off = price.amount * percent / 100
  return { ...price, amount: price.amount - off }
}

export const all = (prices: ReadonlyArray<Money>, percent: number) =>
  prices.map((price) => discounted(price, percent))
`

const after = before.replace(
  `  const off = price.amount * percent / 100
  return { ...price, amount: price.amount - off }
`,
  `  if (percent < 0 || percent > 100) {
    throw new RangeError(\`percent is \${percent}, expected 0 to 100\`)
  }
  const cents = Math.round(price.amount * (100 - percent))
  return { ...price, amount: cents / 100 }
`
)

const text = (content: string) => ({ length: content.length, isText: true, hash: "a" })

/** A call of a run: when it was queued, requested approval, started and ended, in milliseconds of the run. */
interface Told {
  readonly tool: string
  readonly target: string
  readonly agent?: string
  readonly asked?: number
  readonly start?: number
  readonly end?: number
  readonly isFailed?: boolean
}

const run: ReadonlyArray<Told> = [
  { tool: "reviewer", target: "Round discounts to whole cents", start: 200 },
  { tool: "test_writer", target: "Test discounts", start: 250, end: 46_000 },
  { tool: "read_file", target: "docs/pricing-rules.md", agent: "reviewer", start: 2_000, end: 2_600 },
  {
    tool: "fetch_url",
    target: "https://rates.example/v1",
    agent: "reviewer",
    start: 3_000,
    end: 13_000,
    isFailed: true
  },
  { tool: "write_file", target: "src/pricing/discount.ts", agent: "reviewer", asked: 17_000 },
  { tool: "run_command", target: "npm test", agent: "reviewer" },
  { tool: "search_text", target: "percent", agent: "test_writer", start: 6_000, end: 7_400 }
]

/** The events of a run. */
const eventsOf = (beganAt: number, calls: ReadonlyArray<Told>): ReadonlyArray<ToolEvent.Wire> =>
  Schema.decodeUnknownSync(Schema.Array(ToolEvent.Wire))(calls.flatMap((it, index): ReadonlyArray<unknown> => {
    const { agent, asked, end, isFailed = false, start, target, tool } = it
    const of = {
      agentPath: agent === undefined ? [] : [agent],
      batch: "b",
      process: agent ?? "t2",
      wave: 1,
      callId: `call-${index}`,
      tool,
      index
    }
    const outcome = {
      callId: of.callId,
      tool,
      index,
      attempt: 1,
      queuedAt: beganAt,
      startedAt: beganAt + (start ?? 0),
      commits: 0,
      requestsContinuation: false,
      hasContinueRule: false
    }
    const at = (millis: number, order: number) => ({ ...of, at: beganAt + millis, sequence: index * 10 + order })
    return [
      { ...at(0, 1), _tag: "ToolCallQueued", params: { target } },
      ...asked === undefined
        ? []
        : [
          {
            ...at(asked, 2),
            _tag: "ToolApprovalRequested",
            requestId: "diff",
            why: "write_file needs approval"
          }
        ],
      ...start === undefined
        ? []
        : [{ ...at(start, 3), _tag: "ToolCallStart", attempt: 1, limitMillis: null }],
      ...start === undefined || end === undefined
        ? []
        : [{
          ...at(end, 4),
          _tag: "ToolCallComplete",
          dropped: 0,
          outcome: isFailed
            ? {
              ...outcome,
              _tag: "Failed",
              duration: end - start,
              origin: "handler",
              retryable: true,
              modelText: "The host did not answer.",
              error: "The host did not answer."
            }
            : { ...outcome, _tag: "Succeeded", duration: end - start, output: { _tag: "Inline", value: "ok" } }
        }]
    ]
  }))

/** Fills a server. */
export const tellStory = (server: Script): void => {
  tellConversations(server)
  const minute = 60_000
  const now = Date.now()
  server.texts.set("diff/0/before", before).set("diff/0/after", after)
  server.ask({
    id: "diff",
    process: "reviewer",
    operation: "op-1",
    user: "ada",
    session: "Round discounts",
    agentPath: ["reviewer"],
    tool: "write_file",
    args: { path: "src/pricing/discount.ts", content: after },
    targets: [{ text: "src/pricing/discount.ts" }],
    why: "write_file outside docs/ needs approval",
    facts: {
      title: "Write file",
      readOnly: false,
      openWorld: false,
      undoable: true,
      files: { changed: 1, created: 0 },
      lines: { added: 5, removed: 2 }
    },
    requestedAt: now - 26 * minute,
    expiresAt: now + 4 * minute + 11_000,
    preview: { _tag: "Files", files: [{ path: "src/pricing/discount.ts", before: text(before), after: text(after) }] }
  })
  const of = { user: "ada", session: "Round discounts", turn: "t" }
  const tools = run.filter((it) => it.agent === undefined).map((it) => it.tool)
  server.events.set("t2", eventsOf(now - 48_000, run))
  server.waves.push(
    { ...of, wave: "t2", status: "running", calls: 2, tools, beganAt: now - 48_000 },
    {
      ...of,
      wave: "t1",
      status: "ended",
      calls: 4,
      tools: ["read_file", "read_file", "search_text", "run_command"],
      beganAt: now - 3 * minute,
      endedAt: now - 3 * minute + 4_100
    },
    {
      ...of,
      session: "nightly",
      wave: "n1",
      status: "ended",
      calls: 1,
      tools: ["write_file"],
      beganAt: now - 70 * minute,
      endedAt: now - 70 * minute + 1_900
    }
  )
  server.ask({
    id: "command",
    user: "ada",
    session: "Release pricing 2.4.1",
    agentPath: [],
    tool: "run_command",
    args: { command: "npm publish --access public", cwd: "packages/pricing", timeout: "2 minutes" },
    targets: [{ text: "npm publish --access public" }],
    why: "run_command(npm publish*) always needs approval",
    facts: { title: "Run command", readOnly: false, openWorld: true, undoable: false },
    remember: "resources",
    requestedAt: now - 8 * minute,
    expiresAt: now + 22 * minute
  })
  for (const [id, path] of [["m1", "docs/pricing/rounding.md"], ["m2", "docs/pricing/index.md"]] as const) {
    const content = `# Rounding\n\nPrices are kept in whole cents. A discount is rounded once, half up.\n`
    server.texts.set(`${id}/0/after`, content)
    server.ask({
      id,
      user: "ada",
      session: "Document the pricing module",
      agentPath: ["writer"],
      tool: "write_file",
      args: { path, content },
      targets: [{ text: path }],
      why: "write_file needs approval",
      facts: {
        title: "Write file",
        readOnly: false,
        openWorld: false,
        undoable: true,
        files: { changed: 1, created: 1 },
        lines: { added: 3, removed: 0 }
      },
      requestedAt: now - 2 * minute,
      expiresAt: now + 7 * 60 * minute,
      preview: { _tag: "Files", files: [{ path, before: null, after: text(content) }] }
    })
  }
  server.ask({
    id: "mail",
    user: "ada",
    session: "Answer ticket 4711",
    agentPath: ["support"],
    tool: "mail__send",
    args: {
      to: "bob@ex\u0430mple.com",
      subject: "Your refund",
      body: "Dear Bob,\n\nyour refund of $12.00 is on its way.\n\nAda"
    },
    targets: [{ text: "bob@ex\u0430mple.com" }],
    why: "mail__send needs approval",
    facts: { title: "Send a mail", readOnly: false, openWorld: true, undoable: false },
    requestedAt: now - minute
  })
  server.ask({
    id: "ended",
    user: "ada",
    session: "Round discounts",
    tool: "run_command",
    args: { command: "git push --force" }
  })
  server.end("ended", { how: "denied", answer: "Deny", by: "bob", reason: "Open a pull request instead" })
  server.plans.push({
    checkpoint: {
      id: "c1",
      at: now - 5 * minute,
      batch: "b",
      callId: "call-diff",
      tool: "write_file",
      paths: ["src/pricing/discount.test.ts", "src/pricing/discount.ts", "src/pricing/cents.ts"]
    },
    steps: [
      { path: "src/pricing/discount.test.ts", action: "restore" },
      { path: "src/pricing/discount.ts", action: "changed" },
      { path: "src/pricing/cents.ts", action: "remove" }
    ],
    diff: `--- src/pricing/discount.test.ts
+++ src/pricing/discount.test.ts
@@ -4,5 +4,2 @@
 describe("discounted", () => {
-  it("rounds to whole cents", () => {
-    expect(discounted(euro(9.99), 15).amount).toBe(8.49)
-  })
 })
`,
    notCovered: []
  })
  for (
    const [tool, targets, isLimited] of [
      ["write_file", ["docs/*"], true],
      ["run_command", ["npm test"], true],
      ["issues__create", undefined, false]
    ] as const
  ) {
    server.grants.push({
      id: tool,
      user: "ada",
      session: "Round discounts",
      tool,
      agentPath: ["writer"],
      ...targets === undefined ? {} : { targets },
      answer: isLimited ? "ApproveForDuration" : "ApproveForScope",
      grantedAt: now - 60 * minute,
      ...isLimited ? { expiresAt: now + 54 * minute } : {}
    })
  }
}
