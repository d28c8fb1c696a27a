/**
 * One question and one answer to a starting server, over TCP or HTTP.
 *
 * Reads and writes sockets only. Invariant: every question ends within its limit, and a refused or cut connection
 * counts as "not yet". The client libraries stay in their own rooms; a server's first byte needs none of them.
 */
import { connect } from 'node:net'

const QUESTION_LIMIT_MS = 2_000

/** Sends bytes to a loopback port and returns the first bytes that come back; undefined when none come. */
export function askTcp(port: number, question: Buffer, host = '127.0.0.1'): Promise<Buffer | undefined> {
  return new Promise(resolve => {
    const socket = connect({ port, host })
    const finish = (answer?: Buffer) => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(QUESTION_LIMIT_MS, () => finish())
    socket.once('connect', () => socket.write(question))
    socket.once('data', finish)
    socket.once('error', () => finish())
    socket.once('close', () => finish())
  })
}

/** Body of a successful HTTP answer; undefined when the server does not answer, or not with success. */
export async function askHttp(url: string, init: RequestInit = {}): Promise<string | undefined> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(QUESTION_LIMIT_MS) })
    const body = await response.text()
    return response.ok ? body : undefined
  } catch {
    return undefined
  }
}
