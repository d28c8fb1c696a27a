import { expect } from 'chai'
import fc from 'fast-check'
import { atOnce } from '#infra/runtime/turns.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { type CandleWindow, composeCandles, fillCandles, type StandingAsk } from '#streams/candles/compose.ts'
import { type CandleBatch, foldChange, mergeParts } from '#streams/candles/fold.ts'
import type { CandlePart, Part } from '#streams/candles/table.ts'
import { changeOf, changeSequences, type LoggedChange } from '#test/fixtures/book-change-sequences.ts'
import { partTable } from '#test/fixtures/part-table.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'

const FOREVER: CandleWindow = { start: 0, end: 4_102_444_800_000, intervalMs: HOUR_MS }

/** The rows of the tables after the log was written in the given batches. */
function stored(batches: readonly (readonly LoggedChange[])[]): { parts: Part[]; standing: StandingAsk[] } {
  const parts = new Map<string, Part>()
  const standing = new Map<string, StandingAsk & { version: number }>()
  for (const changes of batches) {
    const batch: CandleBatch = new Map()
    for (const { change, offset } of changes) foldChange(batch, change, offset)
    for (const [key, folded] of batch) {
      for (const part of folded.parts) {
        const partKey = `${key}|${part.intervalMs}|${part.bucket}`
        const before = parts.get(partKey)
        parts.set(partKey, before ? mergeParts(before, part) : part)
      }
      const row = { provider: folded.provider, ...folded.newest }
      if ((standing.get(key)?.version ?? -1) <= row.version) standing.set(key, row)
    }
  }
  return { parts: [...parts.values()], standing: [...standing.values()] }
}

function readable(part: Part): CandlePart {
  const falls = [...part.falls.values()].reduce((sum, units) => sum + units, 0)
  return { ...part, falls }
}

const partsOf = (parts: readonly Part[], intervalMs: number): CandlePart[] =>
  parts.filter(part => part.intervalMs === intervalMs).map(readable)

/** The parts that the query reads for a window. */
function selected(parts: readonly CandlePart[], { start, end }: CandleWindow): CandlePart[] {
  const byProvider = Map.groupBy(parts, ({ provider }) => provider)
  return [...byProvider.values()].flatMap(own => {
    const sorted = own.toSorted((a, b) => a.bucket - b.bucket)
    const before = sorted.filter(({ bucket }) => bucket < start).slice(-1)
    const after = sorted.filter(({ bucket }) => bucket >= end).slice(0, 1)
    return [...before, ...sorted.filter(({ bucket }) => bucket >= start && bucket < end), ...after]
  })
}

const changesOf = (log: readonly LoggedChange[]) => log.map(({ change }) => change)

