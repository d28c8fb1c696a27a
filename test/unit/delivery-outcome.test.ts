/**
 * What an attempt means for its delivery: DECISIONS.md, "Webhooks", status by status.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import type { PostResult } from '#infra/outbound/post.ts'
import { judgeAttempt, pauseAfter, RETRY_PAUSES_MS, retryAfterMs } from '#services/alerts/delivery/attempt-outcome.ts'

const NOW = Date.UTC(2026, 2, 3, 12, 0, 0)
const context = { failures: 0, chance: 0.5, now: NOW, limitMs: 10_000 }
const answered = (status: number, retryAfter?: string): PostResult => ({
  kind: 'answered',
  status,
  retryAfter,
  excerpt: Buffer.alloc(0),
})
const kindOf = (result: PostResult, failures = 0) => judgeAttempt(result, { ...context, failures }).kind

describe('the outcome of an attempt', () => {
  it('is a success for every 2xx', () => {
    for (let status = 200; status < 300; status++) expect(kindOf(answered(status))).to.equal('succeeded')
  })

  const retried = new Set([408, 409, 425, 429])
  it('is another try for 408, 409, 425, 429 and 5xx, and final for every other status', () => {
    for (let status = 100; status < 600; status++) {
      if (status >= 200 && status < 300) continue
      const expected = retried.has(status) || status >= 500 ? 'retried' : 'failed'
      expect(kindOf(answered(status)), String(status)).to.equal(expected)
    }
  })

  it('is another try for timeouts and connection errors, and final for a refused address', () => {
    expect(kindOf({ kind: 'timeout' })).to.equal('retried')
    expect(kindOf({ kind: 'unreachable', reason: 'refused' })).to.equal('retried')
    expect(kindOf({ kind: 'refused' })).to.equal('failed')
  })

  it('leaves the round as it was when we cut it off ourselves, whatever the count', () => {
    for (let failures = 0; failures < 9; failures++)
      expect(kindOf({ kind: 'interrupted' }, failures)).to.equal('interrupted')
  })

  it('gives up with the seventh failure, and not before', () => {
    for (let failures = 0; failures < 6; failures++) expect(kindOf(answered(503), failures)).to.equal('retried')
    expect(kindOf(answered(503), 6)).to.equal('failed')
    expect(kindOf({ kind: 'timeout' }, 6)).to.equal('failed')
  })

  it('waits 5 s, 30 s, 2 min, 10 min, 1 h, 6 h', () => {
    const seconds = [1, 2, 3, 4, 5, 6, 7].map(failure => pauseAfter(failure, 0.5)).map(ms => ms && ms / 1_000)
    expect(seconds).to.deep.equal([5, 30, 120, 600, 3_600, 21_600, undefined])
  })

  it('shortens or lengthens each wait by at most a fifth, and uses all of that room', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.double({ min: 0, max: 1, noNaN: true }), (failure, chance) => {
        const middle = RETRY_PAUSES_MS[failure - 1] as number
        expect(pauseAfter(failure, chance)).to.be.within(middle * 0.8, middle * 1.2)
      }),
    )
    expect(pauseAfter(1, 0)).to.equal(4_000)
    expect(pauseAfter(1, 1)).to.equal(6_000)
  })

  const afters: { header: string | undefined; ms: number; name: string }[] = [
    { name: 'seconds', header: '120', ms: 120_000 },
    { name: 'a date', header: new Date(NOW + 90_000).toUTCString(), ms: 90_000 },
    { name: 'a date that is over', header: new Date(NOW - 90_000).toUTCString(), ms: 0 },
    { name: 'nothing', header: undefined, ms: 0 },
    { name: 'nonsense', header: 'soon', ms: 0 },
    { name: 'a negative number', header: '-5', ms: 0 },
    { name: 'ten years, cut to a day', header: '315360000', ms: 86_400_000 },
  ]
  for (const { name, header, ms } of afters)
    it(`reads a Retry-After of ${name}`, () => {
      expect(retryAfterMs(header, NOW)).to.equal(ms)
    })

  it('honours Retry-After where it is longer than the schedule, and the schedule where that is longer', () => {
    expect(judgeAttempt(answered(429, '60'), context)).to.include({ kind: 'retried', delayMs: 60_000 })
    expect(judgeAttempt(answered(503, '1'), context)).to.include({ kind: 'retried', delayMs: 5_000 })
    expect(judgeAttempt(answered(503, '60'), { ...context, failures: 6 }).kind).to.equal('failed')
  })
})
