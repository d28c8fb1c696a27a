/**
 * How the benchmarks of a run are independent: one that fails ends no other, and none sees what another did to the market.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { openLog } from '#infra/runtime/log.ts'
import type { Bench } from '#test/bench/bench.ts'
import { entryOf } from '#test/bench/entry.ts'
import { type Keepable, runBenches } from '#test/bench/run-benches.ts'

/** A market that remembers who used it since it was loaded, and who changed it. */
interface Market extends Keepable {
  usedBy: string[]
  changedBy: string[]
  isAtRest: boolean
}

async function outcomeOf(benches: readonly Bench<Market>[], signal = new AbortController().signal) {
  const seen = { opened: 0, open: 0, notes: [] as string[] }
  const entries = await runBenches(benches, {
    context: { isQuick: false, log: openLog({ level: 'silent', name: 'bench' }), signal },
    async openStage() {
      seen.opened += 1
      seen.open += 1
      const market: Market = {
        usedBy: [],
        changedBy: [],
        isAtRest: false,
        async comeToRest() {
          market.isAtRest = true
        },
        async close() {
          seen.open -= 1
        },
      }
      return market
    },
    openBenchPlatform: () => Promise.reject(new Error('no platform is needed')),
    step: () => {},
    note: text => seen.notes.push(text),
  })
  return { ...seen, lines: entries.map(({ name, failure = 'none' }) => [name, failure]) }
}

/** One that reads the market, changes what it lists, or has half changed it when it fails. */
const bench = (name: string, does: 'read' | 'change' | 'fail'): Bench<Market> => ({
  name,
  about: '',
  ...(does === 'change' && { ownStage: true }),
  async run({ stage }) {
    const market = await stage()
    expect(market.changedBy, name).to.deep.equal([])
    expect(market.isAtRest, name).to.equal(true)
    if (does === 'change') expect(market.usedBy, name).to.deep.equal([])
    market.usedBy.push(name)
    market.isAtRest = false
    if (does !== 'read') market.changedBy.push(name)
    if (does === 'fail') throw new Error('half way')
    return [entryOf(name, 'ms', 1)]
  },
})

describe('bench runs', () => {
  it('give every benchmark, in any order, a market at rest that none has changed or, where it changes it, that was just loaded', async () => {
    const kinds = ['read', 'change', 'fail'] as const
    const benches = Array.from({ length: 9 }, (_, at) => bench(String(at), kinds[at % 3] ?? 'read'))
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(benches), async order => {
        const { lines, open, notes } = await outcomeOf(order)
        const fails = (name: string) => Number(name) % 3 === 2
        const due = order.map(({ name }) => (fails(name) ? [`${name}: failed`, 'half way'] : [name, 'none']))
        expect(lines).to.deep.equal(due)
        expect(open).to.equal(0)
        for (const { name } of order) expect(notes.join()).to.include(fails(name) ? `${name} FAILED` : `${name}: `)
      }),
    )
  })

  it('load the market once for benchmarks that leave it as it was', async () => {
    expect((await outcomeOf([bench('a', 'read'), bench('b', 'read'), bench('c', 'read')])).opened).to.equal(1)
  })

  it('end at the signal, with what was measured by then', async () => {
    const stop = new AbortController()
    const last: Bench<Market> = {
      name: 'last',
      about: '',
      run: () => {
        stop.abort(new Error('stopped'))
        return new Promise(() => {})
      },
    }
    const { lines, open } = await outcomeOf([bench('a', 'read'), last, bench('b', 'read')], stop.signal)
    expect(lines).to.deep.equal([['a', 'none']])
    expect(open).to.equal(0)
  })
})
