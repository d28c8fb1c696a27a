/**
 * A TCP proxy on loopback that harms what passes. Its line is open ⇄ slow, stalled (bytes vanish while connections stay: a half-open
 * connection), cut (connections end and new ones are refused). What vanished is never sent later, since a stream with a gap would be no
 * protocol: a connection that has lost bytes ends when its line heals.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as after } from 'node:timers/promises'
import { listen } from './listen.ts'

export type Direction = 'to-server' | 'to-client'

/** How many bytes of an answer a client gets: so many, or what comes up to and with a text. */
export type ClientBytes = number | string

export type WireProxy = Awaited<ReturnType<typeof openWireProxy>>

interface Line {
  harmed: number
  refused: number
  delayMs: number
  isCut: boolean
  stalled: ReadonlySet<Direction>
  target: { port: number; host: string } | undefined
  drawEnd: () => ClientBytes | undefined
}

interface Pair {
  client: Socket
  server: Socket
  /** Directions in which bytes have vanished. */
  lost: Set<Direction>
}

const EITHER: readonly Direction[] = ['to-server', 'to-client']

export async function openWireProxy() {
  const whole = { delayMs: 0, isCut: false, stalled: new Set<Direction>(), drawEnd: () => undefined }
  const line: Line = { harmed: 0, refused: 0, target: undefined, ...whole }
  const pairs = new Set<Pair>()
  const end = (pair: Pair): void => {
    pairs.delete(pair)
    pair.client.destroy()
    pair.server.destroy()
  }
  // A client that has ended still reads what the server answers.
  const server: Server = createServer({ allowHalfOpen: true }, client => {
    if (line.isCut || line.target === undefined) {
      line.harmed += 1
      line.refused += 1
      return void client.resetAndDestroy()
    }
    const pair: Pair = { client, server: connect({ ...line.target, allowHalfOpen: true }), lost: new Set() }
    pairs.add(pair)
    for (const socket of [pair.client, pair.server]) {
      socket.setNoDelay(true)
      socket.on('error', () => end(pair))
      socket.on('close', () => end(pair))
    }
    pass(pair, line, 'to-server')
    const within = line.drawEnd()
    pass(pair, line, 'to-client', within === undefined ? undefined : openEnd(within))
  })
  const { port, close } = await listen(server)
  return {
    port,
    /** Names the server's port, on this machine unless a host is named; until then connections are refused. */
    forwardTo(port: number, host = '127.0.0.1'): void {
      line.target = { port, host }
    },
    /** Holds every chunk back for so long. */
    delay(ms: number): void {
      line.delayMs = ms
    },
    /** Asked for each new connection how many bytes the client gets before it ends; undefined: all. */
    endWithin(draw: () => ClientBytes | undefined): void {
      line.drawEnd = draw
    },
    /** Resets every connection and refuses new ones, as when a server is gone. */
    cut(): void {
      line.isCut = true
      line.refused = 0
      line.harmed += pairs.size
      for (const pair of pairs) pair.client.resetAndDestroy()
    },
    refused: () => line.refused,
    /** Keeps connections and lets what goes that way, or either way, vanish. */
    stall(direction?: Direction): void {
      line.stalled = new Set(direction === undefined ? EITHER : [direction])
    },
    /** Ends all of the above; connections that have lost bytes end. */
    heal(): void {
      Object.assign(line, whole)
      for (const pair of pairs) if (pair.lost.size > 0) end(pair)
    },
    connections: () => pairs.size,
    /** How often it has done harm so far: chunks held back or vanished, connections ended or refused. */
    harmed: () => line.harmed,
    async close(): Promise<void> {
      for (const pair of pairs) end(pair)
      await close()
    },
  }
}

/** A line to a server, with the server's URL by way of it. */
export type Wire = WireProxy & { readonly url: string }

export async function layWire(target: string): Promise<Wire> {
  const { hostname, port } = new URL(target)
  const proxy = await openWireProxy()
  proxy.forwardTo(Number(port), hostname)
  const url = new URL(target)
  url.host = `127.0.0.1:${proxy.port}`
  return { ...proxy, url: url.href }
}

/** Passes a part of the chunk within which a connection ends; undefined before it. */
function openEnd(end: ClientBytes): (chunk: Buffer) => Buffer | undefined {
  let seen = Buffer.alloc(0)
  return chunk => {
    const before = seen.length
    seen = Buffer.concat([seen, chunk])
    if (typeof end === 'string' && !seen.includes(end)) return undefined
    const last = typeof end === 'number' ? end : seen.indexOf(end) + end.length
    return last <= seen.length ? chunk.subarray(0, last - before) : undefined
  }
}

function pass(pair: Pair, line: Line, direction: Direction, endOf?: (chunk: Buffer) => Buffer | undefined): void {
  const [from, to] = direction === 'to-server' ? [pair.client, pair.server] : [pair.server, pair.client]
  let last: Promise<unknown> = Promise.resolve()
  from.on('data', chunk => {
    if (line.stalled.has(direction)) pair.lost.add(direction)
    if (line.delayMs > 0 || pair.lost.has(direction)) line.harmed += 1
    if (pair.lost.has(direction)) return
    const rest = endOf?.(chunk)
    if (rest) {
      line.harmed += 1
      pair.lost.add(direction)
      last = last.then(() => void to.end(rest, () => from.destroy()))
      return
    }
    const due = line.delayMs === 0 ? undefined : after(line.delayMs)
    last = last
      .then(() => due)
      .then(() => {
        if (to.destroyed || to.write(chunk)) return
        from.pause()
        to.once('drain', () => from.resume())
      })
  })
  from.on('end', () => {
    if (!line.stalled.has(direction)) last = last.then(() => void to.end())
  })
}
