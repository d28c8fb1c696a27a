/**
 * How the benchmarks of a run are independent: one that fails ends no other, and none sees what another did to the market.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { openLog } from '#infra/runtime/log.ts'
import type { Bench } from '#test/bench/bench.ts'
import { figureEntry } from '#test/bench/entry.ts'
import { judged, problemsOf } from '#test/bench/judge.ts'
import { runBenches } from '#test/bench/run-benches.ts'
import type { Keepable } from '#test/bench/stage-keeper.ts'

/** A market that remembers who used it since it was loaded, and who changed it. */
interface Market extends Keepable {
  usedBy: string[]
  changedBy: string[]
  isAtRest: boolean
}

const line = (name: string) => figureEntry({ name, unit: 'ms', better: 'lower' }, 1)

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
  return { ...seen, entries }
}

const reading = (name: string): Bench<Market> => ({
  name,
  about: '',
  async run({ stage }) {
    const market = await stage()
    expect(market.changedBy, name).to.deep.equal([])
    expect(market.isAtRest, name).to.equal(true)
    market.usedBy.push(name)
    market.isAtRest = false
    return [line(name)]
  },
})

/** One that changes what the market lists. */
const changing = (name: string): Bench<Market> => ({
  name,
  about: '',
  ownStage: true,
  async run(context) {
    const market = await context.stage()
    expect(market.usedBy, name).to.deep.equal([])
    const lines = await reading(name).run({ ...context, stage: async () => market })
    market.changedBy.push(name)
    return lines
  },
})

describe('bench runs', () => {
  it('go on when a benchmark fails, and name it as a line that does not hold', async () => {
    const failing: Bench<Market> = { name: 'broken', about: '', run: () => Promise.reject(new Error('no rows')) }
    const { entries, notes } = await outcomeOf([reading('a'), failing, reading('b')])
    expect(entries.map(({ name }) => name)).to.deep.equal(['a', 'broken: failed', 'b'])
    expect(entries[1]).to.deep.include({ value: 1, bar: 0, holds: false, failure: 'no rows' })
    expect(notes.join()).to.include('broken FAILED')
    expect(judged(entries, {}).map(({ holds }) => holds)).to.deep.equal([null, false, null])
    expect(problemsOf(entries, { a: { atMost: 1 } }, true)).to.deep.equal([])
  })

  it('load another market after a benchmark that failed', async () => {
    const half: Bench<Market> = {
      name: 'half',
      about: '',
      async run({ stage }) {
        ;(await stage()).changedBy.push('half')
        throw new Error('half way')
      },
    }
    const { entries, opened, open } = await outcomeOf([reading('a'), half, reading('b')])
    expect(entries.map(({ name }) => name)).to.deep.equal(['a', 'half: failed', 'b'])
    expect({ opened, open }).to.deep.equal({ opened: 2, open: 0 })
  })

  it('give every benchmark, in any order, a market at rest that none has changed or, where it changes it, that was just loaded', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const benches = names.map((name, at) => (at % 2 === 0 ? reading(name) : changing(name)))
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(benches), async order => {
        const { entries, open } = await outcomeOf(order)
        expect(entries.map(({ name }) => name)).to.deep.equal(order.map(({ name }) => name))
        expect(open).to.equal(0)
      }),
    )
  })

  it('load the market once for benchmarks that leave it as it was', async () => {
    expect((await outcomeOf([reading('a'), reading('b'), reading('c')])).opened).to.equal(1)
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
    const { entries, open } = await outcomeOf([reading('a'), last, reading('b')], stop.signal)
    expect(entries.map(({ name }) => name)).to.deep.equal(['a'])
    expect(open).to.equal(0)
  })
})
