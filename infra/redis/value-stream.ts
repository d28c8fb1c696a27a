/**
 * Own reader of Redis values: ioredis took 80 to 100 ms of CPU for 47 MB in 328 values, this 25 to 40 ms (bench `snapshots`).
 *
 * Streams the bytes of large values as they arrive, on a connection of its own; ioredis hands them over whole, in new memory, and
 * eight such readers grew the process by 50 to 65 MiB, these by 128 KiB each. Speaks as much of the protocol as that takes: AUTH,
 * SELECT, GET, and follows MOVED and ASK. Invariant: one buffer a server holds all that was read and not yet taken; while its
 * reader does not ask for more, a connection is not read from. A value that is not there, an error, a lost connection or a
 * silent server throws; nothing waits for ever. Ending the iteration or aborting closes the connections.
 */
import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { addressOf, type RedisNode, type RedisSettings } from '../runtime/redis-settings.ts'
import { accessOptions, tlsOf } from './access.ts'
import { nodeOfKey, type Redis } from './redis.ts'

/** Bytes of one value; they are overwritten when the next piece is asked for. */
export interface ValuePiece {
  index: number
  bytes: Buffer
}

interface ValueRequest {
  settings: RedisSettings
  /** A connection opened with them: it knows which server holds a key. */
  redis: Redis
  keys: readonly string[]
  signal: AbortSignal
}

export class ValueMissing extends Error {}

const BUFFER_BYTES = 128 * 1024
/** Values asked for ahead: enough that Redis never waits for the next question. */
const AHEAD = 4
const ANSWER_LIMIT_MS = 10_000
const LF = 10

/** The bytes of the values of keys, in their order; an empty value has no piece. */
export async function* readValues({ keys, ...source }: ValueRequest): AsyncGenerator<ValuePiece, void, void> {
  if (keys.length === 0) return
  const wires = openWires(source)
  try {
    for (const key of keys.slice(0, AHEAD)) wires.ask(key)
    for (const [index, key] of keys.entries()) {
      const { wire, length } = await wires.answer(key)
      const ahead = keys[index + AHEAD]
      if (ahead !== undefined) wires.ask(ahead)
      if (length < 0) throw new ValueMissing(`${key} is not there`)
      for (let left = length; left > 0; ) {
        const bytes = await wire.take(left)
        left -= bytes.length
        yield { index, bytes }
      }
      // What ends a value may itself come in two pieces.
      for (let left = 2; left > 0; ) left -= (await wire.take(left)).length
    }
  } finally {
    wires.close()
  }
}

interface Wires {
  ask(key: string): void
  /** The begin of the next answer, which is that for `key`. */
  answer(key: string): Promise<{ wire: Wire; length: number }>
  close(): void
}

/** Moves of one key before its read is given up. */
const HOPS = 5
const REDIRECTION = /^-(MOVED|ASK) (\d+) (.*):(\d+)$/

/**
 * One connection for each server that is asked. A value that its server has handed over to another one is asked for there,
 * on a connection of its own: those of {@link Wires.ask} owe the answers to keys that were asked for ahead.
 */
function openWires({ settings, redis, signal }: Omit<ValueRequest, 'keys'>): Wires {
  const route = openRoute(settings, redis)
  const wires = { asked: new Map<string, Wire>(), redirected: new Map<string, Wire>() }
  const wireTo = (node: RedisNode, kind: keyof typeof wires): Wire => {
    const name = `${node.host}:${node.port}`
    const known = wires[kind].get(name)
    if (known) return known
    const opened = openWire(node, route, signal)
    wires[kind].set(name, opened)
    return opened
  }
  const waiting: { wire: Wire; node: RedisNode }[] = []
  return {
    ask(key) {
      const node = route.nodeOf(key)
      const wire = wireTo(node, 'asked')
      wire.send([['GET', key]])
      waiting.push({ wire, node })
    },
    async answer(key) {
      let { wire, node } = waiting.shift() as { wire: Wire; node: RedisNode }
      let line = await wire.header()
      for (let hops = 0; ; hops++) {
        const [, kind, slot, host, port] = REDIRECTION.exec(line) ?? []
        if (kind === undefined) return { wire, length: lengthOf(line) }
        if (hops === HOPS) throw new Error(`the value of ${key} moved ${HOPS} times: ${line}`)
        // A server that does not know its own name leaves it out.
        node = { host: host?.replace(/^\[(.*)\]$/, '$1') || node.host, port: Number(port) }
        if (kind === 'MOVED') route.moved(Number(slot), node)
        wire = wireTo(node, 'redirected')
        wire.send([...(kind === 'ASK' ? [['ASKING']] : []), ['GET', key]])
        if (kind === 'ASK') lengthOf(await wire.header())
        line = await wire.header()
      }
    },
    close() {
      for (const wire of [...wires.asked.values(), ...wires.redirected.values()]) wire.close()
    },
  }
}

interface Wire {
  send(commands: readonly string[][]): void
  /** At least one and at most `most` bytes. */
  take(most: number): Promise<Buffer>
  header(): Promise<string>
  close(): void
}

/** A value's length; -1 for one that is not there, 0 for a reply that is no value. */
function lengthOf(line: string): number {
  if (line.startsWith('$')) return Number(line.slice(1))
  if (line.startsWith('+')) return 0
  throw new Error(`Redis refused a read: ${line}`)
}

