/**
 * `marketlog replay` at speed 0 against a consumer that only counts, both over all of market.book-changes.
 *
 * In turns, in one process of its own; each comes first as often. Replay reads, decodes every event and writes JSON lines; its raw form leaves the
 * bytes as they are. A turn counts only when both have seen the same number of records.
 */
import type { Baseline } from '../baseline.ts'
import type { ReadCount, ReadQuestion } from '../baselines/log-readers.ts'
import type { Bench } from '../bench.ts'
import { entryOf, type Turn } from '../entry.ts'

const TURNS = 5

export const replay: Bench = {
  name: 'replay',
  ownStage: true,
  about: 'records a second of replay at speed 0, against a consumer that only counts',
  async run(context) {
    const stage = await context.stage()
    const readers = context.baseline('log-readers')
    const ends = await stage.ends('bookChanges')
    const turns: [raw: Turn, json: Turn][] = []
    for (let turn = 0; turn <= (context.isQuick ? 1 : TURNS); turn++) {
      context.signal.throwIfAborted()
      context.say(`turn ${turn}`)
      const question = { environment: stage.environment, ends, turn: String(turn) }
      const took = await oneTurn(readers, question, turn % 2 === 0)
      // The first one warms the broker's cache and both programs.
      if (turn > 0) turns.push(took)
    }
    return (['raw', 'JSON lines'] as const).map((form, at) => {
      const name = `replay at speed 0, ${form}: against counting`
      return entryOf(
        name,
        'records/s',
        turns.map(both => both[at as 0 | 1]),
      )
    })
  },
}

async function oneTurn(
  readers: Baseline,
  question: ReadQuestion,
  isCountedFirst: boolean,
): Promise<[raw: Turn, json: Turn]> {
  const count = (): Promise<ReadCount> => readers.ask<ReadCount>('count', question)
  const early = isCountedFirst ? await count() : undefined
  const raw = await readers.ask<ReadCount>('replay', { ...question, isRaw: true })
  const json = await readers.ask<ReadCount>('replay', { ...question, isRaw: false })
  const counted = early ?? (await count())
  if (counted.count === 0) throw new Error('replay: there was nothing to read')
  for (const { count } of [raw, json]) {
    if (count !== counted.count) throw new Error(`replay had ${count} records, the counting consumer ${counted.count}`)
  }
  const against = rateOf(counted)
  return [
    { value: rateOf(raw), against },
    { value: rateOf(json), against },
  ]
}

const rateOf = ({ count, ms }: ReadCount): number => (count * 1_000) / ms
