/** What an attempt means for its delivery: DECISIONS.md, "Webhooks", status by status. */
import { expect } from 'chai'
import fc from 'fast-check'
import type { PostResult } from '#infra/outbound/post.ts'
import { RETRY_PAUSES_SECONDS } from '#schemas/api/alert-triggered.ts'
import type { WebhookPlatform } from '#schemas/api/webhooks.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { retryAfterMs } from '#schemas/values/retry-after.ts'
import { classifyAttempt, pauseAfter } from '#services/alerts/delivery/attempt-outcome.ts'

const NOW = Date.UTC(2026, 2, 3, 12, 0, 0)
const context = { failures: 0, chance: 0.5, now: NOW, limitMs: 10_000, platform: 'custom' as WebhookPlatform }
const answered = (status: number, retryAfter?: string, over: { location?: string; body?: string } = {}): PostResult => {
  const { location, body = '' } = over
  return { kind: 'answered', status, retryAfter, location, excerpt: Buffer.from(body) }
}
const kindOf = (result: PostResult, failures = 0) => classifyAttempt(result, { ...context, failures }).kind

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
        const middle = 1_000 * (RETRY_PAUSES_SECONDS[failure - 1] as number)
        expect(pauseAfter(failure, chance)).to.be.within(middle * 0.8, middle * 1.2)
      }),
    )
    expect(pauseAfter(1, 0)).to.equal(4_000)
    expect(pauseAfter(1, 1)).to.equal(6_000)
  })

  const afters: [name: string, header: string | undefined, ms: number][] = [
    ['seconds', '120', 120_000],
    ['a part of a second, rounded up', '2.5', 3_000],
    ['next to nothing', '0.001', 1_000],
    ['a date', 'Tue, 03 Mar 2026 12:01:30 GMT', 90_000],
    ['a date of RFC 850', 'Tuesday, 03-Mar-26 12:01:30 GMT', 90_000],
    ['a date of asctime, which is UTC', 'Tue Mar  3 12:01:30 2026', 90_000],
    ['a date that is over', 'Tue, 03 Mar 2026 11:58:30 GMT', 0],
    ['a date that does not exist', 'Tue, 99 Mar 2026 12:01:30 GMT', 0],
    ['a time of another standard', '2026-03-03T12:01:30Z', 0],
    ['nothing', undefined, 0],
    ['an empty text', '', 0],
    ['nonsense', 'soon', 0],
    ['a number with its unit', '5s', 0],
    ['two numbers', '5, 10', 0],
    ['another notation', '1e2', 0],
    ['a negative number', '-5', 0],
    ['ten years, cut to an hour', '315360000', HOUR_MS],
    ['more than a number can hold', '9'.repeat(400), HOUR_MS],
    ['a date of next year, cut to an hour', 'Wed, 03 Mar 2027 12:00:00 GMT', HOUR_MS],
  ]
  for (const [name, header, ms] of afters)
    it(`reads a Retry-After of ${name}`, () => expect(retryAfterMs(header, NOW)).to.equal(ms))

  it('honours Retry-After where it is longer than the schedule, and the schedule where that is longer', () => {
    expect(classifyAttempt(answered(429, '60'), context)).to.include({ kind: 'retried', delayMs: 60_000 })
    expect(classifyAttempt(answered(503, '1'), context)).to.include({ kind: 'retried', delayMs: 5_000 })
    expect(classifyAttempt(answered(503, '60'), { ...context, failures: 6 }).kind).to.equal('failed')
  })

  const delayOf = (platform: WebhookPlatform, header: string | undefined, body: string) => {
    const outcome = classifyAttempt(answered(429, header, { body }), { ...context, platform })
    return outcome.kind === 'retried' && outcome.delayMs
  }
  it('waits as the body of Discord says, whatever its header, and by the header where the body does not say', () => {
    expect(delayOf('discord', '7', '{"message":"limited","retry_after":64.57,"global":false}')).to.equal(65_000)
    expect(delayOf('discord', '60', '{"retry_after":9e9}')).to.equal(HOUR_MS)
    for (const body of ['{"retry_after":null}', '<html>', 'null', ''])
      expect(delayOf('discord', '60', body), body).to.equal(60_000)
    expect(delayOf('discord', '60', '{"retry_after":"soon"}')).to.equal(5_000)
    expect(delayOf('custom', '60', '{"retry_after":120}')).to.equal(60_000)
  })

  const script = 'https://script.googleusercontent.com/macros/echo?user_content_key=a'
  const redirects: [WebhookPlatform, number, string | undefined, string][] = [
    ['google_sheets', 302, script, 'succeeded'],
    ['google_sheets', 302, 'HTTPS://SCRIPT.googleusercontent.com:443/', 'succeeded'],
    ['google_sheets', 302, script.replace('https', 'http'), 'failed'],
    ['google_sheets', 302, 'https://script.googleusercontent.com.evil.example/', 'failed'],
    ['google_sheets', 302, 'https://script.googleusercontent.com:8443/', 'failed'],
    ['google_sheets', 302, 'https://accounts.google.com/ServiceLogin', 'failed'],
    ['google_sheets', 302, '/macros/echo', 'failed'],
    ['google_sheets', 302, undefined, 'failed'],
    ['google_sheets', 301, script, 'failed'],
    ['google_sheets', 307, script, 'failed'],
    ['custom', 302, script, 'failed'],
    ['discord', 302, script, 'failed'],
  ]
  for (const [platform, status, location, kind] of redirects)
    it(`is ${kind} for a ${status} of ${platform} to ${location}`, () => {
      const result = answered(status, undefined, { ...(location !== undefined && { location }) })
      expect(classifyAttempt(result, { ...context, platform })).to.include({ kind, httpStatus: status })
    })
})
