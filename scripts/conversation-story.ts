/** The conversations that the pictures of the page show. */
import type { AgentItem, ConversationDetail, Operation } from "../src/server/api/ApiOperations.ts"
import type { RecordedCallDetail } from "../src/server/api/ApiRecords.ts"
import type { Script } from "../test/support/scriptedServer.ts"

/** The session whose conversation is shown. */
export const session = "Round discounts"

const minute = 60_000

/** The operation of the message, and those of its two sub-agents. */
const [root, reviewer, tester] = ["op-1", "reviewer", "test-writer"]

type CallEvent = Extract<AgentItem, { readonly callId: string; readonly process: string }>

/** Fills a server. */
export const tellConversations = (server: Script): void => {
  const now = Date.now()
  const usage = (tokens: number) => ({
    inputTokens: tokens,
    outputTokens: 0,
    cachedInputTokens: 0,
    cacheWriteInputTokens: 0
  })
  server.agents.push(
    {
      name: "coder",
      description: "Writes and tests code",
      model: "anthropic:claude-sonnet-4-5",
      tools: ["read_file", "search_text", "write_file", "run_command"],
      subAgents: ["reviewer", "test-writer"],
      onBusy: "queue",
      limits: { turns: 30, tokens: 500_000, cost: 2 }
    }
  )
  const operation = (given: Partial<Operation>): Operation => ({
    id: root!,
    session,
    agent: "coder",
    state: "ended",
    startedAt: now - 2 * minute,
    prompt: "",
    turn: 1,
    usage: usage(0),
    calls: 0,
    pending: 0,
    ...given
  })
  const conversation = (given: Partial<ConversationDetail>): ConversationDetail => ({
    user: "ada",
    session,
    agent: "coder",
    title: "",
    state: "ended",
    pending: 0,
    usage: usage(0),
    updatedAt: now,
    history: [],
    operations: [],
    ...given
  })
  const prompt = "Discounts leave fractions of a cent. Round them and add tests."
  const lists: ReadonlyArray<Partial<ConversationDetail>> = [
    {
      title: "Round discounts to whole cents",
      state: "waiting",
      pending: 1,
      operation: root!,
      cost: 0.42,
      operations: [operation({ prompt, state: "waiting", startedAt: now - 138_000, usage: usage(61_200) })]
    },
    { session: "Release pricing 2.4.1", title: "Release pricing 2.4.1", state: "waiting", pending: 1 },
    {
      session: "Document the pricing module",
      title: "Document the pricing module",
      agent: "writer",
      state: "waiting",
      pending: 2
    },
    { session: "Answer ticket 4711", title: "Answer ticket 4711", agent: "support", state: "waiting", pending: 1 },
    { session: "flaky", title: "Find flaky tests", state: "running" },
    {
      session: "staging",
      title: "Release 2.4.0 to staging",
      ended: "LimitReached",
      cost: 2,
      history: [
        { role: "user", text: "Release 2.4.0 to staging, and check it." },
        {
          role: "assistant",
          text:
            "The deployment request expired, so staging still runs 2.3.2. I checked the health endpoint twice; both answers name the old version.",
          calls: ["health", "version"].map((it) => ({
            id: it,
            name: "fetch",
            params: { url: `https://staging.example/${it}` }
          }))
        },
        { role: "tool", text: "", results: [{ id: "health", name: "fetch", isError: false, text: "2.3.2" }] },
        {
          role: "tool",
          text: "",
          results: [{ id: "version", name: "fetch", isError: true, text: "503 Service Unavailable" }]
        }
      ],
      operations: [operation({
        turn: 18,
        usage: usage(312_000),
        startedAt: now - 68 * minute,
        endedAt: now - 60 * minute,
        end: { reason: { _tag: "LimitReached", limit: "cost", max: 2 }, message: "", text: "" }
      })]
    },
    { session: "rename", title: "Rename Price to Money" },
    { session: "nightly", title: "Nightly dependency check", agent: "ci" }
  ]
  const ages = [0, 3, 6, 14, 0, 60, 180, 660]
  for (const [at, given] of lists.entries()) {
    server.change(conversation({ ...given, updatedAt: now - ages[at]! * minute - at }))
  }

  const own = { operation: root!, agentPath: [] as ReadonlyArray<string>, turn: 1, at: now - 130_000 }
  const below = (name: string, id: string) => ({ operation: id, agentPath: [name], turn: 1, at: now - 80_000 })
  const final = (
    of: typeof own,
    text: string,
    calls: ReadonlyArray<readonly [string, string]>,
    tokens: number
  ): AgentItem => ({
    _tag: "AssistantMessageFinal",
    ...of,
    text,
    toolCalls: calls.map(([id, name]) => ({ id, name })),
    finish: "tool-calls",
    usage: usage(tokens),
    provider: "anthropic",
    model: "claude-sonnet-4-5"
  })
  const callOf = (of: typeof own, index: number, callId: string, tool: string) => {
    let sequence = index * 10
    const wave = { agentPath: of.agentPath, batch: root!, process: of.operation, wave: of.turn }
    const common = () => ({ ...wave, callId, tool, index, sequence: ++sequence, at: of.at })
    return {
      queued: (params: CallEvent extends never ? never : { readonly [name: string]: string }): AgentItem => ({
        _tag: "ToolCallQueued",
        ...common(),
        params
      }),
      asked: (requestId: string): AgentItem => ({
        _tag: "ToolApprovalRequested",
        ...common(),
        requestId,
        why: "policy"
      }),
      started: (): AgentItem => ({ _tag: "ToolCallStart", ...common(), attempt: 1, limitMillis: 120_000 }),
      ended: (millis: number, text: string, failure?: "Failed" | "TimedOut"): ReadonlyArray<AgentItem> => {
        const outcome = {
          callId,
          tool,
          index,
          attempt: 1,
          queuedAt: of.at,
          startedAt: of.at,
          duration: millis,
          commits: 0
        }
        return [
          {
            _tag: "ToolCallComplete",
            ...common(),
            at: of.at + millis,
            dropped: 0,
            outcome: failure === undefined
              ? {
                _tag: "Succeeded",
                ...outcome,
                output: { _tag: "Inline", value: text },
                requestsContinuation: false,
                hasContinueRule: false
              }
              : failure === "Failed"
              ? {
                _tag: "Failed",
                ...outcome,
                error: null,
                origin: "handler",
                retryable: true,
                modelText: text,
                requestsContinuation: false,
                hasContinueRule: false
              }
              : { _tag: "TimedOut", ...outcome, limitMillis: millis, which: "tool", retryable: true }
          },
          { _tag: "ToolResultReceived", ...of, callId, tool, isError: failure !== undefined, text }
        ]
      }
    }
  }
  const whole = (
    of: typeof own,
    index: number,
    tool: string,
    params: { readonly [name: string]: string },
    millis: number,
    text: string,
    failure?: "Failed" | "TimedOut"
  ): ReadonlyArray<AgentItem> => {
    const call = callOf(of, index, `c${index}`, tool)
    return [call.queued(params), call.started(), ...call.ended(millis, text, failure)]
  }
  const second = { ...own, turn: 2, at: now - 90_000 }
  const [review, test] = [callOf(second, 0, "r", "reviewer"), callOf(second, 1, "t", "test-writer")]
  const [inReview, inTest] = [below("reviewer", reviewer!), below("test-writer", tester!)]
  const later = { ...inReview, turn: 3, at: now - 40_000 }
  const [write, run] = [callOf(later, 0, "call-diff", "write_file"), callOf(later, 1, "c1", "run_command")]
  const begun = (of: typeof own, callId: string): AgentItem => ({
    _tag: "SubAgentStarted",
    ...of,
    caller: { process: root!, callId },
    process: of.operation
  })
  const fragment = (text: string): AgentItem => ({
    _tag: "AssistantMessagePart",
    ...inTest,
    part: { type: "text-delta", id: "t", delta: text }
  })
  server.happen(
    "ada",
    session,
    final(
      own,
      "I will look at the pricing module and its tests first.",
      ["read_file", "read_file", "search_text", "run_command"]
        .map((name, at) => [`c${at}`, name] as const),
      20_000
    ),
    ...whole(own, 0, "read_file", { path: "src/pricing/discount.ts" }, 8, "…"),
    ...whole(own, 1, "read_file", { path: "src/pricing/money.ts" }, 7, "…"),
    ...whole(own, 2, "search_text", { query: "discounted(" }, 31, "9 matches"),
    ...whole(
      own,
      3,
      "run_command",
      { command: "npm test -- pricing" },
      4_100,
      "discount.test.ts:14  expected 8.49, received 8.4915\n1 failed, 37 passed",
      "Failed"
    ),
    final(
      second,
      "The test confirms the fault. The reviewer knows the pricing rules, so it makes the change while test-writer covers it.",
      [["r", "reviewer"], ["t", "test-writer"]],
      29_300
    ),
    review.queued({ task: "Round discounts to whole cents and reject invalid percentages." }),
    test.queued({ task: "Cover rounding and invalid percentages." }),
    review.started(),
    begun(inReview, "r"),
    final(inReview, "", [["c0", "read_file"], ["c1", "fetch"]], 4_000),
    test.started(),
    begun(inTest, "t"),
    fragment("I am adding cases for 0 and 100 percent. "),
    ...whole(inReview, 0, "read_file", { path: "docs/pricing-rules.md" }, 6, "…"),
    ...whole(
      inReview,
      1,
      "fetch",
      { url: "https://rates.example/v1" },
      10_000,
      "\"fetch\" took longer than its limit of 10 s.",
      "TimedOut"
    ),
    final(
      later,
      "The discount is computed in floating point and never rounded. I will compute in whole cents.",
      [["call-diff", "write_file"], ["c1", "run_command"]],
      5_800
    ),
    write.queued({ path: "src/pricing/discount.ts", content: "…" }),
    run.queued({ command: "npm test" }),
    write.asked("diff"),
    fragment("A negative percentage must be"),
    {
      _tag: "MessageQueued",
      ...second,
      at: now - 20_000,
      id: "m1",
      text: "Please keep the label format in line with the German shop."
    }
  )

  const states = [
    ["waiting", "write_file", "src/pricing/discount.ts", ["reviewer"]],
    ["timedOut", "fetch", "https://rates.example/v1", ["reviewer"]],
    ["failed", "run_command", "npm test -- pricing", []],
    ["succeeded", "search_text", "discounted(", []],
    ["succeeded", "read_file", "src/pricing/discount.ts", []],
    ["succeeded", "write_file", "src/pricing/discount.test.ts", []],
    ["denied", "run_command", "git push --force origin main", []],
    ["unknown", "run_command", "npm run migrate", []],
    ["cancelled", "delete_file", "src/pricing/legacy.ts", []]
  ] as const
  for (const [at, [state, tool, target, agentPath]] of states.entries()) {
    server.calls.push(recorded(now, at, { state, tool, targets: [target], agentPath }))
  }
}

