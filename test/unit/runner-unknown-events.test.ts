/**
 * How long a partition waits at an event that this version does not know, and what says so when it waited too long.
 */
import { expect } from 'chai'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { Outcome, UnknownOutcome } from '#streams/runner/outcome.ts'
import { OVERDUE_AFTER_MS, openUnknownEvents, pauseOf, waitAt } from '#streams/runner/unknown-events.ts'

const unknown: UnknownOutcome = { kind: 'unknown', event: 'BookMerged' }
const at = (offset: number, partition = 3) => ({ topic: 'bookChanges', partition, offset }) as const
const own = { topic: 'bookChanges', partition: 3 } as const

function open() {
  const lines: { level: string; text: string }[] = []
  const write = (level: string) => (_: object, text: string) => void lines.push({ level, text })
  const metrics = openMetrics()
  const clock = { now: 0 }
  const log = { warn: write('warn'), error: write('error') } as unknown as Log
  const events = openUnknownEvents({ group: 'candles', metrics, log, now: () => clock.now })
  const waiting = async () => {
    const { values } = (await metrics.registry.getSingleMetric('marketlog_unknown_event_partitions')?.get()) ?? {
      values: [],
    }
    return values.map(({ labels, value }) => `${labels.group} ${labels.topic} ${labels.event} ${value}`)
  }
  return { events, lines, clock, waiting }
}

describe('runner unknown events', () => {
  it('used to become dead letters for good: they are tried again, and counted by group, topic and event', async () => {
    const { events, lines, waiting } = open()
    expect(events.judge(at(17), unknown)).to.deep.equal({ kind: 'retry', afterMs: 500 })
    expect(events.judge(at(17), unknown)).to.deep.equal({ kind: 'retry', afterMs: 1_000 })
    expect(await waiting()).to.deep.equal(['candles market.book-changes BookMerged 1'])
    expect(lines.map(({ level }) => level)).to.deep.equal(['warn'])
    expect(events.overdue()).to.equal(undefined)
  })

  it('leave every other outcome as it is, so what is broken is a dead letter at once', () => {
    const { events } = open()
    const broken: Outcome = { kind: 'deadLetter', reason: 'undecodable', detail: 'bytes end too early' }
    expect(events.judge(at(17), broken)).to.equal(broken)
  })

  it('pause longer and longer, ten seconds at most', () => {
    const pauses: number[] = []
    let state = waitAt(undefined, { event: 'E', offset: 1 }, 0)
    for (let tries = 0; tries < 40; tries++) {
      pauses.push(pauseOf(state))
      state = waitAt(state, { event: 'E', offset: 1 }, 0)
    }
    expect(pauses.slice(0, 6)).to.deep.equal([500, 1_000, 2_000, 4_000, 8_000, 10_000])
    expect(Math.max(...pauses)).to.equal(10_000)
  })

  it('are reported once when the limit has passed, and by readiness', () => {
    const { events, lines, clock } = open()
    events.judge(at(17), unknown)
    clock.now = OVERDUE_AFTER_MS
    for (let tries = 0; tries < 3; tries++) events.judge(at(17), unknown)
    expect(lines.filter(({ level }) => level === 'error').map(({ text }) => text)).to.deep.equal([
      'this version does not know BookMerged: start the version that wrote it',
    ])
    expect(events.overdue()).to.match(/^market\.book-changes-3 at offset 17: this version does not know BookMerged: /)
  })

  it('wait no longer where the partition has another owner, or its batch went through', async () => {
    const { events, waiting, clock } = open()
    events.judge(at(17), unknown)
    events.judge(at(5, 4), unknown)
    clock.now = OVERDUE_AFTER_MS
    events.judge(at(17), unknown)
    events.judge(at(5, 4), unknown)
    events.assigned([own])
    expect(await waiting()).to.deep.equal(['candles market.book-changes BookMerged 1'])
    events.passed('bookChanges', 3)
    expect(await waiting()).to.deep.equal(['candles market.book-changes BookMerged 0'])
    expect(events.overdue()).to.equal(undefined)
  })

  it('begin their limit again at another record', () => {
    const first = waitAt(undefined, { event: 'E', offset: 1 }, 0)
    expect(waitAt(first, { event: 'E', offset: 1 }, OVERDUE_AFTER_MS)).to.include({ since: 0, isOverdue: true })
    expect(waitAt(first, { event: 'E', offset: 2 }, OVERDUE_AFTER_MS)).to.include({ tries: 1, isOverdue: false })
  })
})
