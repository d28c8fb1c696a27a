/**
 * What clients may hold of a process. A reader that had stalled used to keep its answers for minutes, and twenty requests in one
 * packet were twenty answers in memory.
 */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { CONNECTION_LIMITS, type ConnectionLimits } from '#infra/runtime/connection-limits.ts'
import { type HttpHost, type HttpLimits, openHttpHost } from '#infra/runtime/http-host.ts'
import { type Metrics, openMetrics } from '#infra/runtime/metrics.ts'
import { eventually, within } from '#test/harness/eventually.ts'

/** More than the buffers of both kernels take. */
const BODY = Buffer.alloc(32 * 2 ** 20, 'a')
const PATIENT: HttpLimits = { idleMs: 600_000, headersMs: 600_000, requestMs: 600_000, checkEveryMs: 20 }

describe('the connections of a process', () => {
  let host: HttpHost
  let metrics: Metrics
  let port: number
  let sockets: Socket[] = []
  let begun: string[] = []

  async function open(
    clients: Partial<ConnectionLimits>,
    handle: (request: IncomingMessage, response: ServerResponse) => void,
    now = () => performance.now(),
  ): Promise<void> {
    metrics = openMetrics()
    const defaults = { isExempt: () => false, sweepMs: 20, stallMs: 600_000 }
    host = openHttpHost({
      host: '127.0.0.1',
      port: 0,
      metrics,
      limits: PATIENT,
      now,
      clients: { ...CONNECTION_LIMITS, ...defaults, ...clients },
    })
    host.mount(['/'], (request, response) => {
      begun.push(request.url ?? '')
      handle(request, response)
    })
    ;({ port } = await host.listen())
  }
  beforeEach(() => {
    sockets = []
    begun = []
  })
  afterEach(async () => {
    for (const socket of sockets) socket.destroy()
    await host.close()
  })

  async function dial(): Promise<Socket> {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }
  const ask = (socket: Socket, path: string): boolean => socket.write(`GET ${path} HTTP/1.1\r\nHost: t\r\n\r\n`)
  /** Reads until there is so much, or the end. */
  async function read(socket: Socket, bytes: number): Promise<number> {
    let count = 0
    socket.on('data', (chunk: Buffer) => {
      count += chunk.length
    })
    await eventually(() => count >= bytes || socket.closed, `${bytes} bytes`)
    socket.removeAllListeners('data')
    return count
  }
  const cutBy = async (reason: string): Promise<number> => {
    const { values } = await metrics.counter('http_connections_cut_total', '').get()
    return values.find(({ labels }) => labels.reason === reason)?.value ?? 0
  }

  it('are cut when an answer is not read', async () => {
    await open({ stallMs: 200 }, (_request, response) => response.end(BODY))
    const socket = await dial()
    ask(socket, '/stalled')
    await eventually(async () => (await cutBy('stalled')) === 1, 'the cut')
    expect(await read(socket, BODY.length)).to.be.below(BODY.length)
  })

  it('are kept while an answer is made, and while it is read fast enough', async () => {
    let answer = (): void => undefined
    // The clock goes on while the answer is made, and with what the client takes: a machine that is slow cuts nobody here.
    let [clock, looks] = [0, 0]
    const now = (): number => {
      looks += 1
      return clock
    }
    const handle = (_: IncomingMessage, response: ServerResponse): void => {
      answer = () => response.end(BODY)
    }
    await open({ stallMs: 200 }, handle, now)
    const socket = await dial()
    ask(socket, '/slow')
    const other = await dial()
    await eventually(() => begun.length === 1, 'the request')
    clock += 500
    const before = looks
    await eventually(() => looks > before + 1, 'two looks at what is unsent')
    answer()
    let count = 0
    socket.pause().on('data', (chunk: Buffer) => {
      count += chunk.length
      // Four times the limit for the whole answer; both kernels' buffers are filled in steps of some MiB.
      clock += (25 * chunk.length) / 2 ** 20
      socket.pause()
    })
    const pace = setInterval(() => socket.resume(), 5)
    await eventually(() => count > BODY.length || socket.closed, 'the whole answer')
    clearInterval(pace)
    expect(count).to.be.above(BODY.length)
    expect(await cutBy('stalled')).to.equal(0)
    other.destroy()
  })

  it('are cut, those first that wait longest for most, when too much is unsent', async () => {
    await open({ unsentBytes: 2.5 * BODY.length }, (request, response) => {
      response.end(request.url === '/small' ? 'small' : Buffer.from(BODY))
    })
    const stalled = [await dial(), await dial(), await dial(), await dial()]
    for (const socket of stalled) ask(socket, '/stalled')
    await eventually(async () => (await cutBy('unsent')) >= 1, 'a cut')
    const good = await dial()
    ask(good, '/small')
    expect(await read(good, 5)).to.be.above(5)
    const unsent = await metrics.gauge('http_unsent_bytes', '').get()
    expect(unsent.values[0]?.value).to.be.at.most(2.5 * BODY.length)
  })

  it('answer one request at a time, however many are sent', async () => {
    await open({}, (_request, response) => response.end(BODY))
    const socket = await dial()
    socket.write(Array.from({ length: 20 }, (_, i) => `GET /${i} HTTP/1.1\r\nHost: t\r\n\r\n`).join(''))
    await eventually(() => begun.length > 0, 'the first request')
    const other = await dial()
    ask(other, '/other')
    await eventually(() => begun.includes('/other'), 'the request of another')
    expect(begun).to.deep.equal(['/0', '/other'])
    await read(socket, 2 * BODY.length)
    expect(begun).to.include('/1')
  })

  it('end when more requests are sent than may wait', async () => {
    await open({}, () => undefined)
    const socket = await dial()
    const ended = once(socket, 'close')
    socket.resume().write('GET /x HTTP/1.1\r\nHost: t\r\n\r\n'.repeat(200))
    await within(ended, 'the end')
    expect(begun).to.deep.equal(['/x'])
    expect(await cutBy('pipelined')).to.equal(1)
  })

  it('are so many for one address, and so many for all', async () => {
    await open({ perAddress: 2, connections: 3 }, (_request, response) => response.end('ok'))
    const [first] = [await dial(), await dial()]
    const third = await dial()
    await within(once(third.resume(), 'close'), 'the refusal')
    expect(await cutBy('address')).to.equal(1)
    first?.destroy()
    await eventually(async () => {
      const socket = await dial()
      ask(socket, '/again')
      return (await read(socket, 1)) > 0
    }, 'room again')
    for (const socket of sockets) socket.destroy()
    await host.close()
    await open({ connections: 2, isExempt: () => true }, (_request, response) => response.end('ok'))
    await Promise.all([dial(), dial()])
    const late = await dial()
    await within(once(late.resume(), 'close'), 'the refusal')
    expect(await cutBy('process')).to.equal(1)
  })
})
