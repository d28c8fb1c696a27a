/**
 * What counts as a movement between two commits: by examples, and by runs with drawn noise and a planted slowdown.
 */
import { expect } from 'chai'
import { movements, PAIRS, type RunLine, type RunPair } from '#test/bench/comparison.ts'
import { randomOf } from '#test/harness/seeded-random.ts'

const cpu = (ratio: number): RunLine => ({ name: 'cpu', value: 10 * ratio, unit: 'us', ratio, better: 'lower' })
const rate = (value: number): RunLine => ({ name: 'rate', value, unit: '1/s', ratio: null, better: 'higher' })
const time = (value: number): RunLine => ({ name: 'time', value, unit: 'ms', ratio: null, better: 'lower' })

const pairsOf = (line: (figure: number) => RunLine, figures: [before: number, after: number][]): RunPair[] =>
  figures.map(([before, after]) => ({ before: [line(before)], after: [line(after)] }))
const verdictOf = (line: (figure: number) => RunLine, figures: [before: number, after: number][]) =>
  movements(pairsOf(line, figures))[0]?.verdict

describe('bench comparison', () => {
  it('finds what moved in every pair, in the direction that the line gives', () => {
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
    expect(
      verdictOf(cpu, [
        [1, 1.1],
        [1, 1.1],
        [1, 0.99],
      ]),
    ).to.equal('unmoved')
    expect(
      verdictOf(cpu, [
        [1, 1.01],
        [1, 1.08],
        [1, 1.4],
      ]),
    ).to.equal('unmoved')
    expect(
      verdictOf(cpu, [
        [1, 1.04],
        [1, 1.04],
        [1, 1.04],
      ]),
    ).to.equal('unmoved')
  })

  it('asks more of a time of the clock than of what has a baseline in the same run', () => {
    const figures: [number, number][] = [
      [1, 1.08],
      [1, 1.08],
      [1, 1.08],
    ]
    expect(verdictOf(cpu, figures)).to.equal('worse')
    expect(verdictOf(time, figures)).to.equal('unmoved')
  })

  it('pairs runs, so that a machine that slows down for both moves nothing', () => {
    const drifting: [number, number][] = [
      [1, 1.01],
      [2, 1.99],
      [4, 4.02],
    ]
    expect(verdictOf(rate, drifting)).to.equal('unmoved')
  })

  it('names what only one side measures, and takes directions from the side that gives them', () => {
    const { better: _, ...older } = cpu(1)
    expect(movements([{ before: [older], after: [cpu(1.2)] }])[0]).to.deep.include({
      better: 'lower',
      verdict: 'worse',
    })
    expect(movements([{ before: [], after: [cpu(1)] }])[0]?.verdict).to.equal('not comparable')
    expect(movements([{ before: [time(0)], after: [time(0)] }])[0]?.verdict).to.equal('unmoved')
    expect(movements([{ before: [{ ...time(1), better: null }], after: [{ ...time(2), better: null }] }])).to.be.empty
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
