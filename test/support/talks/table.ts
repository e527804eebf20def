/** The conversations that agents are tried with: one for each way in which an operation can end, and for what comes on the way. */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import type { Agent } from "../../../src/agent/AgentExecutor.ts"
import { type AgentEvent } from "../../../src/agent/index.ts"
import * as Transcripts from "../../../src/agent/Transcripts.ts"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import { Journal, type LocalExecutor } from "../../../src/index.ts"
import type { Call, Turn } from "../providers/script.ts"
import type { Talk } from "./talk.ts"

const path = (path: string) => ({ path })

const read = (at: string): Call => ({ name: "read", args: path(at) })
const write = (at: string): Call => ({ name: "write", args: path(at) })
const ask = (at: string): Call => ({ name: "ask", args: path(at) })
const call = (name: string, args: unknown = {}): Call => ({ name, args })

const done: Turn = { text: "Done." }

/** Said in one piece, so that whoever stops it has all of it. */
const long: Turn = { text: "A text of some length", deltas: 100 }

type Tag = AgentEvent.AgentEvent["_tag"]

/** The host does something at the first event of a kind. */
const at = <T extends Tag>(
  tag: T,
  act: (agent: Agent, event: Extract<AgentEvent.AgentEvent, { readonly _tag: T }>) => Effect.Effect<void>,
  fits: (event: Extract<AgentEvent.AgentEvent, { readonly _tag: T }>) => boolean = () => true
): NonNullable<Talk["on"]> =>
(event, agent) => {
  const found = event as Extract<AgentEvent.AgentEvent, { readonly _tag: T }>
  return event._tag === tag && fits(found) ? act(agent, found) : Effect.void
}

const cancel = (agent: Agent) => agent.cancel("enough")

/** Cancels where the model says a part of that type. */
const cancelIn = (type: string) => at("AssistantMessagePart", cancel, ({ part }) => part.type === type)

const answer = (it: Approvals.Answer) =>
  at(
    "RequestToolApprovals",
    (agent, { requests }) => Effect.forEach(requests, ({ id }) => Effect.orDie(agent.answer(id, it)), { discard: true })
  )

const interactive = { mode: "Interactive" } as const

const once = { retries: 0 } as const

const rules = (...rules: NonNullable<LocalExecutor.Options["rules"]>) => ({ rules })

/** Reasoning models take no demand to call something. */
const free = { toolChoice: "auto" } as const

const search = Tool.providerDefined({
  id: "anthropic.web_search_20250305",
  customName: "web_search",
  providerName: "web_search",
  args: Schema.Struct({ maxUses: Schema.optionalKey(Schema.Finite) }),
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.Unknown
})({})

const openaiSearch = Tool.providerDefined({
  id: "openai.web_search",
  customName: "web_search",
  providerName: "web_search",
  args: Schema.Struct({}),
  parameters: Schema.Unknown,
  success: Schema.Unknown
})({})

/** People who can be asked no more: the host stops. */
const stopping: Layer.Layer<never> = Layer.effect(
  Approvals.Approvals,
  Effect.map(Approvals.make(), (approvals) => ({
    ...approvals,
    submit: () => Effect.succeed({ _tag: "Suspended", reason: "the host stops" } as const)
  }))
).pipe(Layer.orDie) as Layer.Layer<never>

/** Sessions that take so many entries. */
const full = (appends: number): Layer.Layer<never> =>
  Layer.sync(Transcripts.Transcripts, () => {
    let left = appends
    const append = () =>
      left-- > 0
        ? Effect.void
        : Effect.fail(new Transcripts.TranscriptError({ session: "one", operation: "append", cause: "it is full" }))
    return {
      open: () => Effect.succeed({ messages: [], append, below: [], appendBelow: () => Effect.void }),
      list: Effect.succeed([])
    }
  }) as Layer.Layer<never>

