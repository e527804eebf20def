/** Handlers for clients of other libraries. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Approvals from "../../core/gates/Approvals.ts"
import { AgUiWriter } from "../formats/AgUi.ts"
import * as ChatMessages from "../formats/ChatMessages.ts"
import { FormattedOperation, type From, type Handle, readHandle, type Writer } from "../formats/FormattedOperation.ts"
import * as FormattedStream from "../formats/FormattedStream.ts"
import { UiMessageWriter } from "../formats/UiMessageStream.ts"
import * as Limits from "../guard/Limits.ts"
import { SessionDirectory } from "../sessions/SessionDirectory.ts"
import type { Owner } from "../users/Principals.ts"
import * as Rights from "../users/Rights.ts"
import { Api } from "./Api.ts"
import { type Authorization, type Checks, CurrentUser } from "./ApiAccess.ts"
import { type AgUiInput, FormatOptions } from "./ApiFormats.ts"
import { isName } from "./ApiModels.ts"
import type { OnBusy } from "./ApiOperations.ts"
import { Invalid, NotAllowed } from "./ApiProblems.ts"

export const layer: Layer.Layer<
  HttpApiGroup.Service<"tool-executor", "formats">,
  never,
  Authorization | Checks | Limits.Limits | SessionDirectory
> = HttpApiBuilder.group(
  Api,
  "formats",
  Effect.fnUntraced(function*(handlers) {
    const directory = yield* SessionDirectory
    const limits = yield* Limits.Limits

    /** Sends a message of the user. `waiting` replaces `queue` as what the agent does while approval is pending. */
    const send = Effect.fnUntraced(function*(
      owner: Owner,
      { agent, id, onBusy, prompt }: FormatOptions & { readonly id: string; readonly prompt: string },
      waiting: OnBusy
    ) {
      if (!isName(id)) return yield* invalid("messages", "the id of the last message is not a name", names)
      const listed = yield* directory.agents
      const last = Option.getOrUndefined(yield* directory.conversation(owner))?.agent
      const name = agent ?? last ?? (listed.length === 1 ? listed[0]!.name : undefined)
      if (name === undefined) {
        const known = listed.map((it) => `"${it.name}"`).join(", ")
        return yield* invalid("agent", "is missing, and there are several agents", `one of ${known}`)
      }
      const running = Option.getOrUndefined(yield* directory.running(owner))
      const usual = listed.find((it) => it.name === name)?.onBusy
      const how = onBusy ?? (running?.state === "waiting" && usual === "queue" ? waiting : undefined)
      const message = { agent: name, id, prompt, ...how === undefined ? {} : { onBusy: how } }
      return (yield* directory.start(owner, message)).operation.id
    })

    /**
     * Answers a pending approval request of an operation. One that was answered before keeps its answer; those of other
     * operations are ignored. The result says whether others have to approve it, too.
     */
    const answer = Effect.fnUntraced(function*(
      owner: Owner,
      operation: string,
      { hash, request: id }: Handle,
      answer: Approvals.Answer
    ) {
      const user = yield* CurrentUser
      const isPending = directory.isPending(owner, { operation, id })
      if (!(yield* isPending)) return false
      return yield* directory.answer(user, { id, hash, answer }).pipe(
        Effect.map(({ how }) => how === "waiting"),
        Effect.catchTags({
          AlreadyEnded: () => Effect.succeed(false),
          NotFound: () =>
            Effect.flatMap(isPending, (is) => is ? Effect.fail(new NotAllowed({})) : Effect.succeed(false))
        })
      )
    })

    const respond = Effect.fnUntraced(function*<Chunk>(
      owner: Owner,
      operation: string,
      from: From,
      writerOf: (message: string) => Writer<Chunk>,
      headers?: { readonly [name: string]: string }
    ) {
      const reader = yield* CurrentUser
      const source = {
        events: yield* directory.watchOperation(owner, operation),
        formatted: new FormattedOperation(operation, from, writerOf),
        hashes: Effect.map(directory.approvals(reader), ({ open }) => new Map(open.map((it) => [it.id, it.hash])))
      }
      return FormattedStream.respond(source, limits.turn(owner.user), headers)
    })
    const chat = (owner: Owner, operation: string, from: From) =>
      respond(owner, operation, from, (it) => new UiMessageWriter(ChatMessages.replyOf(it)), chatHeaders)

    const resumeChat = Effect.fnUntraced(function*({ session }: { readonly session: string }) {
      const owner = yield* Rights.ownSession(session)
      const running = Option.getOrUndefined(yield* directory.running(owner))
      if (running === undefined) return HttpServerResponse.empty()
      return yield* chat(owner, running.id, { _tag: "Start" }).pipe(
        Effect.catchTag("NotFound", () => Effect.succeed(HttpServerResponse.empty()))
      )
    })

    return handlers.handleAll({
      chat: Effect.fnUntraced(function*({ params }) {
        const owner = yield* Rights.ownSession(params.session)
        yield* limits.answer(owner.user)
        return { messages: ChatMessages.fromHistory(yield* directory.history(owner)) }
      }),
      sendChat: Effect.fnUntraced(function*({ params, payload: { messages, trigger, ...options } }) {
        const owner = yield* Rights.ownSession(params.session)
        if (trigger === "regenerate-message") {
          return yield* invalid("trigger", "answers are not generated again: the server has the history", "a message")
        }
        const last = messages.at(-1)
        const reply = messages.findLast((it) => it.role === "assistant")
        const asked = reply === undefined ? [] : ChatMessages.askedIn(reply)
        if (asked.some((it) => it.answer !== undefined)) {
          const { operation } = asked.at(-1)!
          const waiting = new Set<string>()
          for (const it of asked) {
            if (it.answer === undefined) continue
            const { isApproved, reason } = it.answer
            const said = isApproved ? approval(reason) : denial(reason)
            if (yield* answer(owner, operation, it, said)) waiting.add(it.request)
          }
          if (last === reply) {
            const knows = ChatMessages.knows(reply!)
            return yield* chat(owner, operation, { _tag: "Pause", handles: asked, knows, waiting })
          }
        }
        if (last?.role !== "user") {
          const expected = "a message of the user, or answers to approval requests"
          return yield* invalid("messages", "the last message has nothing for the agent", expected)
        }
        const prompt = ChatMessages.textOf(last)
        if (prompt === undefined) return yield* invalid("messages", "the last message is not a text", "text parts")
        const operation = yield* send(owner, { ...options, id: last.id, prompt }, "settle")
        return yield* chat(owner, operation, { _tag: "Message", id: last.id })
      }),
      resumeChat: ({ params }) => resumeChat(params),
      resumeNamedChat: ({ params }) => resumeChat(params),
      runAgUi: Effect.fnUntraced(function*({ params, payload }) {
        const owner = yield* Rights.ownSession(params.session)
        const { forwardedProps = {}, messages, resume = [], runId, threadId } = payload
        if (threadId !== owner.session) {
          return yield* invalid(
            "threadId",
            "is another one than the session in the path",
            JSON.stringify(owner.session)
          )
        }
        const run = (operation: string, from: From) => {
          const writer = new AgUiWriter({ threadId, runId })
          return respond(owner, operation, from, () => writer)
        }
        const answers = yield* Effect.forEach(resume, (it, index) => {
          const handle = readHandle(it.interruptId)
          const given = answerOf(it)
          if (handle === undefined) {
            return invalid(`resume[${index}].interruptId`, "is unknown", "the id of an interrupt")
          }
          return given === undefined
            ? invalid(`resume[${index}].payload`, "is not an answer", "an object as in responseSchema")
            : Effect.succeed({ handle, given })
        })
        if (answers.length > 0) {
          const handles = answers.map((it) => it.handle)
          const { operation } = handles.at(-1)!
          const waiting = new Set<string>()
          for (const { given, handle } of answers) {
            if (yield* answer(owner, operation, handle, given)) waiting.add(handle.request)
          }
          const calls = new Set(messages.flatMap((it) => it.toolCalls ?? []).map((it) => it.id))
          return yield* run(operation, { _tag: "Pause", handles, knows: (it) => calls.has(it), waiting })
        }
        const prompt = promptOf(messages)
        if (prompt === undefined) return yield* invalid("messages", "the last message is not a text of the user", "one")
        const options = Option.getOrElse(optionsOf(forwardedProps), (): FormatOptions => ({}))
        const operation = yield* send(owner, { ...options, id: runId, prompt }, "reject")
        return yield* run(operation, { _tag: "Message", id: runId })
      })
    })
  })
)

