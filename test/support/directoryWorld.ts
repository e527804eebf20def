/**
 * What the sentences about a `SessionDirectory` share with its runners: tools, agents, users, and a record of what ran.
 * Runners of one test are in one process, so that a sentence sees what each of them does.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import * as SubAgent from "../../src/agent/SubAgent.ts"
import { LocalExecutor, ToolAnnotations, ToolHandlers } from "../../src/index.ts"
import type { User } from "../../src/server/api/ApiAccess.ts"
import * as Agents from "../../src/server/operations/Agents.ts"
import type { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as Access from "../../src/server/users/Access.ts"
import type { Owner } from "../../src/server/users/Principals.ts"
import type { ModelRequest } from "../../src/testing/ModelRequest.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as WorkspaceTools from "../../src/tools/workspace/WorkspaceTools.ts"
import { words } from "./Agents.ts"
import { Held } from "./Server.ts"

type Directory = SessionDirectory["Service"]

/** The directories that the sentences hold for. */
export class Subject extends Context.Service<Subject, {
  /** One for each runner. Each step of a sentence asks the next one. */
  readonly directories: readonly [Directory, ...ReadonlyArray<Directory>]
  /**
   * Happens to a session between steps of a sentence, while nothing of it runs but what waits for people: it may be
   * closed, moved or left as it is. A runner may also be killed.
   */
  readonly between: (owner: Owner) => Effect.Effect<void>
}>()("test/support/directoryWorld/Subject") {}

const Key = Schema.Struct({ key: Schema.String })

const Pay = Tool.make("pay", { description: "Pays", parameters: Key, success: Schema.String })
  .annotate(ToolAnnotations.Targets, (params) => [{ text: (params as typeof Key.Type).key }])

const Save = Tool.make("save", {
  description: "Saves a text",
  parameters: Schema.Struct({ path: Schema.String, text: Schema.String }),
  success: Schema.String
})
  .annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { readonly path: string }).path }])
  .annotate(ToolAnnotations.Preview, (params) => {
    const { path, text } = params as { readonly path: string; readonly text: string }
    return Effect.succeed([{ path, before: "before\n", after: text }])
  })

const Hold = Tool.make("hold", { description: "Waits", parameters: Key, success: Schema.String })
  .annotate(Tool.Readonly, true)

const own = Toolkit.make(
  Pay,
  Save,
  Tool.make("look", { description: "Looks", parameters: Key, success: Schema.String }).annotate(Tool.Readonly, true),
  Hold
)

const clerk = SubAgent.make("clerk", {
  description: "Pays bills",
  parameters: Key,
  prompt: ({ key }) => `pay ${key}`,
  toolkit: Toolkit.make(Pay)
})

/** Works in the background: it pays, waits, and pays again. */
const courier = SubAgent.make("courier", {
  description: "Runs errands",
  parameters: Key,
  prompt: ({ key }) => `errand ${key}`,
  toolkit: Toolkit.merge(Toolkit.make(Pay), Toolkit.make(Hold)),
  background: true
})

/** What the model does next: it follows the last message of the user, and then tells what it has read. */
const script = ({ prompt }: ModelRequest) => {
  const said = words(prompt)
  const asked = said.findLastIndex((it) => it.startsWith("user: "))
  const [what = "", ...keys] = said[asked]!.slice("user: ".length).split(" ")
  const results = said.slice(asked).filter((it) => /^(?:result|error) /.test(it))
  const errand = what === "errand" ? errands[results.length] : undefined
  if (errand !== undefined) return { calls: [{ name: errand, params: { key: `${keys[0]}-${results.length}` } }] }
  if (results.length > 0) return { text: `read ${results.length}` }
  if (what === "send") return { text: "My courier does it.", calls: [{ name: "courier", params: { key: keys[0] } }] }
  if (what === "delegate") return { text: "My clerk does it.", calls: [{ name: "clerk", params: { key: keys[0] } }] }
  return ["hold", "look", "pay"].includes(what)
    ? { text: "One moment.", calls: keys.map((key) => ({ name: what, params: { key } })) }
    : { text: `You said: ${[what, ...keys].join(" ")}`, usage: { input: 3, output: 4 } }
}

const errands: ReadonlyArray<string> = ["pay", "hold", "pay"]

/** What runners of a test are built of, but for their stores. */
export interface World {
  /** Keys of calls that changed something, in order. */
  readonly ran: ReadonlyArray<string>
  readonly held: Held
  /** Tools, gates, agents and users. Writes of the workspace tools need `Checkpoints`. */
  readonly layer: Layer.Layer<Access.Access | LocalExecutor.Gates | ToolHandlers.ToolHandlers>
}

