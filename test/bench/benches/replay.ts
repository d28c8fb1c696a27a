/**
 * `marketlog replay` at speed 0 against a consumer that only counts, both over all of market.book-changes.
 *
 * In turns, in one process of its own; each comes first as often. Replay reads, decodes every event and writes JSON lines; its raw form leaves the
 * bytes as they are. A turn counts only when both have seen the same number of records.
 */
import { type Baseline, type Measured, startBaseline } from '../baseline.ts'
import type { ReadQuestion } from '../baselines/log-readers.ts'
import type { Bench, Better, Entry } from '../bench.ts'
import { ratioEntry, type Turn } from '../entry.ts'

const TURNS = 5
const READERS = new URL('../baselines/log-readers.ts', import.meta.url)

/** Records a second. */
export const replay: Bench = {
  name: 'replay',
  ownStage: true,
  about: 'records a second of replay at speed 0, against a consumer that only counts',
  async run(context) {
    const stage = await context.stage()
    const readers = startBaseline(READERS)
    try {
      const ends = await stage.ends('bookChanges')
      const turns: { raw: Turn; json: Turn; cpu: Turn }[] = []
      for (let turn = 0; turn <= (context.isQuick ? 1 : TURNS); turn++) {
        context.signal.throwIfAborted()
        context.say(`turn ${turn}`)
        const took = await oneTurn(
          readers,
          { environment: stage.environment, ends, turn: String(turn) },
          turn % 2 === 0,
        )
        // The first one warms the broker's cache and both programs.
        if (turn > 0) turns.push(took)
      }
      return entriesOf(turns)
    } finally {
      await readers.stop()
    }
  },
}

async function oneTurn(readers: Baseline, question: ReadQuestion, isCountedFirst: boolean) {
  const count = (): Promise<Measured> => readers.ask<Measured>('count', question)
  const early = isCountedFirst ? await count() : undefined
  const raw = await readers.ask<Measured>('replay', { ...question, isRaw: true })
  const json = await readers.ask<Measured>('replay', { ...question, isRaw: false })
  const counted = early ?? (await count())
  if (counted.count === 0) throw new Error('replay: there was nothing to read')
  for (const { count } of [raw, json]) {
    if (count !== counted.count) throw new Error(`replay had ${count} records, the counting consumer ${counted.count}`)
  }
  const against = rateOf(counted)
  return {
    raw: { value: rateOf(raw), against },
    json: { value: rateOf(json), against },
    cpu: { value: microsecondsOf(json), against: microsecondsOf(counted) },
  }
}

const rateOf = ({ count, ms }: Measured): number => (count * 1_000) / ms

const microsecondsOf = ({ count, cpuSeconds }: Measured): number => (cpuSeconds * 1e6) / count

function entriesOf(turns: readonly { raw: Turn; json: Turn; cpu: Turn }[]): Entry[] {
  const named = (name: string, unit: string, better: Better) => ({ name: `replay at speed 0, ${name}`, unit, better })
  return [
    ratioEntry(
      named('raw: against counting', 'records/s', 'higher'),
      turns.map(({ raw }) => raw),
    ),
    ratioEntry(
      named('JSON lines: against counting', 'records/s', 'higher'),
      turns.map(({ json }) => json),
    ),
    ratioEntry(
      named('JSON lines: CPU of a record, beside counting', 'us', 'lower'),
      turns.map(({ cpu }) => cpu),
    ),
  ]
}
