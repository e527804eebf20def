/** What a person decides by: the headline, facts and consequence of approval requests, in words. Pure. */
import type { ApprovalRequest, ApprovalSummary } from "../server/api/ApiApprovals.ts"
import { count } from "./words.ts"

/** A request in a headline: what is done, and to what. */
export interface Headline {
  readonly verb: string
  /** Names of tools and targets are untrusted and set in a fixed width. */
  readonly of: string | undefined
}

/** The headline of a request; the first target stands for all. */
export const headlineOf = (
  { facts: { files, title }, targets: [target], tool }: Pick<ApprovalSummary, "facts" | "targets" | "tool">,
  command?: Command
): Headline => {
  if (command !== undefined) {
    return { verb: command.folder === undefined ? "Run a command" : "Run a command in", of: command.folder }
  }
  if (files !== undefined && files.changed > 1) return { verb: `Write ${count(files.changed, "file")}`, of: undefined }
  if (files !== undefined) return { verb: files.created > 0 ? "Create" : "Write", of: target?.text ?? tool }
  return title === undefined
    ? { verb: "Call", of: target === undefined ? tool : `${tool} ${target.text}` }
    : { verb: title, of: target?.text }
}

/** A shell command among the arguments. */
export interface Command {
  readonly line: string
  readonly folder: string | undefined
}

/** The command that the arguments name, if they do. */
export const commandIn = (args: ApprovalRequest["args"]): Command | undefined => {
  const { command, cwd } = fieldsOf(args)
  return typeof command !== "string"
    ? undefined
    : { line: command, folder: typeof cwd === "string" && cwd !== "" ? cwd : undefined }
}

/** Arguments that the evidence does not show yet. `texts` are contents of files that it shows. */
export const leftOf = (
  args: ApprovalRequest["args"],
  { command, targets, texts }: {
    readonly targets: ApprovalRequest["targets"]
    readonly texts: ReadonlyArray<string>
    readonly command: Command | undefined
  }
): unknown => {
  if (Object.keys(fieldsOf(args)).length === 0) return args
  const isShown = (value: unknown): boolean =>
    typeof value === "string"
      ? targets.some((it) => it.text === value) || texts.some((it) => it.includes(value))
      : Array.isArray(value)
      ? value.every(isShown)
      : typeof value === "object" && value !== null && Object.values(value).every(isShown)
  return Object.fromEntries(
    Object.entries(fieldsOf(args)).filter(([name, value]) =>
      command !== undefined
        ? name !== "command" && (name !== "cwd" || value === "")
        : texts.length === 0 || !isShown(value)
    )
  )
}

const fieldsOf = (args: ApprovalRequest["args"]): Readonly<Record<string, unknown>> =>
  typeof args === "object" && args !== null && !Array.isArray(args) ? args as Readonly<Record<string, unknown>> : {}

/** A fact as a mark and a few words; `bad` cannot be undone, `wait` guards other things. */
export interface Fact {
  readonly as: "" | "bad" | "wait"
  readonly icon: string
  readonly text: string
}

/** The facts of requests that are answered together: the worst case counts. */
export const factsOf = (all: ReadonlyArray<Pick<ApprovalSummary, "facts" | "targets">>): ReadonlyArray<Fact> => {
  const changed = all.reduce((sum, { facts }) => sum + (facts.files?.changed ?? 0), 0)
  const isReading = all.every(({ facts }) => facts.readOnly)
  return [
    ...changed > 0 ? [{ as: "", icon: "file", text: `Changes ${count(changed, "file")}` } as const] : [],
    isReading
      ? { as: "", icon: "search", text: "Reads only" }
      : isUndoable(all)
      ? { as: "", icon: "undo", text: all.length > 1 ? "All can be undone" : "Can be undone" }
      : { as: "bad", icon: "wait", text: "Cannot be undone" },
    ...all.some(({ facts }) => facts.openWorld) ? [{ as: "", icon: "link", text: "Reaches the network" } as const] : [],
    ...all.some(({ targets }) => targets.some((it) => it.kind === "protected"))
      ? [{ as: "wait", icon: "shield", text: "Protected target" } as const]
      : []
  ]
}

/** Whether nothing is lost by approving all of them. */
export const isUndoable = (all: ReadonlyArray<Pick<ApprovalSummary, "facts">>): boolean =>
  all.every(({ facts }) => facts.undoable || facts.readOnly)

/** What approving does, in one sentence, and whether it can be undone in another. */
export const consequenceOf = (
  all: ReadonlyArray<Pick<ApprovalSummary, "facts" | "tool">>,
  command?: Command
): string => {
  const changed = all.reduce((sum, { facts }) => sum + (facts.files?.changed ?? 0), 0)
  const [first] = all
  const others = changed === 0 ? 0 : all.filter(({ facts }) => facts.files === undefined).length
  const what = changed > 0
    ? `Writes ${count(changed, "file")}${others > 0 ? ` and runs ${count(others, "other call")}` : ""}.`
    : command !== undefined
    ? "Runs a command."
    : all.every(({ facts }) => facts.openWorld)
    ? "Sends data outside."
    : all.length > 1
    ? `Runs ${count(all.length, "call")}.`
    : `Calls ${first?.facts.title ?? first?.tool ?? ""}.`
  return all.every(({ facts }) => facts.readOnly)
    ? "Reads only. Nothing changes."
    : isUndoable(all)
    ? `${what} You can undo ${all.length === 1 && changed < 2 ? "it" : "them"}.`
    : all.some((it) => isUndoable([it]))
    ? `${what} Not all of this can be undone.`
    : `${what} This cannot be undone.`
}

/** The requests of a conversation. */
export interface Group {
  readonly user: string
  readonly session: string
  readonly requests: ReadonlyArray<ApprovalSummary>
}

/** Requests by conversation, the one with the oldest request first. */
export const groupsOf = (open: ReadonlyArray<ApprovalSummary>): ReadonlyArray<Group> => {
  const groups = new Map<string, Array<ApprovalSummary>>()
  for (const it of open) {
    const key = JSON.stringify([it.user, it.session])
    groups.set(key, [...groups.get(key) ?? [], it])
  }
  return Array.from(
    groups.values(),
    (requests) => ({ user: requests[0]!.user, session: requests[0]!.session, requests })
  )
}

/** Pending requests in the order of the list. */
export const inOrder = (open: ReadonlyArray<ApprovalSummary>): ReadonlyArray<ApprovalSummary> =>
  groupsOf(open).flatMap(({ requests }) => requests)

/** What a call is about, from its arguments: a path, a command, or else its first text. */
export const targetOf = (params: unknown): string => {
  if (typeof params === "string") return oneLine(params)
  if (typeof params !== "object" || params === null) return params === undefined ? "" : String(params)
  const fields = params as Readonly<Record<string, unknown>>
  const name = names.find((it) => typeof fields[it] === "string" && fields[it] !== "")
  const text = name === undefined ? Object.values(fields).find((it) => typeof it === "string") : fields[name]
  return typeof text === "string" ? oneLine(text) : Object.keys(fields).length === 0 ? "" : JSON.stringify(params)
}

const names = ["path", "file", "command", "url", "query", "task", "prompt", "to", "name", "id"]

const oneLine = (text: string): string => {
  const line = text.slice(0, 300).replace(/\s+/g, " ").trim()
  return line.length > 160 ? `${line.slice(0, 160)}…` : line
}
