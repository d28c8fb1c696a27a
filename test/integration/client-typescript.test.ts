/**
 * The platform is a stand-in on loopback that speaks its protocol. With the real one: contract/sweep.test.ts, fault/feed-cuts.test.ts.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { expect } from 'chai'
import {
  FeedGapError,
  Marketlog,
  MarketlogConnectionError,
  MarketlogError,
  type MarketlogOptions,
} from '#services/clients/typescript/src/marketlog.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type Listening, listen } from '#test/harness/listen.ts'

type Answer = (response: ServerResponse, request: IncomingMessage) => void

const refuse =
  (status: number, code: string, headers: Record<string, string> = {}): Answer =>
  response =>
    response.writeHead(status, headers).end(JSON.stringify({ code, detail: `${code}.` }))
const answer =
  (body: object): Answer =>
  response =>
    response.end(JSON.stringify(body))
const hangUp: Answer = response => response.destroy()
const fallSilent: Answer = () => undefined

const eventText = (type: string, data: object, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`
const changed = (item_id: number, price: number | null, id?: string): string => {
  const change = price === null ? 'removed' : 'updated'
  const item = { item_id, market_hash_name: `item ${item_id}`, phase: null, price, qty: price === null ? 0 : 1, change }
  return eventText(
    'prices.changed',
    { provider: 'provider_01', seen_at: '2026-03-03T21:34:30.549Z', items: [item] },
    id,
  )
}
const ready = (id: string): string => eventText('ready', {}, id)
const stateEnd = (id: string): string => eventText('snapshot.end', { items: 1 }, id)

/** Events, then the end of the connection, or none. */
const stream =
  (events: string[], { isOpen = false } = {}): Answer =>
  response => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(events.join(''))
    if (!isOpen) response.end()
  }

