/**
 * What an operation promises, whatever happens in it and below it: looked at in all that
 * was seen of a tree of agents.
 */
import type { AgentEvent } from "../../src/agent/index.ts"
import { problemsOf } from "./Agents.ts"
import { asksNobody, isForbidden, type Seen } from "./randomTree.ts"

type Event = AgentEvent.AgentEvent

const groups = <A>(all: ReadonlyArray<A>, keyOf: (it: A) => string): ReadonlyMap<string, ReadonlyArray<A>> => {
  const found = new Map<string, Array<A>>()
  for (const it of all) {
    const key = keyOf(it)
    const group = found.get(key)
    if (group === undefined) found.set(key, [it])
    else group.push(it)
  }
  return found
}

const isCallEvent = (event: Event): event is Extract<Event, { readonly callId: string; readonly process: string }> =>
  "callId" in event && "process" in event

const pathOf = (path: ReadonlyArray<string>): string => `/${path.join("/")}`

/** Which task a call is for, if its arguments can be read. */
const taskOf = ({ params }: Extract<Event, { readonly _tag: "ToolCallQueued" }>): string | undefined => {
  const { task } = Object(params) as { readonly task?: string }
  return task === undefined ? undefined : (JSON.parse(task) as { readonly id: string }).id
}

/** What is wrong with the events of one call. */
const callProblems = (key: string, all: ReadonlyArray<Event>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const tags = all.map((it) => it._tag)
  const count = (tag: string) => tags.filter((it) => it === tag).length
  if (tags[0] !== "ToolCallQueued") problems.push(`${key} begins with ${tags[0]}`)
  for (const tag of ["ToolCallQueued", "ToolCallComplete"]) {
    if (count(tag) !== 1) problems.push(`${key} has ${count(tag)} ${tag}: ${tags.join()}`)
  }
  if (tags.at(-1) !== "ToolCallComplete") problems.push(`${key} ends with ${tags.at(-1)}`)
  if (count("ToolCallStart") > 1) problems.push(`${key} started ${count("ToolCallStart")} times`)
  if (count("ToolApprovalRequested") !== count("ToolApprovalResolved")) problems.push(`${key} has an open question`)
  return problems
}

