import { expect } from 'chai'
import fc from 'fast-check'
import { toDecimal } from '#services/clients/typescript/src/decimal.ts'
import { MarketlogConnectionError, MarketlogError } from '#services/clients/typescript/src/errors.ts'
import { OPERATIONS } from '#services/clients/typescript/src/generated.ts'
import { backoffMs, retryDelayMs } from '#services/clients/typescript/src/retry.ts'
import { requestOf } from '#services/clients/typescript/src/transport.ts'

const KEY = 'sk_live_root_secret'

describe('a request of the TypeScript client', () => {
  it('has the ids of its path encoded, each of which is one part of it', () => {
    const entry = { id: 'a/b', item_id: 1, quantity: 2 }
    expect(requestOf(OPERATIONS.createPortfolioEntry, entry, KEY).url).to.equal('/v1/portfolio/a%2Fb/items')
  })

  it('has the key in its header, never in its address, and not where an operation is public', () => {
    const { url, init } = requestOf(OPERATIONS.listItems, { q: 'AK-47' }, KEY)
    expect([url.includes(KEY), init.headers.authorization]).to.deep.equal([false, `Bearer ${KEY}`])
    expect(requestOf(OPERATIONS.createSession, { code: 'x' }, KEY).init.headers).not.to.have.property('authorization')
  })

  it('has an idempotency key of its own where none is given', () => {
    const [one, other] = [1, 2].map(() => requestOf(OPERATIONS.createPortfolio, { name: 'a' }, KEY).init.headers)
    expect(one?.['Idempotency-Key']).to.match(/^[0-9a-f-]{36}$/)
    expect(one).not.to.deep.equal(other)
  })

  it('is refused at once without what its path names', () =>
    expect(() => requestOf(OPERATIONS.getMarketItem, {}, KEY)).to.throw(TypeError, 'item_id'))
})

describe('an error of the TypeScript client', () => {
  const errorOf = (status: number, body: string, headers: Record<string, string> = {}) =>
    new MarketlogError(status, new Headers(headers), body)

  it('has the code, the detail and the headers of the answer', () => {
    const body = JSON.stringify({ code: 'RATE_LIMIT_EXCEEDED', detail: 'Slow down.' })
    const error = errorOf(429, body, { 'retry-after': '7', 'x-request-id': 'r1' })
    expect({ ...error, message: error.message }).to.deep.equal({
      name: 'MarketlogError',
      status: 429,
      code: 'RATE_LIMIT_EXCEEDED',
      detail: 'Slow down.',
      requestId: 'r1',
      retryAfterSeconds: 7,
      message: '429 RATE_LIMIT_EXCEEDED Slow down.',
    })
  })

  it('names in its message what is wrong with a request', () => {
    const detail = [{ type: 'missing', loc: ['body', 'name'], msg: 'Field required', input: null, ctx: {} }]
    expect(errorOf(422, JSON.stringify({ code: 'VALIDATION_ERROR', detail })).message).to.equal(
      '422 VALIDATION_ERROR body.name: Field required',
    )
  })

  it('has no code where a proxy answers, and reads the date that it names', () => {
    const error = errorOf(503, '<h1>Bad gateway</h1>', { 'retry-after': new Date(Date.now() + 60_000).toUTCString() })
    expect([error.code, error.detail]).to.deep.equal([undefined, '<h1>Bad gateway</h1>'])
    expect(error.retryAfterSeconds).to.be.within(50, 60)
  })
})

describe('a failed attempt of the TypeScript client', () => {
  const limits = { retries: 2, retryWithinMs: 10_000 }
  const refusal = (status: number, seconds?: number) =>
    new MarketlogError(status, new Headers(seconds === undefined ? {} : { 'retry-after': String(seconds) }), '{}')
  const delayOf = (error: unknown, tried: { attempts?: number; elapsedMs?: number; isRepeatable?: boolean } = {}) =>
    retryDelayMs(error, { attempts: 1, elapsedMs: 0, isRepeatable: true, ...tried }, limits)
  const lost = new MarketlogConnectionError('lost')

  it('is repeated after the time that the answer names', () => {
    expect(delayOf(refusal(429, 3))).to.equal(3_000)
    expect(delayOf(refusal(503, 1))).to.equal(1_000)
  })

  it('is repeated after a 503 or a lost connection where nothing is done twice, after a 429 in any case', () => {
    expect(delayOf(refusal(503, 1), { isRepeatable: false })).to.equal(undefined)
    expect(delayOf(lost, { isRepeatable: false })).to.equal(undefined)
    expect(delayOf(lost)).to.be.a('number')
    expect(delayOf(refusal(429, 1), { isRepeatable: false })).to.equal(1_000)
  })

  it('is not repeated after any other refusal, nor after a bug', () => {
    for (const error of [...[400, 401, 403, 404, 409, 422, 500, 502].map(status => refusal(status)), new TypeError()])
      expect(delayOf(error), String(error)).to.equal(undefined)
  })

  it('is the last one where the count or the time is used up', () => {
    expect(delayOf(lost, { attempts: 2 })).to.be.a('number')
    expect(delayOf(lost, { attempts: 3 })).to.equal(undefined)
    expect(delayOf(refusal(429, 11))).to.equal(undefined)
    expect(delayOf(refusal(429, 3), { elapsedMs: 7_001 })).to.equal(undefined)
  })

  it('is repeated later each time, within a bound, at a drawn moment', () => {
    const waits = Array.from({ length: 12 }, (_, failures) => backoffMs(failures, () => 1))
    expect(waits).to.deep.equal([...waits].sort((a, b) => a - b))
    expect([waits[0], waits.at(-1), backoffMs(0, () => 0)]).to.deep.equal([200, 10_000, 100])
  })

  it('is of an operation that reads, or that the platform does once by its idempotency key, where it is repeatable', () => {
    const unsafe = Object.entries(OPERATIONS).filter(([, one]) => one.method !== 'GET' && 'isRepeatable' in one)
    expect(unsafe.map(([id]) => id).sort()).to.deep.equal([
      ...['batchGetBids', 'batchGetPrices', 'createPortfolio', 'createPortfolioEntry', 'createTransaction'],
      ...['importPortfolioCsv', 'importPortfolioInventory', 'streamBids', 'streamPrices'],
    ])
  })
})

describe('hundredths as decimals', () => {
  it('have two places', () => {
    const cases = { 4358: '43.58', 0: '0.00', 5: '0.05', 50: '0.50', 100: '1.00', '-5': '-0.05', '-12345': '-123.45' }
    for (const [hundredths, text] of Object.entries(cases)) expect(toDecimal(Number(hundredths))).to.equal(text)
  })

  it('are exact, however many', () =>
    fc.assert(
      fc.property(fc.bigInt(), amount => {
        expect(BigInt(toDecimal(amount).replace('.', ''))).to.equal(amount)
        expect(toDecimal(amount)).to.match(/^-?\d+\.\d\d$/)
      }),
    ))

  it('are whole numbers', () => {
    for (const amount of [0.5, Number.NaN, 2 ** 53]) expect(() => toDecimal(amount)).to.throw(RangeError)
  })
})
