import { expect } from 'chai'
import { movements, PAIRS, type RunLine, type RunPair } from '#test/bench/compare.ts'
import { randomOf } from '#test/harness/seeded-random.ts'

const BARS = { cpu: { atMost: 1 }, rate: { atLeast: 1 }, time: { atMost: 1 } }
const cpu = (ratio: number): RunLine => ({ name: 'cpu', value: 10 * ratio, unit: 'us', ratio })
const rate = (value: number): RunLine => ({ name: 'rate', value, unit: '1/s', ratio: null })
const time = (value: number): RunLine => ({ name: 'time', value, unit: 'ms', ratio: null })

const pairsOf = (line: (figure: number) => RunLine, figures: [before: number, after: number][]): RunPair[] =>
  figures.map(([before, after]) => ({ before: [line(before)], after: [line(after)] }))
const verdictOf = (line: (figure: number) => RunLine, figures: [before: number, after: number][]) =>
  movements(pairsOf(line, figures), BARS)[0]?.verdict
/** Pairs in which the later side's figure is so many times the earlier one's. */
const times = (...ratios: number[]) => ratios.map((ratio): [number, number] => [1, ratio])

describe('bench comparison', () => {
  it('finds what moved in every pair, in the direction that the bar gives', () => {
    const up: [number, number][] = [
      [1, 1.1],
      [1.02, 1.11],
      [0.98, 1.09],
    ]
    expect(verdictOf(cpu, up)).to.equal('worse')
    expect(verdictOf(rate, up)).to.equal('better')
    const down = up.map(([before, after]): [number, number] => [after, before])
    expect(verdictOf(cpu, down)).to.equal('better')
    expect(verdictOf(rate, down)).to.equal('worse')
  })

  it('finds nothing when one pair disagrees, when the pairs spread wider, or when it is little', () => {
    expect(verdictOf(cpu, times(1.1, 1.1, 0.99))).to.equal('unmoved')
    expect(verdictOf(cpu, times(1.01, 1.08, 1.4))).to.equal('unmoved')
    expect(verdictOf(cpu, times(1.04, 1.04, 1.04))).to.equal('unmoved')
  })

  it('asks more of a time of the clock than of what has a baseline in the same run', () => {
    expect(verdictOf(cpu, times(1.08, 1.08, 1.08))).to.equal('worse')
    expect(verdictOf(time, times(1.08, 1.08, 1.08))).to.equal('unmoved')
  })

  it('pairs runs, so that a machine that slows down for both moves nothing', () => {
    const drifting: [number, number][] = [
      [1, 1.01],
      [2, 1.99],
      [4, 4.02],
    ]
    expect(verdictOf(rate, drifting)).to.equal('unmoved')
  })

  it('names what only one side measures, and passes over lines without a bar', () => {
    expect(movements([{ before: [], after: [cpu(1)] }], BARS)[0]?.verdict).to.equal('not comparable')
    expect(movements([{ before: [time(0)], after: [time(0)] }], BARS)[0]?.verdict).to.equal('unmoved')
    expect(movements(pairsOf(time, times(2, 2, 2)), {})).to.be.empty
  })

  /** Share of drawn lines that are found to have moved; the machine's drift is in both runs of a pair. */
  const found = (noise: number, slowdown: number): number => {
    const { next } = randomOf(20_260_101)
    const draw = () => Math.exp(noise * (next() + next() + next() - 1.5) * 2)
    const isFound = () => {
      const figures = Array.from({ length: PAIRS.all }, (): [number, number] => {
        const drift = draw()
        return [drift * draw(), drift * draw() * slowdown]
      })
      const first = verdictOf(cpu, figures.slice(0, PAIRS.first))
      return first !== 'unmoved' && verdictOf(cpu, figures) !== 'unmoved'
    }
    return Array.from({ length: 3_000 }, isFound).filter(Boolean).length / 3_000
  }

  it('finds a planted slowdown of 10 % in runs with 2 % of noise', () => {
    expect(found(0.02, 1.1)).to.be.above(0.85)
  })

  it('finds next to nothing between equals, however noisy', () => {
    for (const noise of [0.01, 0.03, 0.1, 0.3]) expect(found(noise, 1), `${noise}`).to.be.below(0.005)
  })
})
