/** What the book's metrics say of its verdicts. */
import { expect } from 'chai'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { openVerdictMeter } from '#streams/book/processor.ts'
import { at, play, refresh } from '#test/fixtures/book-inputs.ts'

describe('book meter', () => {
  it('counts every verdict and has a line for each refresh that was not applied', async () => {
    const lines: Record<string, unknown>[] = []
    const metrics = openMetrics()
    const note = openVerdictMeter(metrics, {
      warn: (line: Record<string, unknown>) => lines.push(line),
    } as unknown as Log)
    const ten = Array.from({ length: 10 }, (_, item) => at(item + 1, 100))
    const records = [...refresh(1, ten), ...refresh(2, ten.slice(9)), ...refresh(3, ten), ...refresh(3, ten)]
    for (const judged of play(records).judged) note(judged)
    const counted = (await metrics.registry.getSingleMetric('marketlog_refreshes_judged_total')?.get())?.values ?? []
    expect(counted.map(({ labels, value }) => [labels.side, labels.provider, labels.verdict, value])).to.deep.equal([
      ['ask', 'p', 'applied', 2],
      ['ask', 'p', 'quarantined', 1],
      ['ask', 'p', 'stale', 1],
    ])
    expect(lines.map(({ verdict, reason, refresh_id }) => [verdict, reason, refresh_id])).to.deep.equal([
      ['quarantined', 'collapsed', 'r2'],
      ['stale', 'not_newer', 'r3'],
    ])
  })
})
