/** The sessions of `tool-executor agent`: one folder for each root, in the user's state folder. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Session, Transcripts } from "../../agent/Transcripts.ts"
import { escape } from "../../internal/escape.ts"
import { clip } from "../../terminal/clip.ts"
import * as TranscriptFolder from "../../tools/folders/TranscriptFolder.ts"
import { wrong } from "../CliFailure.ts"
import * as StateFolder from "../StateFolder.ts"

export interface Wanted {
  /** The name of a new one. */
  readonly begin: Option.Option<string>
  /** The name of a session to resume; empty: the last one. */
  readonly resume: Option.Option<string>
}

/**
 * Finds the session that is wanted, and what keeps it; `undefined` where none is. Fails with exit code 2 where it is
 * there and should not be, or the other way round.
 */
export const find = Effect.fnUntraced(function*({ begin, resume }: Wanted, root: string) {
  if (Option.isNone(begin) && Option.isNone(resume)) return undefined
  if (Option.isSome(begin) && Option.isSome(resume)) {
    return yield* wrong("--session starts a new session and --resume continues one. Use only one of them.")
  }
  const directory = yield* StateFolder.folderOf("sessions", root)
  if (directory === undefined) {
    return yield* wrong("There is no home folder for sessions. Set HOME or XDG_STATE_HOME.")
  }
  const transcripts = yield* TranscriptFolder.make({ directory, root })
  const sessions = yield* Effect.mapError(transcripts.list, (error) => wrong(escape(error.message)))
  const name = Option.isSome(begin)
    ? yield* beginning(begin.value, sessions)
    : yield* resuming(Option.getOrElse(resume, () => ""), sessions)
  const found: { readonly name: string; readonly transcripts: Transcripts["Service"] } = { name, transcripts }
  return found
})

const beginning = (name: string, sessions: ReadonlyArray<Session>) => {
  if (name === "") return wrong("--session: a name is missing")
  return sessions.some((it) => it.name === name)
    ? wrong(`The session ${shown(name)} already exists. Continue it with --resume=NAME.`)
    : Effect.succeed(name)
}

const resuming = (name: string, sessions: ReadonlyArray<Session>) => {
  const found = name === "" ? sessions[0] : sessions.find((it) => it.name === name)
  if (found !== undefined) return Effect.succeed(found.name)
  const which = name === "" ? "There is no session" : `There is no session ${shown(name)}`
  const others = sessions.slice(0, listed).map((it) => `\n  ${lineOf(it)}`).join("")
  return wrong(
    others === ""
      ? `${which} for this root. Start one with --session NAME.`
      : `${which} for this root. Existing sessions, newest first:${others}`
  )
}

const listed = 20

const shown = (name: string): string => clip(JSON.stringify(name), 100)

const lineOf = ({ at, name, words }: Session): string =>
  `${clip(name, 40)}  ${DateTime.formatIso(DateTime.makeUnsafe(at)).slice(0, 16)}Z  ${clip(words, 60)}`