describe('candles', () => {
  for (const [name, { ms: intervalMs }] of Object.entries(CANDLE_INTERVALS)) {
    it(`of ${name} equal a fold moment by moment, whatever the order between providers`, () => {
      fc.assert(
        fc.property(changeSequences(), log => {
          const { parts, standing } = stored([log])
          const { candles } = atOnce(
            composeCandles({ parts: partTable(partsOf(parts, intervalMs)), standing }, { ...FOREVER, intervalMs }),
          )
          expect(candles).to.deep.equal(modelCandles(changesOf(log), intervalMs))
        }),
        { numRuns: 300 },
      )
    })
  }

  it('of a window inside the history equal those of the whole, also after older parts have expired', () => {
    fc.assert(
      fc.property(
        changeSequences(),
        fc.nat(30),
        fc.integer({ min: 1, max: 12 }),
        fc.boolean(),
        (log, from, hours, expired) => {
          const { parts, standing } = stored([log])
          const all = partsOf(parts, HOUR_MS)
          const first = Math.min(...all.map(({ bucket }) => bucket), FOREVER.end)
          const start = first + from * HOUR_MS
          const window = { start, end: start + hours * HOUR_MS, intervalMs: HOUR_MS }
          const kept = selected(all, window).filter(({ bucket }) => !expired || bucket >= start)
          // The query may return nothing of what has changed since.
          const asks = standing.filter(({ at }) => at < start)
          const { candles } = atOnce(composeCandles({ parts: partTable(kept), standing: asks }, window))
          const whole = modelCandles(changesOf(log), HOUR_MS)
          expect(candles).to.deep.equal(whole.filter(({ t }) => t >= window.start && t < window.end))
        },
      ),
      { numRuns: 500 },
    )
  })

  it('are the same when any suffix of the log is folded again, in batches of any size', () => {
    fc.assert(
      fc.property(changeSequences(), fc.nat(), fc.integer({ min: 1, max: 9 }), (log, at, size) => {
        const again = log.slice(log.length === 0 ? 0 : at % log.length)
        const batches = [log, ...again.map((_, i) => again.slice(i, i + size))]
        expect(stored(batches)).to.deep.equal(stored([log]))
      }),
    )
  })

  it('merge the same whichever part comes first and however they are grouped', () => {
    fc.assert(
      fc.property(changeSequences({ providers: ['a'], longestPauseMs: 1_000 }), fc.nat(), fc.nat(), (log, i, j) => {
        const day = (changes: readonly LoggedChange[]) =>
          stored([changes]).parts.filter(part => part.intervalMs === CANDLE_INTERVALS['1d'].ms)[0]
        const cut = [i % (log.length + 1), j % (log.length + 1)].sort((x, y) => x - y) as [number, number]
        const [a, b, c] = [day(log.slice(0, cut[1])), day(log.slice(cut[0], cut[1])), day(log.slice(cut[0]))]
        if (!a || !b || !c || a.bucket !== c.bucket) return
        const normal = (part: Part) => ({ ...part, falls: [...part.falls].sort(([x], [y]) => x - y) })
        expect(normal(mergeParts(b, a))).to.deep.equal(normal(mergeParts(a, b)))
        expect(normal(mergeParts(a, mergeParts(b, c)))).to.deep.equal(normal(mergeParts(mergeParts(a, b), c)))
        expect(normal(mergeParts(a, a))).to.deep.equal(normal(a))
      }),
    )
  })

  const t0 = 1_772_582_400_000
  const listed = (provider: string, cents: number, seenAt: number, quantity = 1) =>
    changeOf({ provider, itemId: 1, after: { micro: cents * 10_000, quantity }, seenAt })
  const hourly = (changes: ReturnType<typeof changeOf>[], window: CandleWindow) => {
    const { parts, standing } = stored([changes.map((change, offset) => ({ change, offset }))])
    return atOnce(composeCandles({ parts: partTable(selected(partsOf(parts, HOUR_MS), window)), standing }, window))
  }
  const window = { start: t0, end: t0 + 4 * HOUR_MS, intervalMs: HOUR_MS }

  it('cap the high at 1.5 times the median of the lows and name the provider of the uncapped one', () => {
    const [candle] = hourly([listed('a', 100, t0), listed('b', 110, t0), listed('c', 9_000, t0)], window).candles
    expect(candle?.h).to.equal(165 * 10_000)
    expect(candle?.providers.h).to.equal('c')
  })

  it('forget an ask of before the window when only the first part after it records its withdrawal', () => {
    const listings = [listed('b', 70, t0 + 1), listed('a', 60, t0 + 2 * HOUR_MS)]
    const { parts } = stored([listings.map((change, offset) => ({ change, offset }))])
    const old = { provider: 'a', standing: true, micro: 100_000, quantity: 1, at: t0 - 90 * DAY_MS }
    const { opening, candles } = atOnce(
      composeCandles({ parts: partTable(selected(partsOf(parts, HOUR_MS), window)), standing: [old] }, window),
    )
    expect(opening).to.equal(undefined)
    expect(candles.map(({ l }) => l)).to.deep.equal([700_000, 600_000])
  })

  it('are filled with the close before them from the first known composite on', () => {
    const filled = fillCandles(hourly([listed('a', 50, t0 + HOUR_MS, 2)], window), window)
    expect(filled.map(({ t }) => (t - t0) / HOUR_MS)).to.deep.equal([1, 2, 3])
    expect(filled[2]).to.deep.equal({
      t: t0 + 3 * HOUR_MS,
      o: 500_000,
      h: 500_000,
      l: 500_000,
      c: 500_000,
      v: 0,
      q: 2,
      providers: { o: 'a', h: 'a', l: 'a', c: 'a' },
    })
  })
})
