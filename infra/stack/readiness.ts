/**
 * Asks starting servers whether they answer yet, over TCP or HTTP.
 *
 * A refused or cut connection counts as "not yet". No client library is needed for a server's first byte.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

const QUESTION_LIMIT_MS = 2_000
const POLL_MS = 50

/** ApiVersions v0, the one request that any broker answers as soon as it serves clients. */
const API_VERSIONS_REQUEST = Buffer.from([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])

/** Waits until the server answers; throws when it does not in time, or `hopeless` says why it never will. */
export async function waitUntilReady(wait: {
  isReady: () => Promise<boolean>
  limitMs: number
  signal: AbortSignal
  hopeless?: () => string | undefined
}): Promise<void> {
  const startedAt = performance.now()
  while (!(await wait.isReady())) {
    const waited = performance.now() - startedAt
    const reason = wait.hopeless?.()
    if (reason !== undefined) throw new Error(reason)
    if (waited > wait.limitMs) throw new Error(`it did not answer within ${wait.limitMs / 1000} s`)
    await pause(POLL_MS, undefined, { signal: wait.signal })
  }
}

export async function kafkaAnswers(port: number): Promise<boolean> {
  return (await askTcp(port, API_VERSIONS_REQUEST)) !== undefined
}

export async function schemaRegistryAnswers(base: string): Promise<boolean> {
  return (await askHttp(`${base}/subjects`)) !== undefined
}

/** Whether Redis on this loopback port has loaded its data, or asks for a password before it says so. */
export async function redisAnswers(port: number): Promise<boolean> {
  return /^(\+PONG|-NOAUTH)/.test((await askTcp(port, Buffer.from('PING\r\n')))?.toString() ?? '')
}

/** Whether Postgres on this loopback port accepts sessions: it then answers a start-up with an authentication request. */
export async function postgresAnswers(port: number, user: string, database: string): Promise<boolean> {
  const body = Buffer.from(`\0\x03\0\0user\0${user}\0database\0${database}\0\0`, 'latin1')
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return (await askTcp(port, Buffer.concat([length, body])))?.toString('latin1', 0, 1) === 'R'
}

/** Answer of ClickHouse to one statement; undefined when it does not answer, or not with success. */
export function askClickhouse(
  port: number,
  user: string,
  password: string,
  statement: string,
): Promise<string | undefined> {
  return askHttp(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password, connection: 'close' },
    body: statement,
  })
}

async function askTcp(port: number, question: Buffer): Promise<Buffer | undefined> {
  const socket = connect({ port, host: '127.0.0.1' })
  try {
    socket.write(question)
    const [answer] = (await once(socket, 'data', { signal: AbortSignal.timeout(QUESTION_LIMIT_MS) })) as [Buffer]
    return answer
  } catch {
    return undefined
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}

async function askHttp(url: string, init: RequestInit = {}): Promise<string | undefined> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(QUESTION_LIMIT_MS) })
    const body = await response.text()
    return response.ok ? body : undefined
  } catch {
    return undefined
  }
}