/** Makes tools over a folder, and agents over one model: its ids are unique whichever runner asks it. */
export const world = Effect.fnUntraced(function*(folder: string) {
  const ran: Array<string> = []
  const held = new Held()
  const model = yield* ScriptedModel.make(script)
  const workspace = WorkspaceTools.make({ root: folder })
  const handlers = own.toLayer({
    pay: ({ key }) => Effect.as(Effect.sync(() => ran.push(key)), `paid ${key}`),
    save: ({ path }) => Effect.as(Effect.sync(() => ran.push(path)), `saved ${path}`),
    look: ({ key }) => Effect.succeed(`seen ${key}`),
    hold: ({ key }) => Effect.as(held.hold(key), `held ${key}`)
  })
  const toolkit = Toolkit.merge(own, clerk.toolkit, courier.toolkit)
  const tools = ToolHandlers.layer([toolkit, workspace.toolkit]).pipe(
    Layer.provide([handlers, clerk.layer, courier.layer, workspace.layer])
  )
  const users = Layer.succeed(Access.Access, {
    userOf: () => Effect.succeedNone,
    mayRun: () => Effect.succeed(true)
  })
  const gates = LocalExecutor.layerGates({ policy: { default: "allow", ask: ["pay", "save"] }, dedupe: false })
  const agents = Agents.layer({ helper: { model: model.layer }, other: { model: model.layer, onBusy: "reject" } })
  const layer = Layer.mergeAll(gates, agents, users).pipe(Layer.provideMerge(tools), Layer.orDie)
  return { ran, held, layer }
})

/** What one sentence works with: users and a session of its own. */
export class Env {
  readonly world: World
  /** Runs calls, and approves nothing. */
  readonly user: User
  /** Approves for the user, and sees what they do. */
  readonly boss: User
  /** Another user, who may do everything in their own sessions. */
  readonly stranger: User
  readonly owner: Owner
  /** A session of the stranger with the same name. */
  readonly theirs: Owner
  private readonly subject: Subject["Service"]
  private turn = 0

  constructor(world: World, subject: Subject["Service"]) {
    const life = randomUUID().slice(0, 8)
    const [user, boss, stranger] = [`ada-${life}`, `bob-${life}`, `eve-${life}`]
    const may = { run: true, approve: [], records: [], operate: false }
    this.world = world
    this.subject = subject
    this.user = { ...may, name: user }
    this.boss = { ...may, name: boss, approve: [user], records: [user] }
    this.stranger = { ...may, name: stranger, approve: [stranger] }
    this.owner = { user, session: "one" }
    this.theirs = { user: stranger, session: "one" }
  }

  /** The directory of the next runner. */
  get at(): Directory {
    const { directories } = this.subject
    return directories[this.turn++ % directories.length]!
  }

  /** What happens to sessions between two steps. */
  get between(): Effect.Effect<void> {
    return this.subject.between(this.owner)
  }

  /** A key that no other sentence uses. */
  key(name: string): string {
    return `${this.owner.user}-${name}`
  }

  /** How often the calls with a key ran. */
  runsOf(name: string): number {
    return this.world.ran.filter((it) => it === this.key(name)).length
  }

  /** Waits until so many requests of the user are pending, as their approver sees them. */
  pending(count = 1) {
    return Effect.suspend(() => this.at.approvals(this.boss)).pipe(
      Effect.map(({ open }) => open),
      Effect.repeat({ until: (open) => open.length === count, schedule: often })
    )
  }

  /** Answers the only pending request. */
  readonly answer = Effect.fnUntraced(function*(this: Env, answer: Parameters<Directory["answer"]>[1]["answer"]) {
    const [request] = yield* this.pending()
    return yield* this.at.answer(this.boss, { id: request!.id, hash: request!.hash, answer })
  })
}

export type Sentence = readonly [name: string, check: (env: Env) => Effect.Effect<unknown, unknown, Scope.Scope>]

const often = Schedule.spaced("10 millis")

/** Waits until a reading is so. */
export const eventually = <A, E>(read: () => Effect.Effect<A, E>, is: (value: A) => boolean): Effect.Effect<A, E> =>
  Effect.repeat(Effect.suspend(read), { until: is, schedule: often })

/** An event as a client has it. */
export interface Event {
  readonly id?: string | undefined
  readonly data: { readonly _tag: string }
}

/**
 * Reads events as clients do, up to the last one: a stream that ends earlier is continued behind its last id, and a
 * `Reset` discards everything.
 */
export const follow = <A extends Event, E>(
  watch: (after: string | undefined) => Effect.Effect<Stream.Stream<A>, E>,
  isLast: (event: A) => boolean,
  from?: string
): Effect.Effect<ReadonlyArray<A>, E> =>
  Effect.gen(function*() {
    const seen: Array<A> = []
    let after = from
    const take = (it: A) =>
      Effect.sync(() => {
        after = it.id ?? after
        if (it.data._tag === "Reset") seen.length = 0
        else if (it.data._tag !== "Heartbeat") seen.push(it)
      })
    while (!seen.some(isLast)) {
      const events = yield* watch(after)
      yield* events.pipe(Stream.takeUntil(isLast), Stream.runForEach(take))
    }
    return seen
  })

/** A message of OpenAI with calls. */
export const message = (...calls: ReadonlyArray<readonly [id: string, name: string, params: object]>) => ({
  role: "assistant",
  tool_calls: calls.map(([id, name, params]) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(params) }
  }))
})