/** Tells clients of the AI SDK which protocol follows. */
const chatHeaders = { "x-vercel-ai-ui-message-stream": "v1" }

const names = "1 to 100 of A-Z a-z 0-9 . _ : - , the first a letter or digit"

const invalid = (path: string, problem: string, expected: string) =>
  Effect.fail(new Invalid({ errors: [{ path, problem, expected }] }))

const approval = (note: string | undefined) => ({
  _tag: "ApproveOnce" as const,
  ...note === undefined || note === "" ? {} : { note }
})

const denial = (reason: string | undefined): Approvals.Answer => ({
  _tag: "Deny",
  ...reason === undefined ? {} : { reason }
})

const optionsOf = Schema.decodeUnknownOption(FormatOptions)

const answerPayload = Schema.decodeUnknownOption(Schema.Struct({
  approved: Schema.Boolean,
  reason: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String),
  data: Schema.optionalKey(Schema.Json),
  editedArgs: Schema.optionalKey(Schema.Json)
}))

/** The answer to an interrupt. Who dismisses it denies the call. */
const answerOf = ({ payload, status }: NonNullable<AgUiInput["resume"]>[number]): Approvals.Answer | undefined => {
  if (status === "cancelled") return denial(undefined)
  const given = Option.getOrUndefined(answerPayload(payload))
  if (given === undefined) return undefined
  if (!given.approved) return denial(given.reason)
  const { data, editedArgs, note } = given
  return {
    ...approval(note),
    ...data === undefined ? {} : { data },
    ...editedArgs === undefined ? {} : { params: editedArgs }
  }
}

/** The text of the last message, if it is the user's. */
const promptOf = (messages: AgUiInput["messages"]): string | undefined => {
  const last = messages.at(-1)
  if (last?.role !== "user") return undefined
  const { content, id } = last
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content
  return Array.isArray(parts) ? ChatMessages.textOf({ id, role: "user", parts }) : undefined
}