describe('the TypeScript client', () => {
  let server: Listening
  let script: Answer[]
  let requests: { path: string; query: URLSearchParams; headers: IncomingMessage['headers'] }[]

  before(async () => {
    server = await listen(
      createServer((request, response) => {
        const { pathname, searchParams } = new URL(request.url ?? '', 'http://platform')
        requests.push({ path: pathname, query: searchParams, headers: request.headers })
        const next = script.shift() ?? refuse(500, 'INTERNAL_ERROR')
        next(response, request)
      }),
    )
  })
  beforeEach(() => {
    script = []
    requests = []
  })
  after(() => server.close())

  const openClient = (options: Partial<MarketlogOptions> = {}) =>
    new Marketlog({ baseUrl: `http://127.0.0.1:${server.port}/v1/`, key: 'sk_live_root_x', ...options })

  async function errorOf(promise: Promise<unknown>): Promise<unknown> {
    return promise.then(
      () => undefined,
      error => error,
    )
  }

  describe('that calls', () => {
    it('repeats what was refused for now, under one idempotency key', async () => {
      script = [
        refuse(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '0' }),
        hangUp,
        refuse(429, 'RATE_LIMIT_EXCEEDED', { 'retry-after': '0' }),
        answer({ id: 'p1' }),
      ]
      expect(await openClient().createPortfolio({ name: 'Long term' })).to.deep.equal({ id: 'p1' })
      const keys = new Set(requests.map(({ headers }) => headers['idempotency-key']))
      expect([requests.length, keys.size]).to.deep.equal([4, 1])
    })

    it('ends with the reason of its signal, whether it waits for an answer or to ask again', async () => {
      for (const waiting of [fallSilent, refuse(429, 'RATE_LIMIT_EXCEEDED', { 'retry-after': '30' })]) {
        script = [waiting]
        requests = []
        const ending = new AbortController()
        const call = errorOf(openClient().reissueKey({}, { signal: ending.signal }))
        await eventually(() => requests.length === 1, 'the request')
        ending.abort('enough')
        expect(await call).to.equal('enough')
      }
    })

    it('ends at its time limit', async () => {
      script = [fallSilent]
      const error = await errorOf(openClient({ timeoutMs: 20, retries: 0 }).listFxRates())
      expect(error).to.be.instanceOf(MarketlogConnectionError)
      expect(String(error)).to.include('20 ms')
    })

    it('throws where a bulk snapshot breaks off, or ends within a line', async () => {
      const text = '{"item_id":1}\n{"item_id":2}\n{"it'
      for (const headers of [{ 'content-length': '1000' }, {}]) {
        script = [
          response => {
            response.writeHead(200, { 'content-type': 'application/x-ndjson', ...headers })
            if ('content-length' in headers) response.write(text, () => response.destroy())
            else response.end(text)
          },
        ]
        const ids: number[] = []
        const read = async () => {
          for await (const { item_id } of openClient().snapshot('streamPrices')) ids.push(item_id)
        }
        expect(await errorOf(read())).to.be.instanceOf(MarketlogConnectionError)
        expect(ids).to.deep.equal([1, 2])
      }
    })
  })

  describe('that follows a feed', () => {
    const takeFrom = async (events: AsyncIterable<{ type: string; lastEventId: string }>, count: number) => {
      const taken: string[] = []
      for await (const { type, lastEventId } of events) if (taken.push(`${type} ${lastEventId}`) === count) break
      return taken
    }
    const resumedAt = () => requests.map(({ query }) => query.get('last_event_id'))

    it('resumes after the last event, also where that came without an id', async () => {
      script = [
        stream([ready('p1'), changed(1, 100, 'p2'), changed(1, 101)]),
        refuse(500, 'INTERNAL_ERROR'),
        refuse(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '0' }),
        stream([ready('p2'), changed(1, 102, 'p3')]),
      ]
      expect(await takeFrom(openClient().feed.prices({ providers: ['provider_01'] }), 5)).to.deep.equal([
        ...['ready p1', 'prices.changed p2', 'prices.changed p2', 'ready p2', 'prices.changed p3'],
      ])
      expect(resumedAt()).to.deep.equal([null, 'p2', 'p2', 'p2'])
      for (const { query, headers } of requests) {
        expect([query.get('resume'), query.get('providers')]).to.deep.equal(['true', 'provider_01'])
        expect(headers.authorization).to.equal('Bearer sk_live_root_x')
      }
    })

    it('ends with a refusal that a further connection cannot mend', async () => {
      for (const [status, code] of [
        [401, 'AUTH_API_KEY_REVOKED'],
        [403, 'FORBIDDEN_TIER'],
        [422, 'VALIDATION_ERROR'],
      ] as const) {
        script = [stream([ready('p1')]), refuse(status, code)]
        const error = (await errorOf(takeFrom(openClient().feed.bids(), 9))) as MarketlogError
        expect([error.status, error.code]).to.deep.equal([status, code])
      }
    })

    it('ends where events were missed for good, and resumes at the gap where the news of it was cut off', async () => {
      const resync = eventText('resync', { reason: 'expired' }, 'p8')
      script = [stream([ready('p1')]), stream([ready('p7')]), stream([ready('p8'), resync])]
      const error = (await errorOf(takeFrom(openClient().feed.sales(), 9))) as FeedGapError
      expect(error).to.be.instanceOf(FeedGapError)
      expect([error.reason, resumedAt()]).to.deep.equal(['expired', [null, 'p1', 'p1']])
    })

    it('does not believe a silence that is longer than heartbeats allow', async () => {
      const next = stream([ready('p1'), changed(1, 100, 'p2')])
      script = [stream([ready('p1')], { isOpen: true }), next, next, next]
      const breaks: unknown[] = []
      const onBreak = (error: unknown) => breaks.push(error)
      const feed = openClient({ silenceMs: 200 }).feed.prices({}, { onBreak })
      expect(await takeFrom(feed, 3)).to.deep.equal(['ready p1', 'ready p1', 'prices.changed p2'])
      expect(String(breaks)).to.include('nothing came for 200 ms')
    })

    it('ends with the reason of its signal', async () => {
      script = [stream([ready('p1')], { isOpen: true })]
      const ending = new AbortController()
      const feed = openClient().feed.prices({}, { signal: ending.signal })
      await feed.next()
      const next = errorOf(feed.next())
      ending.abort('enough')
      expect(await next).to.equal('enough')
    })

    it('asks for another token where its own is not good any more', async () => {
      const tokens = ['t1', 't2']
      script = [stream([ready('p1')]), refuse(401, 'AUTH_INVALID_API_KEY'), stream([ready('p1')])]
      const client = openClient({ feedToken: () => tokens.shift() ?? 'none' })
      await takeFrom(client.feed.prices(), 2)
      expect(requests.map(({ query }) => query.get('token'))).to.deep.equal(['t1', 't1', 't2'])
      expect(requests.map(({ headers }) => headers.authorization)).to.deep.equal([undefined, undefined, undefined])
    })

    it('reads no more than its reader asks for', async () => {
      let [sent, isBlocked] = [0, false]
      const write = (response: ServerResponse): void => {
        while (!response.closed && response.write(changed(++sent, 100, `p${sent}`)));
        isBlocked = !response.closed
        response.once('drain', () => {
          isBlocked = false
          write(response)
        })
      }
      script = [write]
      const feed = openClient().feed.prices()
      const ids: number[] = []
      const readOne = async (): Promise<void> => {
        const { value } = await feed.next()
        if (value?.type === 'prices.changed') ids.push(value.data.items[0]?.item_id ?? 0)
      }
      await readOne()
      // What sockets hold on both sides is some megabytes, of which the kernel decides.
      let [before, unchanged] = [0, 0]
      await eventually(() => {
        unchanged = isBlocked && sent === before ? unchanged + 1 : 0
        before = sent
        return unchanged > 5
      }, 'full sockets')
      const whenFull = sent
      await readOne()
      expect(sent).to.equal(whenFull)
      while (sent === whenFull) await readOne()
      expect(ids).to.deep.equal(ids.map((_, at) => at + 1))
      await feed.return()
    })

    it('ends a replay at its end, and with an error where it breaks off', async () => {
      const end = eventText('replay.end', { items: 1 })
      const replay = () => openClient().feed.replayPrices({ from: '2026-03-03', speed: 0 })
      script = [stream([ready('p1'), changed(1, 100), end], { isOpen: true }), stream([changed(1, 100)])]
      expect(await takeFrom(replay(), 9)).to.deep.equal(['ready ', 'prices.changed ', 'replay.end '])
      expect(await errorOf(takeFrom(replay(), 9))).to.be.instanceOf(MarketlogConnectionError)
    })
  })

  describe('that keeps a live book', () => {
    const resync = eventText('resync', { reason: 'expired' })
    const rows = (asks: readonly { item_id: number; price: number | null }[]) =>
      asks.map(({ item_id, price }) => `${item_id} ${price}`)

    it('has no row of a state that broke off, and none that was withdrawn while its position expired', async () => {
      script = [
        // A state that breaks off, and the one that replaces it.
        stream([ready('s1'), changed(9, 900)]),
        stream([ready('s2'), changed(1, 100), changed(2, 200), stateEnd('p1')]),
        // A state after an expired position, which is cut within, and before its `resync` was read.
        stream([ready('s3')]),
        stream([ready('s4'), resync, changed(1, 111)]),
        stream([ready('s5'), resync, changed(1, 112), changed(3, 300), stateEnd('p9')], { isOpen: true }),
      ]
      const book = await openClient().liveBook()
      expect(rows(book.asks())).to.deep.equal(['1 100', '2 200'])
      const changes: string[] = []
      for await (const { item_id, price, change } of book.changes()) {
        changes.push(`${change} ${item_id} ${price}`)
        if (item_id === 3) break
      }
      expect(changes).to.deep.equal(['removed 2 null', 'updated 1 112', 'updated 3 300'])
      expect(rows(book.asks())).to.deep.equal(['1 112', '3 300'])
      expect([book.best('item 1')?.price, book.best(2)]).to.deep.equal([112, undefined])
      expect(requests.map(({ query }) => query.get('last_event_id'))).to.deep.equal([null, 's1', 'p1', 'p1', 'p1'])
      await book.close()
    })

    it('answers with the error of its feed once that has ended', async () => {
      script = [stream([ready('s1'), changed(1, 100), stateEnd('p1')]), refuse(403, 'FORBIDDEN_TIER')]
      const book = await openClient().liveBook({ market_hash_names: ['item 1'] })
      const changes = book.changes()
      const isForbidden = (error: unknown) => (error as MarketlogError).code === 'FORBIDDEN_TIER'
      expect(await errorOf(changes.next())).to.satisfy(isForbidden)
      expect(() => book.asks(1)).to.throw(MarketlogError, 'FORBIDDEN_TIER')
    })

    it('is not opened where its feed is refused', async () => {
      script = [refuse(401, 'AUTH_INVALID_API_KEY')]
      expect(await errorOf(openClient().liveBook())).to.have.property('code', 'AUTH_INVALID_API_KEY')
    })
  })
})
