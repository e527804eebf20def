/** The journal records of a wave's calls, begun once all calls have arrived and their targets are known. */
import * as Effect from "effect/Effect"
import type { WaveHost } from "../call/WaveHost.ts"
import { CallRecord, type RecordedWave } from "../report/CallRecord.ts"
import type { JournalWriter } from "../report/JournalWriter.ts"
import * as EarlierWaves from "./EarlierWaves.ts"
import * as Resume from "./Resume.ts"

/** Begins the records of a wave, or resumes calls from the records they have. */
export const begin = (wave: WaveHost, journal: JournalWriter): Effect.Effect<void> => {
  const { options: { resume } } = wave
  const records = recordsOf(wave, journal)
  if (resume !== undefined) return Resume.resume(wave, journal, records, resume)
  for (const { call, record } of records) {
    call.observed = { ...call.observed, record }
    wave.facts?.report({ _tag: "Arrived", at: wave.begunAt, isResumed: false }, call)
  }
  return Effect.void
}

/** Restores the process of a resumed wave from its earlier waves, before any of its calls is checked. */
export const goOn = (wave: WaveHost, journal: JournalWriter): Effect.Effect<void> =>
  wave.process.remembers
    ? Effect.void
    : EarlierWaves.goOn(wave, journal.driver, new Set(recordsOf(wave, journal).map(({ record }) => record.key)))

const recordsOf = (wave: WaveHost, journal: JournalWriter): ReadonlyArray<Resume.Record> => {
  const { begunAt, engine, origin, process } = wave
  // does not hold the wave, which ends long before its records
  const shared: RecordedWave = {
    writer: journal,
    term: wave.term,
    principal: engine.principal,
    origin,
    named: process.isNamed ? process.id : undefined,
    begunAt,
    conversation: engine.conversations === undefined ? undefined : process.session.name,
    numbered: engine.conversations?.numbered(process),
    near: journal.driver.digest(JSON.stringify([engine.principal, origin.batch])).slice(0, 8)
  }
  const records: Array<Resume.Record> = wave.calls.filter((call) => !call.isSettled).map((call) => ({
    call,
    record: new CallRecord(shared, call)
  }))
  count(records)
  return records
}

/** Numbers equal calls regardless of their place, so that a part of a wave can be resumed, too. */
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