export const talks: ReadonlyArray<Talk> = [
  // it finishes
  {
    name: "a text alone",
    turns: [done],
    comesTo: { end: "Finished", text: "Done.", calls: [] }
  },
  {
    name: "a text that was thought about",
    turns: [{ reasoning: "Nothing to do", text: "Done." }],
    comesTo: { end: "Finished", text: "Done.", calls: [] }
  },
  {
    name: "an answer with nothing in it",
    turns: [{}],
    comesTo: { end: "Finished", text: "", calls: [] }
  },
  {
    name: "blanks for an answer",
    turns: [{ text: " \n " }],
    comesTo: { end: "Finished", text: " \n ", calls: [] }
  },
  {
    name: "reasoning and nothing else",
    turns: [{ reasoning: "I wonder" }],
    comesTo: { end: "Finished", text: "", calls: [] }
  },
  {
    name: "calls side by side, with reasoning before and between",
    turns: [
      { reasoning: "Look first", text: "I look.", calls: [read("a"), read("b"), write("c")] },
      { reasoning: "Once more", calls: [read("c")] },
      { reasoning: "That is it", text: "Done." }
    ],
    comesTo: {
      end: "Finished",
      text: "Done.",
      calls: ["read Succeeded", "read Succeeded", "write Succeeded", "read Succeeded"]
    }
  },
  {
    name: "blanks beside a call",
    turns: [{ text: "\n\n", calls: [read("a")] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "a process for each turn",
    turns: [{ reasoning: "First", calls: [write("a")] }, { reasoning: "Then", calls: [write("b")] }, done],
    options: { perHeartbeat: true },
    comesTo: { end: "Finished", text: "Done.", calls: ["write Succeeded", "write Succeeded"] }
  },
  {
    name: "a tool that ends the loop",
    turns: [{ reasoning: "Enough", calls: [read("a"), call("done")] }],
    executor: rules({ _tag: "ExitLoop", tool: "done" }),
    comesTo: { end: "Exited", text: "", calls: ["read Succeeded", "done Succeeded"] }
  },
  {
    name: "redacted reasoning",
    turns: [{ reasoning: "Hm", redacted: "secret", calls: [read("a")] }, { redacted: "more", text: "Done." }],
    over: ["anthropic"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "a search by the provider itself",
    turns: [{ reasoning: "Look it up", search: "news", text: "Found.", calls: [read("a")] }, done],
    options: { toolkit: { tools: { read: Tool.dynamic("read", { parameters: {} }), web_search: search } } },
    over: ["anthropic"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "a search by the provider itself that fails",
    turns: [{ search: "news", searchFails: true, text: "I found nothing.", calls: [read("a")] }, done],
    options: { toolkit: { tools: { read: Tool.dynamic("read", { parameters: {} }), web_search: search } } },
    over: ["anthropic"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "a search by the provider itself, of OpenAI",
    turns: [{ reasoning: "Look it up", search: "news", text: "Found.", calls: [read("a")] }, done],
    options: { toolkit: { tools: { read: Tool.dynamic("read", { parameters: {} }), web_search: openaiSearch } } },
    over: ["openai-responses"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "a search that nobody offered",
    turns: [{ reasoning: "Look it up", search: "news", text: "Found.", calls: [read("a")] }, done],
    over: ["anthropic", "openai-responses"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },

  // the host stops, or cannot keep it
  {
    name: "a question that the host leaves open as it stops",
    turns: [{ reasoning: "May I", text: "May I?", calls: [read("a"), ask("b")] }],
    options: { mode: "Interactive" },
    around: Layer.merge(stopping, Journal.layerMemory().pipe(Layer.orDie)),
    comesTo: { end: "Suspended", text: "May I?", calls: ["read Succeeded", "ask Cancelled"] }
  },
  ...[0, 1, 2, 3].map((appends): Talk => ({
    name: `a session that takes no more behind ${appends} entries`,
    turns: [{ reasoning: "Read", text: "I read.", calls: [read("a"), write("b")] }, { reasoning: "So", text: "Done." }],
    options: { session: "one" },
    around: full(appends),
    comesTo: {
      end: "NotKept",
      text: ["", "I read.", "I read.", "Done."][appends]!,
      calls: [[], ["read Nothing", "write Nothing"], ["read Succeeded", "write Succeeded"]][Math.min(appends, 2)]!
    }
  })),

  // its answer is cut off
  {
    name: "a text cut off by its length",
    turns: [{ reasoning: "Long", text: "Once upon a", finish: "length" }],
    comesTo: { end: "CutOff length", text: "Once upon a", calls: [] }
  },
  {
    name: "a text that a filter cut off",
    turns: [{ reasoning: "Rude", text: "You are", finish: "filter" }],
    comesTo: { end: "CutOff content-filter", text: "You are", calls: [] }
  },
  {
    name: "whole calls cut off by the length behind them",
    turns: [{ reasoning: "Long", calls: [read("a"), write("b")], finish: "length" }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Cancelled", "write Cancelled"] }
  },
  {
    name: "whole calls, and a filter behind them",
    turns: [{ reasoning: "Long", calls: [write("b")], finish: "filter" }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["write Cancelled"] }
  },
  {
    name: "a call cut off in its arguments by its length",
    turns: [{ reasoning: "Long", text: "I", calls: [read("a"), write("b")], fault: { half: "length" } }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Cancelled", "write Cancelled"] },
    butFor: { google: { calls: ["read Cancelled"] } }
  },
  {
    name: "a call cut off in its arguments by a filter",
    turns: [{ reasoning: "Long", text: "I", calls: [read("a"), write("b")], fault: { half: "filter" } }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Cancelled", "write Cancelled"] },
    butFor: { google: { calls: ["read Cancelled"] } }
  },

  // a bound is reached
  {
    name: "no turn left",
    turns: [{ reasoning: "One", text: "I read.", calls: [read("a")] }],
    options: { limits: { turns: 1 } },
    comesTo: { end: "LimitReached turns", text: "I read.", calls: ["read Succeeded"] }
  },
  {
    name: "no call left",
    turns: [{ reasoning: "Two", calls: [read("a"), read("b")] }],
    options: { limits: { calls: 1 } },
    comesTo: { end: "LimitReached calls", text: "", calls: ["read Succeeded", "read CallBudgetExhausted"] }
  },
  {
    name: "no token left",
    turns: [{ reasoning: "Dear", calls: [read("a")], usage: { input: 500, output: 500, reasoning: 0, cached: 0 } }],
    options: { limits: { tokens: 900 } },
    comesTo: { end: "LimitReached tokens", text: "", calls: ["read Succeeded"] }
  },
  {
    name: "no money left",
    turns: [{ reasoning: "Dear", calls: [read("a")], usage: { input: 500, output: 500, reasoning: 0, cached: 0 } }],
    options: { limits: { cost: { max: 0.000_001, prices: { "*": { input: 1, output: 1 } } } } },
    comesTo: { end: "LimitReached cost", text: "", calls: ["read Succeeded"] }
  },
  {
    name: "no time left while calls run",
    turns: [{ reasoning: "Slow", calls: [read("a"), call("hangs"), write("b")] }],
    options: { limits: { time: "1 minute" } },
    still: true,
    on: at("ExecutingTool", () => TestClock.adjust("1 minute"), ({ tool }) => tool === "hangs"),
    comesTo: { end: "LimitReached time", text: "", calls: ["read Succeeded", "hangs Cancelled", "write Cancelled"] }
  },
  {
    name: "no time left while the model speaks",
    turns: [{ reasoning: "Slow", ...long, fault: { hang: "end" } }],
    options: { limits: { time: "1 minute" } },
    still: true,
    on: at("AssistantMessagePart", () => TestClock.adjust("1 minute"), ({ part }) => part.type === "text-delta"),
    comesTo: { end: "LimitReached time", text: "A text of some length", calls: [] }
  },
  {
    name: "no time left before the model says anything",
    turns: [{ text: "Never", fault: { hang: 0 } }],
    options: { limits: { time: "50 millis" } },
    comesTo: { end: "LimitReached time", text: "", calls: [] }
  },

  // somebody cancels it
  {
    name: "cancelled in a text",
    turns: [{ reasoning: "Talk", ...long, fault: { hang: "end" } }],
    on: cancelIn("text-delta"),
    comesTo: { end: "Cancelled", text: "A text of some length", calls: [] }
  },
  {
    name: "cancelled in a text behind a wave",
    turns: [{ reasoning: "First", calls: [read("a")] }, { ...long, fault: { hang: "end" } }],
    on: at("AssistantMessagePart", cancel, ({ part, turn }) => turn === 2 && part.type === "text-delta"),
    comesTo: { end: "Cancelled", text: "A text of some length", calls: ["read Succeeded"] }
  },
  {
    name: "cancelled in reasoning behind a wave",
    turns: [{ reasoning: "First", calls: [read("a")] }, { reasoning: "Then a long one", fault: { hang: "end" } }],
    on: at("AssistantMessagePart", cancel, ({ part, turn }) => turn === 2 && part.type === "reasoning-delta"),
    over: ["openai-responses", "anthropic", "google", "openai-compatible"],
    comesTo: { end: "Cancelled", text: "", calls: ["read Succeeded"] }
  },
  {
    name: "cancelled in the arguments of a call",
    turns: [{ reasoning: "Well", text: "I write.", calls: [write("a"), write("b")], fault: { hang: "arguments" } }],
    on: cancelIn("tool-params-start"),
    // calls of the other one come whole
    over: ["openai-chat", "openai-responses", "anthropic", "openai-compatible"],
    comesTo: { end: "Cancelled", text: "I write.", calls: [] }
  },
  {
    name: "cancelled when all is said but the end",
    turns: [{ reasoning: "Well", ...long, calls: [write("a"), write("b")], fault: { hang: "end" } }],
    // all that comes has come by then, or it is one more way to be cancelled
    on: at(
      "AssistantMessagePart",
      (agent) => Effect.asVoid(Effect.forkDetach(Effect.delay(cancel(agent), "50 millis"))),
      ({ part }) => part.type === "text-delta"
    ),
    comesTo: { end: "Cancelled", text: "A text of some length", calls: [] }
  },
  {
    name: "cancelled while calls run",
    turns: [{ reasoning: "Many", text: "All.", calls: [read("a"), call("hangs"), write("b")] }],
    on: at("ExecutingTool", cancel, ({ tool }) => tool === "hangs"),
    comesTo: { end: "Cancelled", text: "All.", calls: ["read Succeeded", "hangs Cancelled", "write Cancelled"] }
  },
  {
    name: "cancelled while somebody is asked",
    turns: [{ reasoning: "May I", calls: [read("a"), ask("b")] }],
    options: interactive,
    on: at("RequestToolApprovals", cancel),
    comesTo: { end: "Cancelled", text: "", calls: ["read Cancelled", "ask Cancelled"] }
  },
  {
    name: "cancelled while a sub-agent works",
    turns: [{ reasoning: "Ask them", calls: [call("research", { topic: "x" })] }, {
      text: "Hm",
      fault: { hang: "end" }
    }],
    on: at("AssistantMessagePart", cancel, ({ agentPath, part }) => agentPath.length > 0 && part.type === "text-delta"),
    comesTo: { end: "Cancelled", text: "", calls: ["research Cancelled"] }
  },

  // the model fails
  {
    name: "a model that is not there",
    turns: [{ fault: { status: 500 } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "", calls: [] }
  },
  {
    name: "a model that is gone behind a wave",
    turns: [{ reasoning: "First", calls: [read("a"), write("b")] }, { fault: { status: 500 } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "", calls: ["read Succeeded", "write Succeeded"] }
  },
  {
    name: "a key that is wrong",
    turns: [{ fault: { status: 401 } }],
    comesTo: { end: "ModelFailed", text: "", calls: [] }
  },
  {
    name: "a limit of the provider that is over soon",
    turns: [
      { fault: { status: 429, retryAfter: 0 } },
      { reasoning: "First", calls: [read("a")] },
      { fault: { status: 429, retryAfter: 0 } },
      done
    ],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "a limit of the provider that is over tomorrow",
    turns: [{ reasoning: "First", calls: [read("a")] }, { fault: { status: 429, retryAfter: 86_400 } }],
    comesTo: { end: "ModelFailed", text: "", calls: ["read Succeeded"] }
  },
  {
    name: "a provider with too much to do, once",
    turns: [{ fault: { status: 529, retryAfter: 0 } }, { reasoning: "First", calls: [write("a")] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["write Succeeded"] }
  },
  {
    name: "a connection that breaks before anything came",
    turns: [{ reasoning: "First", calls: [read("a")] }, { text: "Never", fault: { cut: 0 } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "", calls: ["read Succeeded"] }
  },
  {
    name: "a connection that breaks in reasoning",
    turns: [{ reasoning: "First", calls: [read("a")] }, { reasoning: "A long thought", fault: { cut: "reasoning" } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "", calls: ["read Succeeded"] }
  },
  {
    name: "a connection that breaks in a text",
    turns: [{ reasoning: "Hm", text: "A text of some length, and more of it", fault: { cut: "text" } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "A text of some l", calls: [] },
    // its signature comes as one more piece of the text
    butFor: { google: { text: "A text of some length, a" } }
  },
  {
    name: "a connection that breaks in the arguments of a call",
    turns: [{ reasoning: "Hm", text: "I write.", calls: [write("a"), write("b")], fault: { cut: "arguments" } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "I write.", calls: [] }
  },
  {
    name: "a connection that breaks when all is said but the end",
    turns: [{ reasoning: "Hm", text: "I write.", calls: [write("a"), write("b")], fault: { cut: "end" } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "I write.", calls: [] }
  },
  {
    name: "an answer that just ends when all is said but the end",
    turns: [{ reasoning: "Hm", text: "I write.", calls: [write("a"), write("b")], fault: { ends: "end" } }],
    comesTo: { end: "ModelFailed", text: "I write.", calls: [] }
  },
  {
    name: "an answer that just ends in a text",
    turns: [{ reasoning: "Hm", text: "A text of some length, and more of it", fault: { ends: "text" } }],
    comesTo: { end: "ModelFailed", text: "A text of some l", calls: [] },
    butFor: { google: { text: "A text of some length, a" } }
  },
  {
    name: "answers that just end before anything is said, and one that does not",
    turns: [{ reasoning: "First", calls: [read("a")] }, { calls: [write("a")], fault: { ends: 0 } }, {
      calls: [write("b")],
      fault: { ends: "end" }
    }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "an error in the middle of a text",
    turns: [{ reasoning: "First", calls: [read("a")] }, {
      text: "A text of some length, and more of it",
      fault: { error: "text" }
    }],
    options: once,
    comesTo: { end: "ModelFailed", text: "A text of some l", calls: ["read Succeeded"] }
  },
  {
    name: "an error in the arguments of a call",
    turns: [{ reasoning: "First", text: "I write.", calls: [write("a"), write("b")], fault: { error: "arguments" } }],
    options: once,
    comesTo: { end: "ModelFailed", text: "I write.", calls: [] }
  },

  // calls that come to nothing
  {
    name: "arguments that are no JSON",
    turns: [{ reasoning: "Quick", calls: [read("a"), { name: "write", rawArgs: "{\"path\": \"b" }] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "write InvalidParameters"] },
    // MALFORMED_FUNCTION_CALL, so the model is asked again
    butFor: { google: { end: "Finished", text: "Done.", calls: [] } }
  },
  {
    name: "arguments that are no object",
    turns: [{ reasoning: "Quick", calls: [{ name: "write", rawArgs: "[1]" }, { name: "read", rawArgs: "7" }] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["write InvalidParameters", "read InvalidParameters"] },
    // MALFORMED_FUNCTION_CALL, so the model is asked again
    butFor: { google: { end: "Finished", text: "Done.", calls: [] } }
  },
  {
    name: "no arguments at all",
    turns: [{ calls: [{ name: "blank", rawArgs: "" }] }, done],
    over: ["openai-chat", "openai-responses", "anthropic", "openai-compatible"],
    comesTo: { end: "Finished", text: "Done.", calls: ["blank Succeeded"] }
  },
  {
    name: "a tool that is not there",
    turns: [{ reasoning: "Guess", calls: [call("wriet", path("a")), read("a")] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["wriet ToolNotFound", "read Succeeded"] }
  },
  {
    name: "a tool that is not there, with a name that no tool can have",
    turns: [{ reasoning: "Guess", calls: [call("write file!", path("a"))] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["write file! ToolNotFound"] }
  },
  {
    name: "a call that is denied",
    turns: [{ reasoning: "Try", calls: [write("a"), read("b")] }, done],
    executor: { policy: { default: "allow", deny: ["write"] } },
    comesTo: { end: "Finished", text: "Done.", calls: ["write PolicyDenied", "read Succeeded"] }
  },
  {
    name: "a call that somebody would have to be asked about, and nobody is there",
    turns: [{ reasoning: "Try", calls: [ask("a"), read("b")] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["ask PermissionDenied", "read Succeeded"] }
  },
  {
    name: "a call that takes too long",
    turns: [{ reasoning: "Slow", calls: [call("hangs"), read("b")] }, done],
    executor: { tools: { hangs: { timeout: "50 millis" } } },
    comesTo: { end: "Finished", text: "Done.", calls: ["hangs TimedOut", "read Succeeded"] }
  },
  {
    name: "calls that fail, and that die",
    turns: [{ reasoning: "Try", calls: [call("fails"), call("dies"), read("b")] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["fails Failed", "dies Failed", "read Succeeded"] }
  },
  {
    name: "the same call twice",
    turns: [{ reasoning: "Twice", calls: [write("a"), write("a")] }, { calls: [write("a")] }, done],
    comesTo: {
      end: "Finished",
      text: "Done.",
      calls: ["write Succeeded", "write DuplicateCall", "write DuplicateCall"]
    }
  },
  {
    name: "results without a text",
    turns: [{ reasoning: "Look", calls: [call("blank"), read("a"), call("blank", { n: 2 })] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["blank Succeeded", "read Succeeded", "blank Succeeded"] }
  },
  {
    name: "a picture for a result",
    turns: [{ reasoning: "Look", calls: [call("picture"), read("a")] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["picture Succeeded", "read Succeeded"] }
  },

  // ids of calls
  {
    name: "calls of one id in a turn",
    turns: [{ reasoning: "Two", calls: [{ ...read("a"), id: "call_0" }, { ...read("b"), id: "call_0" }] }, done],
    over: ["openai-chat", "anthropic", "openai-compatible"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded"] }
  },
  {
    name: "calls of one id in turns",
    turns: [{ calls: [{ ...read("a"), id: "call_0" }] }, { calls: [{ ...read("b"), id: "call_0" }] }, done],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded"] }
  },
  {
    name: "calls whose ids are what a host would make",
    turns: [
      { calls: [{ ...read("a"), id: "call_1" }] },
      { calls: [{ ...read("b"), id: "call_1" }, { ...read("c"), id: "call_2" }] },
      done
    ],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded", "read Succeeded"] }
  },
  {
    name: "ids that other providers refuse",
    turns: [
      {
        reasoning: "Odd",
        calls: [{ ...read("a"), id: "functions.read:0" }, { ...read("b"), id: "c".repeat(64) }, {
          ...read("c"),
          id: "röd 🎈"
        }]
      },
      done
    ],
    over: ["google"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded", "read Succeeded"] }
  },
  {
    name: "ids with a colon and a dot",
    turns: [{ reasoning: "Odd", calls: [{ ...read("a"), id: "functions.read:0" }] }, {
      calls: [{ ...read("b"), id: "functions.read:1" }]
    }, done],
    over: ["openai-chat", "openai-responses", "google", "openai-compatible"],
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded"] }
  },
  {
    name: "calls without ids",
    turns: [{ calls: [read("a"), read("b")] }, { calls: [read("c")] }, done],
    over: ["openai-compatible"],
    provider: { quirks: { noIds: true, whole: true } },
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded", "read Succeeded"] }
  },
  {
    name: "calls without an index, of a server without usage",
    turns: [{ calls: [read("a"), read("b")] }, done],
    over: ["openai-compatible"],
    provider: { quirks: { noIndex: true, noUsage: true } },
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "read Succeeded"] }
  },

  // what the rules demand
  {
    name: "a start that the host makes in the end",
    turns: [{ text: "One" }, { text: "Two" }, { text: "Three" }, { text: "Four" }],
    options: { ...free, start: { read: path("s") } },
    executor: rules({ _tag: "StartConstraint", tool: "read" }),
    comesTo: { end: "Finished", text: "Four", calls: [] }
  },
  {
    name: "a start that the model makes once it is told",
    turns: [{ reasoning: "Now", calls: [write("a")] }, { reasoning: "Ah", calls: [read("s")] }, done],
    options: free,
    executor: rules({ _tag: "StartConstraint", tool: "read" }),
    comesTo: { end: "Finished", text: "Done.", calls: ["write RuleViolation", "read Succeeded"] }
  },
  {
    name: "a start that is the host's, with calls that came too early",
    turns: [{ calls: [write("a")] }, { calls: [write("b")] }, { calls: [write("c")] }, { calls: [write("d")] }, done],
    options: { ...free, start: { read: path("s") } },
    executor: rules({ _tag: "StartConstraint", tool: "read" }),
    comesTo: {
      end: "Finished",
      text: "Done.",
      calls: ["write RuleViolation", "write RuleViolation", "write RuleViolation", "write Succeeded"]
    }
  },
  {
    name: "an end that the model is reminded of",
    turns: [{ reasoning: "Over", text: "One" }, { reasoning: "Ah", calls: [call("done")] }, done],
    executor: rules({ _tag: "RequiredBeforeExit", tool: "done" }),
    comesTo: { end: "Finished", text: "Done.", calls: ["done Succeeded"] }
  },
  {
    name: "an end that the host makes",
    turns: [{ calls: [read("a")] }, { text: "One" }, { text: "Two" }, { text: "Three" }, { text: "Four" }],
    options: { exit: { done: {} } },
    executor: rules({ _tag: "RequiredBeforeExit", tool: "done" }),
    comesTo: { end: "Finished", text: "Four", calls: ["read Succeeded"] }
  },
  {
    name: "an end that nobody can make",
    turns: [{ calls: [read("a")] }, { text: "One" }, { text: "Two" }, { text: "Three" }],
    executor: rules({ _tag: "RequiredBeforeExit", tool: "fails" }),
    comesTo: { end: "RequirementUnmet fails", text: "Three", calls: ["read Succeeded"] }
  },

  // people
  {
    name: "somebody who says yes",
    turns: [{ reasoning: "May I", calls: [read("a"), ask("b")] }, done],
    options: interactive,
    on: answer({ _tag: "ApproveOnce" }),
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "ask Succeeded"] }
  },
  {
    name: "somebody who says no",
    turns: [{ reasoning: "May I", calls: [read("a"), ask("b")] }, done],
    options: interactive,
    on: answer({ _tag: "Deny", reason: "not now" }),
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded", "ask PermissionDenied"] }
  },
  {
    name: "somebody who says yes to something else",
    turns: [{ reasoning: "May I", calls: [ask("b"), ask("c")] }, done],
    options: interactive,
    on: answer({ _tag: "ApproveOnce", params: path("d") }),
    comesTo: { end: "Finished", text: "Done.", calls: ["ask Succeeded", "ask DuplicateCall"] }
  },
  {
    name: "somebody who says something instead of an answer",
    turns: [{ reasoning: "May I", calls: [ask("b"), read("a")] }, done],
    options: interactive,
    on: at("RequestToolApprovals", (agent) => Effect.asVoid(agent.say("Do not", { settle: true }))),
    comesTo: { end: "Finished", text: "Done.", calls: ["ask PermissionDenied", "read Succeeded"] }
  },
  {
    name: "somebody who says something while it works",
    // it hears of it before the second turn, or behind it
    turns: [{ reasoning: "Read", calls: [read("a")] }, done, done],
    on: at("ExecutingTool", (agent) => Effect.asVoid(agent.say("And be quick"))),
    comesTo: { end: "Finished", text: "Done.", calls: ["read Succeeded"] }
  },
  {
    name: "somebody who says something when it is done",
    turns: [{ text: "Done?" }, done],
    on: at(
      "AssistantMessagePart",
      (agent) => Effect.asVoid(agent.say("More")),
      ({ part, turn }) => turn === 1 && part.type === "text-start"
    ),
    comesTo: { end: "Finished", text: "Done.", calls: [] }
  },

  // sub-agents
  {
    name: "a sub-agent",
    turns: [
      { reasoning: "Ask them", calls: [call("research", { topic: "x" }), read("a")] },
      { reasoning: "Asked", calls: [read("b")] },
      { text: "It is so." },
      done
    ],
    comesTo: { end: "Finished", text: "Done.", calls: ["research Succeeded", "read Succeeded"] }
  },
  {
    name: "a sub-agent that comes to no end",
    turns: [
      { reasoning: "Ask them", calls: [call("research", { topic: "x" })] },
      { calls: [read("a")] },
      { calls: [read("b")] },
      done
    ],
    comesTo: { end: "Finished", text: "Done.", calls: ["research Failed"] }
  },
  {
    name: "a sub-agent whose model fails",
    turns: [
      { reasoning: "Ask them", calls: [call("dispatch_agent", { prompt: "x" })] },
      { reasoning: "Asked", calls: [read("b")] },
      { fault: { status: 401 } },
      done
    ],
    comesTo: { end: "Finished", text: "Done.", calls: ["dispatch_agent Failed"] }
  }
]
