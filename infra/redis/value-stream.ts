/**
 * Streams the bytes of large values as they arrive, on a connection of its own. Speaks as much of the protocol as that takes: AUTH,
 * SELECT, GET, and follows MOVED and ASK. Invariant: the socket's own buffer holds all that was read and not yet taken; while its
 * reader does not ask for more, a connection is not read from. A value that is not there, an error, a lost connection or a
 * silent server throws; nothing waits for ever. Ending the iteration or aborting closes the connections.
 */
import { addAbortListener } from 'node:events'
import { connect as connectPlain, isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { addressOf, type RedisAddress, type RedisNode, type RedisSettings } from '../runtime/redis-settings.ts'
import { accessOptions, tlsOf } from './access.ts'
import { nodeOfKey, type Redis } from './redis.ts'

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
        const bytes = await wire.read(left)
        left -= bytes.length
        yield { index, bytes }
      }
      // What ends a value may itself come in two pieces.
      for (let left = 2; left > 0; ) left -= (await wire.read(left)).length
    }
  } finally {
    wires.close()
  }
}

/** Moves of one key before its read is given up. */
const HOPS = 5
const REDIRECTION = /^-(MOVED|ASK) (\d+) (.*):(\d+)$/

/**
 * One connection for each server that is asked. A value that its server has handed over to another one is asked for there, on a
 * connection of its own: the others owe the answers to keys that were asked for ahead.
 */
function openWires({ settings, redis, signal }: Omit<ValueRequest, 'keys'>) {
  const address = addressOf(settings)
  const route = { tls: tlsOf(settings, address), greeting: greetingOf(settings, address), signal }
  /** Slots that are elsewhere; the client's own connection learns it by itself. */
  const moved = new Map<number, RedisNode>()
  const wires = { ahead: new Map<string, Wire>(), redirected: new Map<string, Wire>() }
  const wireTo = (node: RedisNode, kind: keyof typeof wires): Wire => {
    const name = `${node.host}:${node.port}`
    const wire = wires[kind].get(name) ?? openWire(node, route)
    wires[kind].set(name, wire)
    return wire
  }
  const waiting: { wire: Wire; node: RedisNode }[] = []
  return {
    ask(key: string): void {
      const node = address.kind === 'single' ? (address.nodes[0] as RedisNode) : nodeOfKey(redis, key, moved)
      const wire = wireTo(node, 'ahead')
      wire.send([['GET', key]])
      waiting.push({ wire, node })
    },
    /** The begin of the next answer, which is that for `key`. */
    async answer(key: string): Promise<{ wire: Wire; length: number }> {
      let { wire, node } = waiting.shift() as { wire: Wire; node: RedisNode }
      let line = await wire.header()
      for (let hops = 0; ; hops++) {
        const [, kind, slot, host, port] = REDIRECTION.exec(line) ?? []
        if (kind === undefined) return { wire, length: lengthOf(line) }
        if (hops === HOPS) throw new Error(`the value of ${key} moved ${HOPS} times: ${line}`)
        // A server that does not know its own name leaves it out.
        node = { host: host?.replace(/^\[(.*)\]$/, '$1') || node.host, port: Number(port) }
        if (kind === 'MOVED') moved.set(Number(slot), node)
        wire = wireTo(node, 'redirected')
        wire.send([...(kind === 'ASK' ? [['ASKING']] : []), ['GET', key]])
        if (kind === 'ASK') lengthOf(await wire.header())
        line = await wire.header()
      }
    },
    close(): void {
      for (const wire of [...wires.ahead.values(), ...wires.redirected.values()]) wire.close()
    },
  }
}

function greetingOf(settings: RedisSettings, address: RedisAddress): string[][] {
  const { username, password } = accessOptions(settings, address)
  const proof = password ? [['AUTH', ...(username ? [username] : []), password]] : []
  return address.database > 0 ? [...proof, ['SELECT', String(address.database)]] : proof
}

/** A value's length; -1 for one that is not there, 0 for a reply that is no value. */
function lengthOf(line: string): number {
  if (line.startsWith('$')) return Number(line.slice(1))
  if (line.startsWith('+')) return 0
  throw new Error(`Redis refused a read: ${line}`)
}

type Wire = ReturnType<typeof openWire>

function openWire(
  { host, port }: RedisNode,
  { tls, greeting, signal }: { tls: ConnectionOptions | undefined; greeting: string[][]; signal: AbortSignal },
) {
  const name = isIP(host) ? {} : { servername: host }
  const socket = tls ? connectTls({ host, port, ...name, ...tls }) : connectPlain({ host, port })
  socket.setNoDelay(true)
  socket.on('timeout', () => socket.destroy(new Error(`Redis has not answered for ${ANSWER_LIMIT_MS} ms`)))
  // Whoever reads meets it.
  socket.on('error', () => undefined)
  const listener = addAbortListener(signal, () => socket.destroy(signal.reason))
  const arrivals: AsyncIterator<Buffer> = socket[Symbol.asyncIterator]()
  let chunk: Buffer = Buffer.alloc(0)
  const fill = async (): Promise<void> => {
    if (chunk.length > 0) return
    socket.setTimeout(ANSWER_LIMIT_MS)
    const arrival = await arrivals.next()
    socket.setTimeout(0)
    if (arrival.done) throw new Error('Redis closed the connection')
    chunk = arrival.value
  }
  const readLine = async (): Promise<string> => {
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
    /** At least one and at most `most` bytes. */
    async read(most: number): Promise<Buffer> {
      await fill()
      const piece = chunk.subarray(0, most)
      chunk = chunk.subarray(piece.length)
      return piece
    },
    async header(): Promise<string> {
      for (; greetings > 0; greetings--) lengthOf(await readLine())
      return readLine()
    },
    close(): void {
      listener[Symbol.dispose]()
      socket.destroy()
    },
  }
}

const encodeCommand = (words: readonly string[]): string =>
  `*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
