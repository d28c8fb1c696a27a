/**
 * Sends an answer whose body is made while it is sent.
 *
 * Writes to the socket. Invariant: the first part is made before the head is sent, so a failure until then is still an error
 * answer; no more than one part waits for a slow reader; no part is made after the reader has left.
 */
import type { Response } from 'express'
import { beginAnswer, localsOf } from './reply.ts'

/** Sends the parts as one body of a type; `headers` are names and values alternating. */
export async function sendParts(
  response: Response,
  type: string,
  parts: AsyncIterable<string>,
  headers: readonly string[] = [],
): Promise<void> {
  let bytes = 0
  let isBegun = false
  for await (const part of parts) {
    if (!isBegun) beginAnswer(response, 200, ['Content-Type', type, 'Cache-Control', 'private, no-store', ...headers])
    isBegun = true
    if (response.destroyed) break
    bytes += Buffer.byteLength(part)
    if (!response.write(part)) await drained(response)
  }
  if (!isBegun) beginAnswer(response, 200, ['Content-Type', type, 'Cache-Control', 'private, no-store', ...headers])
  response.end()
  localsOf(response).observe(response, { status: 200, bytes })
}

/** Resolves when a slow reader has caught up, or is gone. */
function drained(response: Response): Promise<void> {
  return new Promise(resolve => {
    const goOn = () => {
      response.off('drain', goOn).off('close', goOn)
      resolve()
    }
    response.on('drain', goOn).on('close', goOn)
  })
}
