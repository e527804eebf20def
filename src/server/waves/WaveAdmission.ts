/** The limits that a new wave, or a new session, is refused by. */
import { TooMany } from "../api/ApiProblems.ts"
import { fromPrincipal, type Owner, toPrincipal } from "../users/Principals.ts"
import type { ServedWave } from "./ServedWave.ts"
import type * as WaveOptions from "./WaveOptions.ts"

/** What is there, with what would be new. */
interface Load {
  /** Waves that run: all, and those of the user. */
  readonly all: ReadonlyArray<ServedWave>
  readonly mine: ReadonlyArray<ServedWave>
  /** Sessions that run or have an executor: all, and those of the user. */
  readonly sessions: number
  readonly mySessions: number
}

interface Limit {
  readonly most: keyof WaveOptions.Checked
  /** What is counted, in words. */
  readonly what: string
  readonly count: (load: Load) => number
  /** What to do about it. */
  readonly next: string
}

/** The first one that is exceeded refuses. */
const limits: ReadonlyArray<Limit> = [
  { most: "maxWavesPerUser", what: "of your waves", count: ({ mine }) => mine.length, next: "one of them has ended" },
  { most: "maxWaves", what: "waves", count: ({ all }) => all.length, next: "one of them has ended" },
  // the only wave of a user may have any size
  {
    most: "maxOpenCallsPerUser",
    what: "of your calls",
    count: ({ mine }) => several(mine, callsOf),
    next: "some of them have ended"
  },
  {
    most: "maxOpenCharsPerUser",
    what: "characters of your messages",
    count: ({ mine }) => several(mine, charsOf),
    next: "a wave has ended"
  },
  { most: "maxOpenChars", what: "characters", count: ({ all }) => several(all, charsOf), next: "a wave has ended" },
  { most: "maxSessionsPerUser", what: "of your sessions", count: ({ mySessions }) => mySessions, next: "" },
  { most: "maxSessions", what: "sessions", count: ({ sessions }) => sessions, next: "one of them has ended" }
]

/** Why a wave is refused, or a session without one. `active`: principals that have an executor. */
export const refusal = (
  bounds: WaveOptions.Checked,
  owner: Owner,
  running: ReadonlyArray<ServedWave>,
  active: ReadonlyArray<string>,
  wave?: ServedWave
): TooMany | undefined => {
  const all = wave === undefined ? running : [...running, wave]
  const sessions = new Set([...active, ...running.map((it) => toPrincipal(it.submitted)), toPrincipal(owner)])
  const load: Load = {
    all,
    mine: all.filter((it) => it.submitted.user === owner.user),
    sessions: sessions.size,
    mySessions: Array.from(sessions).filter((it) => fromPrincipal(it).user === owner.user).length
  }
  const limit = limits.find((it) => it.count(load) > bounds[it.most])
  if (limit === undefined) return undefined
  const next = limit.next === "" ? "End one of them first." : `Try again once ${limit.next}.`
  return new TooMany({ detail: `At most ${bounds[limit.most]} ${limit.what} can be open. ${next}` })
}

const several = (of: ReadonlyArray<ServedWave>, size: (wave: ServedWave) => number): number =>
  of.length < 2 ? 0 : of.reduce((sum, it) => sum + size(it), 0)

const callsOf = ({ calls }: ServedWave): number => calls.length

const charsOf = ({ messageChars }: ServedWave): number => messageChars
