/** The records of a wave's calls: begun once all have arrived and it is known what they are about. */
import * as Effect from "effect/Effect"
import type { Term } from "../store/Journal.ts"
import * as EarlierWaves from "./EarlierWaves.ts"
import { CallRecord, type RecordedWave } from "./report/CallRecord.ts"
import type { JournalWriter } from "./report/JournalWriter.ts"
import * as Resume from "./Resume.ts"
import type { WaveState } from "./WaveState.ts"

/** Begins the records of a wave; of calls that were handed over before, from what is on record of them. */
export const begin = (wave: WaveState, journal: JournalWriter): Effect.Effect<void> => {
  const { options: { resume } } = wave
  const records = recordsOf(wave, journal)
  if (resume !== undefined) return Resume.resume(wave, journal, records, resume)
  for (const { call, record } of records) {
    call.observed = { ...call.observed, record }
    wave.facts?.report({ _tag: "Arrived", at: wave.begunAt, isResumed: false }, call)
  }
  return Effect.void
}

/** Lets the process of a wave that is resumed go on from its earlier waves, before any of its calls is judged. */
export const goOn = (wave: WaveState, journal: JournalWriter): Effect.Effect<void> =>
  wave.process.remembers
    ? Effect.void
    : EarlierWaves.goOn(wave, journal.driver, new Set(recordsOf(wave, journal).map(({ record }) => record.key)))

// Utilities

const recordsOf = (wave: WaveState, journal: JournalWriter): ReadonlyArray<Resume.Record> => {
  const { begunAt, engine, origin, process } = wave
  // not the wave itself, which is over long before its records are
  let term: Term | undefined
  const shared: RecordedWave = {
    writer: journal,
    // where calls are taken over, only then
    get term() {
      return term ??= journal.driver.term?.()
    },
    principal: engine.principal,
    origin,
    named: process.isNamed ? process.id : undefined,
    begunAt,
    near: journal.driver.digest(JSON.stringify([engine.principal, origin.batch])).slice(0, 8)
  }
  const records: Array<Resume.Record> = wave.calls.filter((call) => !call.isSettled).map((call) => ({
    call,
    record: new CallRecord(shared, call)
  }))
  count(records)
  return records
}

/** Counts calls that are alike, wherever in their wave they stand: some of a wave's calls are still the same. */
const count = (records: ReadonlyArray<Resume.Record>): void => {
  const ids = new Set<string>()
  const repeated = new Set<string>()
  for (const { call: { call: { id } } } of records) (ids.has(id) ? repeated : ids).add(id)
  if (repeated.size === 0) return
  const alike = new Map<string, number>()
  for (const { call, record } of records) {
    if (!repeated.has(call.call.id)) continue
    const { identity } = record
    record.occurrence = alike.get(identity) ?? 0
    alike.set(identity, record.occurrence + 1)
  }
}
