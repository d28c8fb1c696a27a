/** RateLimit-Policy and RateLimit, to the letter of draft-ietf-httpapi-ratelimit-headers-10. */
import { expect } from 'chai'
import { exceededLimit, rateLimitFields } from '#schemas/api/rate-limit.ts'

describe('the fields of rate limits', () => {
  const allowances = {
    minute: { quota: 60, windowSeconds: 60, remaining: 50, resetSeconds: 30 },
    month: { quota: 1_000, windowSeconds: 2_592_000, remaining: 0, resetSeconds: 86_400 },
  }
  const policy = '"minute";q=60;w=60, "month";q=1000;w=2592000'

  it('name every quota, and what is left of each', () => {
    const limits = '"minute";r=50;t=30, "month";r=0;t=86400'
    expect(rateLimitFields(allowances)).to.deep.equal(['RateLimit-Policy', policy, 'RateLimit', limits])
  })

  it('of a refusal name what refused it, be it one of those or another', () => {
    const { minute } = allowances
    expect(rateLimitFields(allowances, { name: 'minute', ...minute, remaining: 0 })).to.deep.equal([
      ...['RateLimit-Policy', policy, 'RateLimit', '"minute";r=0;t=30'],
    ])
    expect(rateLimitFields(allowances, exceededLimit('expensive', 20, 7, 60))).to.deep.equal([
      ...['RateLimit-Policy', `${policy}, "expensive";q=20;w=60`, 'RateLimit', '"expensive";r=0;t=7'],
    ])
    expect(rateLimitFields({}, exceededLimit('feed-connections', 2, 5))).to.deep.equal([
      ...['RateLimit-Policy', '"feed-connections";q=2;qu="concurrent-requests"'],
      ...['RateLimit', '"feed-connections";r=0;t=5'],
    ])
  })

  it('hold no number that a structured field cannot', () => {
    const endless = { quota: Number.MAX_SAFE_INTEGER, windowSeconds: 60, remaining: 2 ** 52, resetSeconds: 1 }
    expect(rateLimitFields({ endless })).to.deep.equal([
      ...['RateLimit-Policy', '"endless";q=999999999999999;w=60', 'RateLimit', '"endless";r=999999999999999;t=1'],
    ])
  })
})