function openWire({ host, port }: RedisNode, { tls, greeting }: Route, signal: AbortSignal): Wire {
  const name = isIP(host) ? {} : { servername: host }
  const { socket, arrivals } = tls ? openTls({ host, port, ...name, ...tls }) : openPlain({ host, port })
  socket.setNoDelay(true)
  socket.on('timeout', () => socket.destroy(new Error(`Redis has not answered for ${ANSWER_LIMIT_MS} ms`)))
  socket.on('error', arrivals.fail)
  socket.on('close', () => arrivals.fail(new Error('Redis closed the connection')))
  const abort = (): void => void socket.destroy(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })

  let chunk: Buffer = Buffer.alloc(0)
  const fill = async (): Promise<void> => {
    if (chunk.length > 0) return
    socket.setTimeout(ANSWER_LIMIT_MS)
    chunk = await arrivals.next()
    socket.setTimeout(0)
  }
  const takeLine = async (): Promise<string> => {
    let line = ''
    for (;;) {
      await fill()
      const end = chunk.indexOf(LF)
      line += chunk.toString('latin1', 0, end < 0 ? chunk.length : end)
      chunk = end < 0 ? chunk.subarray(chunk.length) : chunk.subarray(end + 1)
      if (end >= 0) return line.trimEnd()
    }
  }
  const send = (commands: readonly string[][]): void => void socket.write(commands.map(encodeCommand).join(''))
  let greetings = greeting.length
  if (greetings > 0) send(greeting)
  return {
    send,
    async take(most) {
      await fill()
      const taken = chunk.subarray(0, most)
      chunk = chunk.subarray(taken.length)
      return taken
    },
    async header() {
      for (; greetings > 0; greetings--) lengthOf(await takeLine())
      return takeLine()
    },
    close() {
      signal.removeEventListener('abort', abort)
      socket.destroy()
    },
  }
}

interface Arrivals {
  /** The bytes that have arrived since; they may be overwritten from the next call on. */
  next(): Promise<Buffer>
  fail(error: Error): void
}

interface OpenedSocket {
  socket: Socket
  arrivals: Arrivals
}

/** One buffer's fill at a time; the socket stops reading in between. */
function openPlain(node: RedisNode): OpenedSocket {
  const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  let arrived: Buffer | undefined
  const onread = {
    buffer,
    callback(count: number) {
      const bytes = buffer.subarray(0, count)
      if (!waits.resolve(bytes)) arrived = bytes
      return false
    },
  }
  const socket = connectPlain({ ...node, onread })
  const take = (): Buffer | undefined => {
    const taken = arrived
    arrived = undefined
    return taken
  }
  const waits = openWaits(take, () => void socket.resume())
  return { socket, arrivals: waits }
}

/**
 * Reads the bytes that TLS has decrypted, as the socket's own queue has it: one read of the system may be several records, which all come at once,
 * asked for or not, and would overwrite each other in a buffer of ours.
 */
function openTls(options: ConnectionOptions): OpenedSocket {
  const socket = connectTls(options)
  const take = (): Buffer | undefined => socket.read() ?? undefined
  const waits = openWaits(take, () => undefined)
  socket.on('readable', () => {
    if (!waits.isWaiting()) return
    const bytes = take()
    if (bytes) waits.resolve(bytes)
  })
  return { socket, arrivals: waits }
}

interface Waits extends Arrivals {
  isWaiting(): boolean
  /** False when nobody waits. */
  resolve(bytes: Buffer): boolean
}

/** The one wait for what arrives: `take` returns what has arrived already, `ask` lets more come. */
function openWaits(take: () => Buffer | undefined, ask: () => void): Waits {
  let failure: Error | undefined
  let waiting: PromiseWithResolvers<Buffer> | undefined
  return {
    isWaiting: () => waiting !== undefined,
    resolve(bytes) {
      const at = waiting
      waiting = undefined
      at?.resolve(bytes)
      return at !== undefined
    },
    async next() {
      const bytes = take()
      if (bytes) return bytes
      if (failure) throw failure
      waiting = Promise.withResolvers<Buffer>()
      const { promise } = waiting
      ask()
      return promise
    },
    fail(error) {
      failure ??= error
      waiting?.reject(failure)
      waiting = undefined
    },
  }
}

interface Route {
  nodeOf(key: string): RedisNode
  /** Notes that a slot is elsewhere; the client's own connection learns it by itself. */
  moved(slot: number, node: RedisNode): void
  tls: ConnectionOptions | undefined
  /** Commands before the first read. */
  greeting: string[][]
}

function openRoute(settings: RedisSettings, redis: Redis): Route {
  const address = addressOf(settings)
  const { username, password } = accessOptions(settings, address)
  const greeting: string[][] = []
  if (password) greeting.push(username ? ['AUTH', username, password] : ['AUTH', password])
  if (address.database > 0) greeting.push(['SELECT', String(address.database)])
  const moved = new Map<number, RedisNode>()
  return {
    ...{ greeting, tls: tlsOf(settings, address) },
    nodeOf: key => (address.kind === 'single' ? (address.nodes[0] as RedisNode) : nodeOfKey(redis, key, moved)),
    moved: (slot, node) => void moved.set(slot, node),
  }
}

const encodeCommand = (words: readonly string[]): string =>
  `*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
