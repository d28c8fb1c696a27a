/**
 * Takes the one file of a form.
 *
 * Reads the request's body through busboy. States of an upload: waiting, unread, for the one of its account before it -> receiving
 * (it holds the bytes that have come) -> worked on (it holds one of `atOnce` places) -> over. One that is larger than most, and may
 * be, holds the only place of such ones from then to its end. Invariant: no account waits for another one's network, and no more
 * than the limits allow is in memory; a body of another type is a 415, a file that is too large a 413, a form without the file or
 * with anything else a 422, a broken one a 400, one that comes too slowly a 408. The rest of a refused body is not waited for.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import busboy from 'busboy'
import type { ViolationType } from '#schemas/api/error.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { openSerialQueues } from '../runtime/async/serial-queues.ts'
import { HttpError } from './http-error.ts'

interface FormFileLimits {
  field: string
  maxBytes: number
  /** Which files may be larger, by their first bytes, and how large; one of them at a time. */
  large?: { maxBytes: number; isAllowed(start: Buffer): boolean }
  /** Files that are worked on at a time, when they have come whole. */
  atOnce: number
  /** Bytes of all files together that have come while their rest has not. */
  receivingBytes: number
  /** Bytes of a file that must come within each `paceMs`. */
  leastBytes: number
  paceMs: number
}

const busy = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Too many files are being read at the moment; try again soon.', {
    headers: ['Retry-After', '1'],
  })

/** Returns a function that runs work on the file of a request's form. */
export function openFormFiles(limits: FormFileLimits) {
  const ofAccounts = openSerialQueues(ACCOUNT_UPLOADS_MAX, () => {
    const detail = 'Other files of this account are being read; send one after the other.'
    return new HttpError('RATE_LIMIT_EXCEEDED', detail, { exceeded: exceededLimit('uploads', ACCOUNT_UPLOADS_MAX, 1) })
  })
  const received: Received = { bytes: 0, hasLarge: false }
  let working = 0
  const readAndWork = async <T>(request: IncomingMessage, work: (file: Buffer) => Promise<T>): Promise<T> => {
    const bytes = openFileBytes(limits, received)
    try {
      const file = await readFile(request, limits, bytes).finally(bytes.endReceiving)
      if (working >= limits.atOnce) throw busy()
      working += 1
      return await work(file).finally(() => {
        working -= 1
      })
    } finally {
      bytes.endWork()
    }
  }
  /** Of each account one is read at a time. */
  return async <T>(
    { request, response, accountId }: { request: IncomingMessage; response: ServerResponse; accountId: string },
    work: (file: Buffer) => Promise<T>,
  ): Promise<T> => {
    try {
      return await ofAccounts.add(accountId, () => readAndWork(request, work))
    } catch (error) {
      if (!request.readableEnded) response.shouldKeepAlive = false
      throw error
    }
  }
}

/** One is read, the others wait unread; a client that repeats a request may have some. */
const ACCOUNT_UPLOADS_MAX = 8

/** Of all uploads of a route together. */
interface Received {
  /** Without those of a large file from where it is larger than others. */
  bytes: number
  hasLarge: boolean
}

function openFileBytes({ maxBytes, large, receivingBytes }: FormFileLimits, received: Received) {
  const chunks: Buffer[] = []
  let length = 0
  let isReceiving = true
  let room: Buffer | undefined
  const grow = (): Buffer => {
    const start = Buffer.concat(chunks)
    if (!large?.isAllowed(start)) throw tooLarge(maxBytes)
    if (received.hasLarge) throw busy()
    received.hasLarge = true
    // Its memory comes with its bytes; chunks that are joined at the end take twice as much, and 30 ms.
    const whole = Buffer.allocUnsafeSlow(large.maxBytes)
    start.copy(whole)
    return whole
  }
  return {
    length: () => length,
    /** Throws the refusal of a file that is larger than it may be, or that comes while too much of others has come already. */
    add(chunk: Buffer): void {
      // A form that was refused may still hold some.
      if (!isReceiving) return
      const end = length + chunk.length
      if (end > maxBytes) {
        room ??= grow()
        if (end > room.length) throw tooLarge(room.length)
        chunk.copy(room, length)
      } else {
        chunks.push(chunk)
        received.bytes += chunk.length
        if (received.bytes > receivingBytes) throw busy()
      }
      length = end
    },
    whole: () => room?.subarray(0, length) ?? Buffer.concat(chunks),
    endReceiving(): void {
      isReceiving = false
      for (const { length } of chunks) received.bytes -= length
    },
    endWork(): void {
      if (room) received.hasLarge = false
    },
  }
}

async function readFile(
  request: IncomingMessage,
  { field, leastBytes, paceMs }: FormFileLimits,
  bytes: ReturnType<typeof openFileBytes>,
): Promise<Buffer> {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*(;|$)/i.test(type)) {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', `Send the file as \`multipart/form-data\` in the field \`${field}\`.`)
  }
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const breakOff = (cause: unknown): void => reject(new HttpError('BAD_REQUEST', 'The form cannot be read.', { cause }))
  const refuse = (type: ViolationType, name: string, msg: string, ctx = {}): void =>
    reject(new HttpError('VALIDATION_ERROR', [{ type, loc: ['body', name], msg, input: null, ctx }]))
  const refuseExtra = (name: string): void => refuse('extra_forbidden', name, 'Extra inputs are not permitted')
  const form = openForm(request)
  let hasFile = false
  form.on('file', (name, stream) => {
    if (name !== field) return refuseExtra(name)
    if (hasFile) return refuse('too_long', field, 'One file only', { max_length: 1 })
    hasFile = true
    stream.on('error', breakOff).on('data', (chunk: Buffer) => {
      try {
        bytes.add(chunk)
      } catch (error) {
        reject(error)
      }
    })
  })
  form.on('field', refuseExtra)
  form.on('error', breakOff)
  form.on('close', () => (hasFile ? resolve(bytes.whole()) : refuse('missing', field, 'Field required')))
  request.on('error', breakOff).on('aborted', () => breakOff(new Error('the client left')))
  let before = 0
  const pace = setInterval(() => {
    const length = bytes.length()
    if (length - before < leastBytes)
      reject(new HttpError('REQUEST_TIMEOUT', 'The file comes too slowly; send it again.'))
    before = length
  }, paceMs)
  request.pipe(form)
  try {
    return await promise
  } finally {
    clearInterval(pace)
    request.unpipe(form)
    request.resume()
  }
}

function openForm({ headers }: IncomingMessage): busboy.Busboy {
  try {
    return busboy({ headers, limits: { files: 2, fields: 1, fieldSize: 1, parts: 4 } })
  } catch (error) {
    throw new HttpError('BAD_REQUEST', 'The form names no boundary.', { cause: error })
  }
}

const tooLarge = (maxBytes: number): HttpError =>
  new HttpError('PAYLOAD_TOO_LARGE', `The file may hold ${maxBytes} bytes at most.`)
