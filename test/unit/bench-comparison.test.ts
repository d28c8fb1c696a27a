import { expect } from 'chai'
import { movements, PAIRS, type RunLine, type RunPair } from '#test/bench/compare.ts'
import { randomOf } from '#test/harness/seeded-random.ts'

const BARS = { cpu: { atMost: 1 }, rate: { atLeast: 1 }, time: { atMost: 1 } }
const cpu = (ratio: number): RunLine => ({ name: 'cpu', value: 10 * ratio, unit: 'us', ratio })
const rate = (value: number): RunLine => ({ name: 'rate', value, unit: '1/s', ratio: null })
const time = (value: number): RunLine => ({ name: 'time', value, unit: 'ms', ratio: null })

type Figures = readonly (readonly [before: number, after: number])[]

const pairsOf = (line: (figure: number) => RunLine, figures: Figures): RunPair[] =>
  figures.map(([before, after]) => ({ before: [line(before)], after: [line(after)] }))
const verdictOf = (line: (figure: number) => RunLine, figures: Figures) =>
  movements(pairsOf(line, figures), BARS)[0]?.verdict
/** Pairs in which the later side's figure is so many times the earlier one's. */
const times = (...ratios: number[]) => ratios.map((ratio): [number, number] => [1, ratio])

describe('bench comparison', () => {
  const drifting: [number, number][] = [
    [1, 1.01],
    [2, 1.99],
    [4, 4.02],
  ]
  for (const [what, line, figures, verdict] of [
    ['a line that may not rise and rose in every pair', cpu, times(1.1, 1.09, 1.11), 'worse'],
    ['one that may not fall and rose', rate, times(1.1, 1.09, 1.11), 'better'],
    ['one that may not rise and fell', cpu, times(0.9, 0.91, 0.89), 'better'],
    ['one that may not fall and fell', rate, times(0.9, 0.91, 0.89), 'worse'],
    ['one of which a pair disagrees', cpu, times(1.1, 1.1, 0.99), 'unmoved'],
    ['one whose pairs spread wider', cpu, times(1.01, 1.08, 1.4), 'unmoved'],
    ['one that moved by little', cpu, times(1.04, 1.04, 1.04), 'unmoved'],
    ['one by 8 % that has a baseline in the same run', cpu, times(1.08, 1.08, 1.08), 'worse'],
    ['a time of the clock by 8 %', time, times(1.08, 1.08, 1.08), 'unmoved'],
    ['one on a machine that slows down for both', rate, drifting, 'unmoved'],
  ] as const)
    it(`calls ${what} ${verdict}`, () => expect(verdictOf(line, figures)).to.equal(verdict))

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
