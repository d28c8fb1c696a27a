import { expect } from 'chai'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { UnknownOutcome } from '#streams/runner/outcome.ts'
import { openUnknownEvents } from '#streams/runner/unknown-events.ts'

const unknown: UnknownOutcome = { kind: 'unknown', event: 'BookMerged' }
const at = (offset: number, partition = 3) => ({ topic: 'bookChanges', partition, offset }) as const
const own = { topic: 'bookChanges', partition: 3 } as const

function open() {
  const lines: string[] = []
  const metrics = openMetrics()
  const log = { warn: (_: object, text: string) => void lines.push(text) } as unknown as Log
  const events = openUnknownEvents({ group: 'candles', metrics, log })
  const waiting = async () => {
    const { values } = (await metrics.registry.getSingleMetric('marketlog_unknown_event_partitions')?.get()) ?? {
      values: [],
    }
    return values.map(({ labels, value }) => `${labels.group} ${labels.topic} ${labels.event} ${value}`)
  }
  const pauseAt = (offset: number): number | undefined => {
    const outcome = events.judge(at(offset), unknown)
    return outcome.kind === 'retry' ? outcome.afterMs : undefined
  }
  return { events, lines, waiting, pauseAt }
}

describe('runner unknown events', () => {
  it('used to become dead letters for good: they are tried again, counted, and named once in the log and by readiness', async () => {
    const { events, lines, waiting, pauseAt } = open()
    expect(events.report()).to.equal(undefined)
    expect([pauseAt(17), pauseAt(17)]).to.deep.equal([5_000, 5_000])
    expect(await waiting()).to.deep.equal(['candles market.book-changes BookMerged 1'])
    const advice = 'this version does not know BookMerged: start the version that wrote it'
    expect(lines).to.deep.equal([advice])
    expect(events.report()).to.equal(`market.book-changes-3 at offset 17: ${advice}`)
  })

  it('are named again at another record', async () => {
    const { waiting, lines, pauseAt } = open()
    for (const offset of [1, 1, 2]) pauseAt(offset)
    expect([lines.length, await waiting()]).to.deep.equal([2, ['candles market.book-changes BookMerged 1']])
  })

  it('wait no longer where the partition has another owner, or its batch went through', async () => {
    const { events, waiting } = open()
    events.judge(at(17), unknown)
    events.judge(at(5, 4), unknown)
    events.assigned([own])
    expect(await waiting()).to.deep.equal(['candles market.book-changes BookMerged 1'])
    events.passed(own)
    expect(await waiting()).to.deep.equal(['candles market.book-changes BookMerged 0'])
    expect(events.report()).to.equal(undefined)
  })
})
