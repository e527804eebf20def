/** The messages to a session: its methods, and what keeps its place. A stream begins with `null`: another `null` in it says that the message was sent again and the stream begins anew. */
import * as ClusterSchema from "effect/cluster/ClusterSchema"
import * as Entity from "effect/cluster/Entity"
import * as Rpc from "effect/rpc/Rpc"
import * as Schema from "effect/Schema"
import * as Approvals from "../server/api/ApiApprovals.ts"
import * as Models from "../server/api/ApiModels.ts"
import { NotFound, Unavailable, WaveUnreadable } from "../server/api/ApiProblems.ts"
import { all, method, Moved } from "../server/sessions/SessionMethods.ts"

const Part = Schema.Struct({
  id: Schema.String,
  index: Schema.Finite,
  side: Schema.Literals(["before", "after"]),
  from: Schema.Finite
})

const messages = [
  ...all,
  /** Waits for the end of a wave. `null`: it has not ended yet. Ask again. */
  method("result", [Schema.String], Schema.NullOr(Models.Wave), [NotFound, WaveUnreadable]),
  /** A part of a file of an approval request, which is where its call waits. */
  method("part", [Part], Approvals.Part, [NotFound]),
  /** Something has changed in the stores. */
  Rpc.make("poke", { error: Schema.Union([Unavailable, Moved]) }),
  /** From the session to itself: lasts as long as it is open, so that its place is kept. */
  Rpc.make("run").annotate(ClusterSchema.InterruptOnTermination, true)
] as const

export type Message = (typeof messages)[number]

/** A session as an entity; its id is the principal. */
export const SessionEntity = Entity.make("tool-session/1", messages)
