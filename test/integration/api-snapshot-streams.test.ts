import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setInterval } from 'node:timers/promises'
import { deflateRawSync } from 'node:zlib'
import { expect } from 'chai'
import type { Redis } from '#infra/redis/redis.ts'
import { openStreamPermits } from '#infra/redis/stream-permits.ts'
import { type Metrics, openMetrics } from '#infra/runtime/metrics.ts'
import { openSnapshotStreams, type SnapshotStreamOptions } from '#services/api/snapshot-streams.ts'
import type { PinnedSnapshot } from '#streams/live-view/reader.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** The system reports freed room in steps of megabytes, so that a slow reader looks idle for up to half a second. */
const STALL_LIMIT_MS = 5_000
const SLOW_READ_MS = 10
const NEVER_MS = 600_000
const BLOCK_BYTES = 400_000
/** More than all buffers between the service and a client that reads nothing. */
const BLOCKS = 200

describe('a bulk stream', () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  let permits: ReturnType<typeof openStreamPermits>
  let snapshot: PinnedSnapshot
  let streams: ReturnType<typeof openSnapshotStreams>
  let metrics: Metrics
  let server: Server
  let answered: Promise<void>
  /** Whether the key of all streams is let in. */
  let judge: () => Promise<boolean>
  const clients: Socket[] = []

  before(async () => {
    redis = await platform.openRedis()
    permits = openStreamPermits(redis, { prefix: platform.namespace })
    const block = deflateRawSync(Buffer.alloc(BLOCK_BYTES, 'x'), { finishFlush: 3 })
    const key = `${platform.namespace}segment`
    await redis.set(key, block)
    const entry = {
      version: 1,
      lines: 1,
      crc: 0,
      updated: 0,
      blocks: [[BLOCK_BYTES, block.length]] as [number, number][],
    }
    const segments = Array.from({ length: BLOCKS }, () => ({ key, entry }))
    snapshot = { segments, lines: BLOCKS, updatedAt: 0, name: 'x' }
  })

  const open = (limits: Pick<SnapshotStreamOptions, 'stallLimitMs' | 'finishLimitMs'> = {}): void => {
    const { log, config } = platform
    const never = { stallLimitMs: NEVER_MS, finishLimitMs: NEVER_MS }
    streams = openSnapshotStreams({ settings: config, redis, log, metrics, ...never, ...limits })
  }
  beforeEach(async () => {
    metrics = openMetrics()
    judge = () => Promise.resolve(true)
    server = createServer((_request, plain) => {
      const response = plain as Parameters<typeof streams.send>[0]
      response.locals = { requestId: 'r', startedAt: 0, observe: () => undefined }
      answered = permits.start('subject', 1_000).then(async start => {
        if (start.kind !== 'started') throw new Error(start.kind)
        await streams.send(response, {
          snapshot,
          coding: 'identity',
          permit: start.permit,
          headers: [],
          isAccepted: () => judge(),
        })
      })
    })
    await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  })
  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy()
    await streams.close()
    await new Promise(resolve => server.close(resolve))
  })

  function request(): Socket {
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    clients.push(client)
    client.pause()
    client.write('POST / HTTP/1.1\r\nHost: x\r\n\r\n')
    return client
  }

  async function ask(): Promise<Socket> {
    const client = request()
    await eventually(async () => outcomes('api_snapshot_streams').then(text => text.includes(' 1')), 'a stream')
    return client
  }

  const outcomes = async (name: string): Promise<string> => (await metrics.registry.getSingleMetricAsString(name)) ?? ''

  const drain = (client: Socket): Promise<number> =>
    new Promise(resolve => {
      let bytes = 0
      client.on('data', chunk => {
        bytes += chunk.length
      })
      client.on('error', () => resolve(bytes))
      client.on('close', () => resolve(bytes))
      client.resume()
    })

  const isFree = async (): Promise<boolean> => {
    const start = await permits.start('subject', 1_000)
    if (start.kind !== 'started') return false
    await start.permit.undo()
    return true
  }

  it('is cut when its client takes no byte for too long', async () => {
    open({ stallLimitMs: 100 })
    const client = request()
    const isCut = async () => (await outcomes('api_snapshot_streams_total')).includes('outcome="stalled"} 1')
    await eventually(isCut, 'the cut')
    expect(await isFree()).to.equal(true)
    expect(await drain(client)).to.be.lessThan(BLOCKS * BLOCK_BYTES)
  })

  it('is not cut while its client reads slowly, for longer than a stall may last', async () => {
    open({ stallLimitMs: STALL_LIMIT_MS })
    const client = await ask()
    let bytes = 0
    let reads = 0
    for await (const _ of setInterval(SLOW_READ_MS)) {
      const chunk: Buffer | null = client.read()
      bytes += chunk?.length ?? 0
      if (++reads * SLOW_READ_MS > 1.2 * STALL_LIMIT_MS) break
    }
    expect(bytes).to.be.within(1, BLOCKS * BLOCK_BYTES - 1)
    expect(await isFree()).to.equal(false)
  })

  it('is cut when its key is revoked, and not while that cannot be known', async () => {
    open()
    const client = await ask()
    let asked = 0
    judge = () => {
      asked += 1
      return Promise.reject(new Error('Postgres is away'))
    }
    await eventually(() => asked > 1, 'the key to be looked at')
    expect(await outcomes('api_snapshot_streams_total')).to.not.include('outcome="revoked"} 1')
    judge = () => Promise.resolve(false)
    await answered
    expect(await outcomes('api_snapshot_streams_total')).to.include('outcome="revoked"} 1')
    expect(await isFree()).to.equal(true)
    expect(await drain(client)).to.be.lessThan(BLOCKS * BLOCK_BYTES)
  })

  it('is cut when its permit is lost', async () => {
    open()
    const short = openStreamPermits(redis, { prefix: platform.namespace, leaseMs: 150 })
    const before = permits
    permits = short
    const client = await ask()
    permits = before
    await redis.set(`${platform.namespace}{stream:subject}:lease`, 'another', 'PX', 60_000)
    await answered
    expect(await outcomes('api_snapshot_streams_total')).to.include('outcome="failed"} 1')
    expect(await drain(client)).to.be.lessThan(BLOCKS * BLOCK_BYTES)
    await redis.del(`${platform.namespace}{stream:subject}:lease`)
  })

  it('may finish when the process stops', async () => {
    open()
    const reading = await ask()
    const bytes = drain(reading)
    reading.resume()
    await streams.close()
    expect(await outcomes('api_snapshot_streams_total')).to.include('outcome="finished"} 1')
    reading.end()
    expect(await bytes).to.be.greaterThan(BLOCKS * BLOCK_BYTES)
    expect(await isFree()).to.equal(true)
  })

  it('is cut when the process stops and it does not finish', async () => {
    open({ finishLimitMs: 50 })
    const client = await ask()
    await streams.close()
    expect(await outcomes('api_snapshot_streams_total')).to.include('outcome="stopped"} 1')
    expect(await isFree()).to.equal(true)
    expect(await drain(client)).to.be.lessThan(BLOCKS * BLOCK_BYTES)
  })
})