/** Every law that a tree breaks. */
export const broken = (seen: Seen): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const { events, left, limits, mode, ran } = seen
  const end = events.at(-1)
  if (end?._tag !== "OperationEnd") return [`it ends with ${end?._tag}`]
  const of = <Tag extends Event["_tag"]>(tag: Tag) =>
    events.filter((it): it is Extract<Event, { readonly _tag: Tag }> => it._tag === tag)

  if (of("OperationEnd").length !== 1) problems.push(`${of("OperationEnd").length} ends`)
  if (end.agentPath.length > 0) problems.push("the end is of a sub-agent")
  problems.push(...problemsOf(end.history))

  // calls
  for (
    const [key, all] of groups(events.filter(isCallEvent), (it) => `${pathOf(it.agentPath)} ${it.process} ${it.callId}`)
  ) {
    problems.push(...callProblems(key, all))
  }
  const results = groups(of("ToolResultReceived"), (it) => `${it.operation} ${it.callId}`)
  for (const [key, all] of results) if (all.length > 1) problems.push(`${key} has ${all.length} results`)
  if (of("ToolResultReceived").length !== of("ToolCallComplete").length) problems.push("a result is missing")
  if (of("ExecutingTool").length !== of("ToolCallStart").filter((it) => it.attempt === 1).length) {
    problems.push("a start is missing")
  }
  for (const { agentPath, executionResults } of of("ToolsEnd")) {
    if (agentPath.length > 0) problems.push(`${pathOf(agentPath)} tells the end of its wave`)
    if (new Set(executionResults.map((it) => it.callId)).size !== executionResults.length) {
      problems.push("a wave has two of one id")
    }
  }

  // what is called was said whole
  const whole = new Set(
    of("AssistantMessageFinal").filter(({ finish }) => !["cut", "unknown", "error"].includes(finish)).flatMap((it) =>
      it.message.content.flatMap((part) => part.type === "tool-call" ? [`${pathOf(it.agentPath)} ${part.id}`] : [])
    )
  )
  for (const { agentPath, callId } of of("ToolCallQueued")) {
    const call = `${pathOf(agentPath)} ${callId}`
    if (!whole.has(call)) problems.push(`${call} is of no whole turn`)
  }

  // who did it
  for (const { agentPath, message } of of("AssistantMessageFinal")) {
    const text = message.content.flatMap((it) => it.type === "text" ? [it.text] : []).join("")
    const whole = `at ${JSON.stringify(agentPath)}`
    if (!whole.startsWith(text)) problems.push(`"${text}" was said by ${pathOf(agentPath)}`)
  }
  for (const [operation, all] of groups(events.filter((it) => "operation" in it), (it) => it.operation)) {
    const paths = new Set(all.map((it) => pathOf(it.agentPath)))
    if (paths.size !== 1) problems.push(`${operation} is ${Array.from(paths).join()}`)
  }
  // for which call: tasks are named after that of their caller
  const queued = of("ToolCallQueued")
  for (const [operation, all] of groups(events.filter((it) => "operation" in it), (it) => it.operation)) {
    const [first] = all
    if (first!.agentPath.length > 0 && first!._tag !== "SubAgentStarted") problems.push(`${operation} has no caller`)
  }
  const starts = of("SubAgentStarted")
  for (const { agentPath, caller, operation, process } of starts) {
    const call = queued.find((it) => it.process === caller.process && it.callId === caller.callId)
    if (call === undefined || pathOf([...call.agentPath, call.tool]) !== pathOf(agentPath)) {
      problems.push(`${operation} works for ${call?.tool}`)
    }
    for (const own of queued.filter((it) => it.process === process)) {
      const [task, above] = [taskOf(own), call && taskOf(call)]
      if (task !== undefined && !task.startsWith(`${above}/`)) problems.push(`${task} is below ${above}`)
    }
  }
  for (const { agentPath, process } of queued) {
    if (agentPath.length > 0 && !starts.some((it) => it.process === process)) problems.push(`${process} is of nobody`)
  }
  const handled = groups(ran, (it) => `${pathOf(it.agentPath)} ${it.tool}`)
  for (const [key, all] of handled) {
    const told = of("ToolCallStart").filter((it) => `${pathOf(it.agentPath)} ${it.tool}` === key).length
    if (told !== all.length) problems.push(`${key} ran ${all.length} times, and was told ${told} times`)
  }
  if (events.some((it) => it.agentPath.length > 8)) problems.push("deeper than 8")

  // sums
  const used = { input: 0, output: 0 }
  for (const { usage } of of("AssistantMessageFinal")) {
    used.input += usage.inputTokens
    used.output += usage.outputTokens
  }
  if (used.input !== end.usage.inputTokens || used.output !== end.usage.outputTokens) {
    problems.push(`used ${JSON.stringify(used)}, told ${JSON.stringify(end.usage)}`)
  }
  const started = of("ExecutingTool").length
  if (end.calls !== started) problems.push(`${started} calls started, told ${end.calls}`)
  if (limits.calls !== undefined && end.calls > limits.calls) problems.push(`${end.calls} calls of ${limits.calls}`)
  const turns = of("AssistantMessageFinal").filter((it) => it.agentPath.length === 0).length
  if (turns !== end.turns) problems.push(`${turns} turns, told ${end.turns}`)

  // what may not happen
  for (const { afterCancel, agentPath, tool } of ran) {
    if (afterCancel) problems.push(`${pathOf(agentPath)} ${tool} started after the root was cancelled`)
    if (isForbidden(agentPath, tool)) problems.push(`${pathOf(agentPath)} ${tool} ran, which it may not`)
    if (tool === "asks" && (mode === "Automatic" || asksNobody(agentPath))) {
      problems.push("it ran, and nobody was asked")
    }
  }

  // questions
  const requests = of("RequestToolApprovals").flatMap((it) => it.requests)
  const ids = of("ToolApprovalRequested").map((it) => it.requestId)
  if (requests.map((it) => it.id).toSorted().join() !== ids.toSorted().join()) {
    problems.push("questions were told otherwise than asked")
  }
  for (const { agentPath, tool } of requests) {
    if (isForbidden(agentPath, tool) || tool !== "asks") problems.push(`asked about ${tool} of ${pathOf(agentPath)}`)
    if (mode === "Automatic" || asksNobody(agentPath)) problems.push(`asked for ${pathOf(agentPath)}`)
  }
  if (left.length > 0) problems.push(`${left.length} questions are left`)

  // what was cancelled waits for no more than the clean-up of handlers
  if (end.reason._tag === "Cancelled" && !(end.at - seen.cancelAt! <= 5_000)) {
    problems.push(`it was cancelled at ${seen.cancelAt}, and ended at ${end.at}`)
  }

  // afterwards
  if (seen.running !== 0) problems.push(`${seen.running} handlers still run`)
  if (seen.full !== 1_000) problems.push(`a full wave took ${seen.full}`)
  return problems
}
