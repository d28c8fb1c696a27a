/**
 * Limits of the clients of a server: connections, of the process and of one address, and unsent bytes.
 *
 * States of a connection: idle -> answering (one request at a time, the next one waits) -> idle, or cut. Invariant: an answer of
 * which a client takes less than `leastBytes` in `stallMs` is cut with its connection, and above `unsentBytes` of all answers
 * together those are cut first that waited longest for most; so what stalled clients cost is bounded, whatever they ask for.
 * Requests of one connection are answered one by one: twenty of them in one packet used to be twenty answers in memory.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Counter } from 'prom-client'
import type { Metrics } from './metrics.ts'
import { isLoopback, networkOf } from './trusted-proxies.ts'

export interface ConnectionLimits {
  connections: number
  /** Connections of one address, or of one IPv6 network. */
  perAddress: number
  /** Addresses whose number of connections is not limited. */
  isExempt(address: string): boolean
  stallMs: number
  leastBytes: number
  unsentBytes: number
  sweepMs: number
}

export const CONNECTION_LIMITS: ConnectionLimits = {
  connections: 20_000,
  perAddress: 256,
  isExempt: isLoopback,
  stallMs: 30_000,
  leastBytes: 32 * 1024,
  unsentBytes: 256 * 2 ** 20,
  sweepMs: 250,
}

type Serve = (request: IncomingMessage, response: ServerResponse) => void

interface Answering {
  response: ServerResponse
  waiting: [IncomingMessage, ServerResponse][]
  /** When the client last took enough, and how many bytes it had taken then. */
  paidAt: number | undefined
  paidBytes: number
}

/** Requests of a connection that wait for the one before them. */
const WAITING_MAX = 100

/** Answers whose bytes are in memory anyway. */
const SHARED = new WeakSet<ServerResponse>()

/** Leaves an answer out of the count of unsent bytes: its bytes are kept for others too. */
export const noteShared = (response: ServerResponse): void => void SHARED.add(response)

/** Holds the clients of a server to limits; gives the server's listener for requests. */
export function limitConnections(
  server: Server,
  serve: Serve,
  { limits, metrics, now }: { limits: ConnectionLimits; metrics: Metrics; now: () => number },
): Serve {
  const cut = metrics.counter('http_connections_cut_total', 'Connections that were ended or refused.', ['reason'])
  const unsent = metrics.gauge('http_unsent_bytes', 'Bytes of answers that clients have not taken yet.')
  limitNumber(server, limits, cut)
  const answering = new Map<Socket, Answering>()

  function begin(
    socket: Socket,
    request: IncomingMessage,
    response: ServerResponse,
    waiting: Answering['waiting'],
  ): void {
    answering.set(socket, { response, waiting, paidAt: undefined, paidBytes: 0 })
    response.once('close', () => goOn(socket, waiting))
    serve(request, response)
  }
  function goOn(socket: Socket, waiting: Answering['waiting']): void {
    const next = isOver(socket) ? undefined : waiting.shift()
    if (next) begin(socket, ...next, waiting)
    else answering.delete(socket)
  }

  const sweep = setInterval(() => unsent.set(cutStalled(answering, limits, cut, now())), limits.sweepMs).unref()
  server.once('close', () => clearInterval(sweep))
  return (request, response) => {
    const { socket } = request
    // What came before a connection was ended, or behind the request that it ends with, is still read.
    if (isOver(socket)) return
    const current = answering.get(socket)
    if (!current) return begin(socket, request, response, [])
    if (current.waiting.push([request, response]) <= WAITING_MAX) return
    cut.inc({ reason: 'pipelined' })
    socket.destroy()
  }
}

const isOver = (socket: Socket): boolean => socket.destroyed || socket.writableEnded

function limitNumber(server: Server, limits: ConnectionLimits, cut: Counter): void {
  const open = new Map<string, number>()
  server.maxConnections = limits.connections
  server.on('drop', () => cut.inc({ reason: 'process' }))
  // Before the server's own: a connection that is refused is not read.
  server.prependListener('connection', (socket: Socket) => {
    const { remoteAddress: address } = socket
    if (address === undefined || limits.isExempt(address)) return
    const network = networkOf(address)
    const count = (open.get(network) ?? 0) + 1
    if (count > limits.perAddress) {
      cut.inc({ reason: 'address' })
      socket.destroy()
      return
    }
    open.set(network, count)
    socket.once('close', () => {
      const left = (open.get(network) ?? 0) - 1
      if (left > 0) open.set(network, left)
      else open.delete(network)
    })
  })
}

/** Bytes that the system has taken, those of a write under way too. */
function takenOf(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { _handle?: { bytesWritten: number; writeQueueSize: number } | null }
  return handle ? handle.bytesWritten - handle.writeQueueSize : 0
}

/** Returns the unsent bytes of all answers. */
function cutStalled(answering: Map<Socket, Answering>, limits: ConnectionLimits, cut: Counter, now: number): number {
  let total = 0
  const waiting: { socket: Socket; bytes: number; weight: number }[] = []
  for (const [socket, one] of answering) {
    // A socket that was taken over has a bound of its own, and its answer has no end that would be reported.
    if (socket.destroyed || one.response.socket !== socket) {
      answering.delete(socket)
      continue
    }
    const taken = takenOf(socket)
    const bytes = socket.writableLength
    if (bytes === 0 || one.paidAt === undefined || taken - one.paidBytes >= limits.leastBytes) {
      one.paidAt = now
      one.paidBytes = taken
      if (bytes === 0) continue
    }
    if (now - one.paidAt > limits.stallMs) {
      cut.inc({ reason: 'stalled' })
      socket.destroy()
      continue
    }
    if (SHARED.has(one.response)) continue
    total += bytes
    waiting.push({ socket, bytes, weight: bytes * (now - one.paidAt + 1) })
  }
  if (total > limits.unsentBytes) {
    for (const { socket, bytes } of waiting.sort((a, b) => b.weight - a.weight)) {
      if (total <= limits.unsentBytes) break
      total -= bytes
      cut.inc({ reason: 'unsent' })
      socket.destroy()
    }
  }
  return total
}
