/**
 * The records of a wave's calls: begun once all have arrived and it is known what they
 * are about.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { CallRecord, type RecordedWave } from "./CallRecord.ts"
import type { JournalWriter } from "./JournalWriter.ts"
import * as Resume from "./Resume.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Begins the records of a wave; of calls that were handed over before, from what is on
 * record of them.
 *
 * @category steps
 * @since 0.1.0
 */
export const begin = (wave: WaveState, journal: JournalWriter): Effect.Effect<void> => {
  const { begunAt, clock, engine, events, options: { resume }, process } = wave
  // not the wave itself, which is over long before its records are
  const shared: RecordedWave = {
    writer: journal,
    engine: { principal: engine.principal },
    events: { origin: events.origin },
    named: process.isNamed ? process.id : undefined,
    begunAt,
    now: () => clock.currentTimeMillisUnsafe()
  }
  const ids = new Map<string, number>()
  const records: Array<Resume.Record> = []
  for (const call of wave.calls) {
    if (call.isSettled) continue
    const { id } = call.call
    const occurrence = ids.get(id) ?? 0
    ids.set(id, occurrence + 1)
    records.push({ call, record: new CallRecord(shared, call, occurrence) })
  }
  if (resume !== undefined) return Resume.resume(wave, journal, records, resume)
  for (const { call, record } of records) {
    call.record = record
    record.arrived(false)
  }
  return Effect.void
}
