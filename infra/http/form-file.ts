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
import type { Violation } from '#schemas/api/error.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { openSerialQueues } from '../runtime/async/serial-queues.ts'
import { HttpError } from './http-error.ts'

interface FormFileLimits {
  /** Name of the field. */
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

/** A request with a form, of which each account has one at a time. */
interface Upload {
  request: IncomingMessage
  response: ServerResponse
  accountId: string
}

/** Runs work on the file of a request's form. */
type WithFormFile = <T>(upload: Upload, work: (file: Buffer) => Promise<T>) => Promise<T>

/** Held by all uploads of a route together. */
interface Received {
  /** Without those of a large file. */
  bytes: number
  hasLarge: boolean
}

interface FileBytes {
  isLarge: boolean
  /** Throws the refusal of a file that may not be as large as it is. */
  add(chunk: Buffer): void
  whole(): Buffer
  close(): void
}

const busy = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Too many files are being read at the moment; try again soon.', {
    headers: ['Retry-After', '1'],
  })

export function openFormFiles(limits: FormFileLimits): WithFormFile {
  const ofAccounts = openSerialQueues(ACCOUNT_UPLOADS_MAX, () => {
    const detail = 'Other files of this account are being read; send one after the other.'
    return new HttpError('RATE_LIMIT_EXCEEDED', detail, { exceeded: exceededLimit('uploads', ACCOUNT_UPLOADS_MAX, 1) })
  })
  const received: Received = { bytes: 0, hasLarge: false }
  let working = 0
  const readAndWork = async <T>(request: IncomingMessage, work: (file: Buffer) => Promise<T>): Promise<T> => {
    const bytes = openFileBytes(limits, received)
    try {
      const file = await readFile(request, limits, { received, bytes })
      if (working >= limits.atOnce) throw busy()
      working += 1
      return await work(file).finally(() => {
        working -= 1
      })
    } finally {
      bytes.close()
    }
  }
  return async ({ request, response, accountId }, work) => {
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

function openFileBytes({ maxBytes, large }: FormFileLimits, received: Received): FileBytes {
  const chunks: Buffer[] = []
  let length = 0
  let room: Buffer | undefined
  const grow = (): Buffer => {
    const start = Buffer.concat(chunks)
    if (!large?.isAllowed(start)) throw tooLarge(maxBytes)
    if (received.hasLarge) throw busy()
    received.hasLarge = true
    file.isLarge = true
    // Its memory comes with its bytes; chunks that are joined at the end take twice as much, and 30 ms.
    const whole = Buffer.allocUnsafeSlow(large.maxBytes)
    start.copy(whole)
    return whole
  }
  const file: FileBytes = {
    isLarge: false,
    add(chunk) {
      const end = length + chunk.length
      if (end > maxBytes) {
        room ??= grow()
        if (end > room.length) throw tooLarge(room.length)
        chunk.copy(room, length)
      } else chunks.push(chunk)
      length = end
    },
    whole: () => room?.subarray(0, length) ?? Buffer.concat(chunks),
    close() {
      if (file.isLarge) received.hasLarge = false
    },
  }
  return file
}

async function readFile(
  request: IncomingMessage,
  limits: FormFileLimits,
  { received, bytes }: { received: Received; bytes: FileBytes },
): Promise<Buffer> {
  const { field } = limits
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*(;|$)/i.test(type)) {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', `Send the file as \`multipart/form-data\` in the field \`${field}\`.`)
  }
  let form: busboy.Busboy
  try {
    form = busboy({ headers: request.headers, limits: { files: 2, fields: 2, parts: 4 } })
  } catch (error) {
    throw new HttpError('BAD_REQUEST', 'The form names no boundary.', { cause: error })
  }
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  let files = 0
  const strange: string[] = []
  form.on('file', (name, stream) => {
    if (name !== field) strange.push(name)
    files += 1
    const keep = (chunk: Buffer): void => {
      // A form of several files keeps the first alone.
      if (files > 1) return
      try {
        bytes.add(chunk)
      } catch (error) {
        stream.off('data', keep)
        reject(error)
      }
    }
    stream.on('data', keep)
    stream.on('error', error => reject(broken(error)))
  })
  form.on('field', name => strange.push(name))
  form.on('error', error => reject(broken(error)))
  form.on('close', () => {
    const faults = faultsOf(field, files, strange)
    if (faults.length > 0) reject(new HttpError('VALIDATION_ERROR', faults))
    else resolve(bytes.whole())
  })
  request.on('error', error => reject(broken(error)))
  request.on('aborted', () => reject(broken(new Error('the client left'))))
  const stop = watchPace(request, limits, { received, bytes, refuse: reject })
  request.pipe(form)
  try {
    return await promise
  } finally {
    stop()
    request.unpipe(form)
    request.resume()
  }
}

/** Refuses a body that comes too slowly, or that comes while too much of others has come already. */
function watchPace(
  request: IncomingMessage,
  { leastBytes, paceMs, receivingBytes }: FormFileLimits,
  { received, bytes, refuse }: { received: Received; bytes: FileBytes; refuse: (error: HttpError) => void },
): () => void {
  let own = 0
  let counted = 0
  let before = 0
  const count = ({ length }: Buffer): void => {
    own += length
    if (bytes.isLarge) return
    counted += length
    received.bytes += length
    if (received.bytes > receivingBytes) refuse(busy())
  }
  const pace = setInterval(() => {
    if (own - before < leastBytes) refuse(new HttpError('REQUEST_TIMEOUT', 'The file comes too slowly; send it again.'))
    before = own
  }, paceMs)
  request.on('data', count)
  return () => {
    clearInterval(pace)
    request.off('data', count)
    received.bytes -= counted
  }
}

function faultsOf(field: string, files: number, strange: readonly string[]): Violation[] {
  const faults: Violation[] = strange.map(name => ({
    type: 'extra_forbidden',
    loc: ['body', name],
    msg: 'Extra inputs are not permitted',
    input: null,
    ctx: {},
  }))
  if (files === 0) faults.push({ type: 'missing', loc: ['body', field], msg: 'Field required', input: null, ctx: {} })
  if (files > 1 && strange.length === 0) {
    faults.push({ type: 'too_long', loc: ['body', field], msg: 'One file only', input: null, ctx: { max_length: 1 } })
  }
  return faults
}

const tooLarge = (maxBytes: number): HttpError =>
  new HttpError('PAYLOAD_TOO_LARGE', `The file may hold ${maxBytes} bytes at most.`)

const broken = (cause: unknown): HttpError => new HttpError('BAD_REQUEST', 'The form cannot be read.', { cause })