/** A call on record. */
const recorded = (
  now: number,
  index: number,
  of: Pick<RecordedCallDetail, "state" | "tool" | "targets" | "agentPath">
): RecordedCallDetail => {
  const at = now - index * 9 * minute
  const ran = { succeeded: 12, failed: 4_100, timedOut: 10_000 } as { readonly [state: string]: number }
  const millis = ran[of.state]
  const common = {
    callId: "toolu_01Gx8",
    tool: of.tool,
    batch: "b",
    process: "p",
    wave: 1,
    index: 1,
    agentPath: of.agentPath
  }
  return {
    place: 1_000 - index,
    user: "ada",
    session,
    batch: "b",
    callId: "toolu_01Gx8",
    summary: "",
    at,
    ...millis === undefined ? {} : { startedAt: at + 159_000, endedAt: at + 159_000 + millis },
    ...of.state === "waiting"
      ? { requestId: "diff" }
      : {
        decidedBy: of.tool === "write_file" || of.state === "denied"
          ? { kind: "person", name: "bob" }
          : of.tool === "run_command"
          ? { kind: "grant", name: "g" }
          : { kind: "policy" }
      },
    args: { path: of.targets[0]!, content: "import { discounted } from \"./discount\"\n" },
    ...of.state === "waiting" ? {} : { modelText: `Wrote ${of.targets[0]} (46 lines).` },
    ...of.state === "succeeded" && of.tool === "write_file" ? { checkpoint: "cp1" } : {},
    entries: [
      { _tag: "Arrived", ...common, at },
      { _tag: "Asked", ...common, at: at + 118, requestId: "r", why: "policy", expiresAt: "unlimited", shown: "" },
      {
        _tag: "Answered",
        ...common,
        at: at + 158_000,
        requestId: "r",
        answer: "ApproveOnce",
        by: "user",
        person: "bob"
      },
      {
        _tag: "Started",
        ...common,
        at: at + 159_000,
        attempt: 1,
        limitMillis: 120_000,
        mutates: true,
        allowedBy: "answer"
      },
      { _tag: "Committed", ...common, at: at + 159_010, commits: 1 },
      { _tag: "Settled", ...common, at: at + 159_012, outcome: { _tag: "Succeeded" } }
    ],
    ...of
  }
}
