/**
 * Takes the one file of a form.
 *
 * Reads the request's body through busboy. Invariant: no more than CSV_MAX_BYTES of a file, and UPLOADS_MAX files, are in
 * memory at a time; a body of another type is a 415, a file that is too large a 413, a form without the file or with
 * anything else a 422, a form that is broken a 400. The rest of a body that is refused is not waited for.
 */
import busboy from 'busboy'
import type { Request, Response } from 'express'
import type { Violation } from '#schemas/api/error.ts'
import { ApiError } from './errors.ts'

/** Bytes of a file. */
export const CSV_MAX_BYTES = 5 * 1024 * 1024
const FIELD = 'file'
const UPLOADS_MAX = 8

let uploads = 0

/** Runs work on the file of a request's form. */
export async function withUpload<T>(
  request: Request,
  response: Response,
  work: (file: Buffer) => Promise<T>,
): Promise<T> {
  if (uploads >= UPLOADS_MAX) {
    throw new ApiError('SERVICE_UNAVAILABLE', 'Too many files are being read at the moment; try again soon.', {
      headers: ['Retry-After', '1'],
    })
  }
  uploads += 1
  try {
    return await work(await readUpload(request))
  } catch (error) {
    if (!request.readableEnded) response.shouldKeepAlive = false
    throw error
  } finally {
    uploads -= 1
  }
}

async function readUpload(request: Request): Promise<Buffer> {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*(;|$)/i.test(type)) {
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', `Send the file as \`multipart/form-data\` in the field \`${FIELD}\`.`)
  }
  let form: busboy.Busboy
  try {
    form = busboy({ headers: request.headers, limits: { fileSize: CSV_MAX_BYTES + 1, files: 2, fields: 2, parts: 4 } })
  } catch (error) {
    throw new ApiError('BAD_REQUEST', 'The form names no boundary.', { cause: error })
  }
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const files: Buffer[][] = []
  const strange: string[] = []
  form.on('file', (name, stream) => {
    if (name !== FIELD) strange.push(name)
    const chunks: Buffer[] = []
    files.push(chunks)
    stream.on('data', (chunk: Buffer) => {
      // A form of several files keeps the first alone.
      if (files.length === 1) chunks.push(chunk)
    })
    stream.on('limit', () => reject(tooLarge()))
    stream.on('error', error => reject(broken(error)))
  })
  form.on('field', name => strange.push(name))
  form.on('error', error => reject(broken(error)))
  form.on('close', () => {
    const [file] = files
    const faults = faultsOf(files.length, strange)
    if (faults.length > 0 || !file) reject(new ApiError('VALIDATION_ERROR', faults))
    else {
      const whole = Buffer.concat(file)
      if (whole.length > CSV_MAX_BYTES) reject(tooLarge())
      else resolve(whole)
    }
  })
  request.on('error', error => reject(broken(error)))
  request.on('aborted', () => reject(broken(new Error('the client left'))))
  request.pipe(form)
  try {
    return await promise
  } finally {
    request.unpipe(form)
    request.resume()
  }
}

function faultsOf(files: number, strange: readonly string[]): Violation[] {
  const faults: Violation[] = strange.map(name => ({
    ...{ type: 'extra_forbidden', loc: ['body', name], msg: 'Extra inputs are not permitted', input: null, ctx: {} },
  }))
  if (files === 0) faults.push({ type: 'missing', loc: ['body', FIELD], msg: 'Field required', input: null, ctx: {} })
  if (files > 1 && strange.length === 0) {
    faults.push({ type: 'too_long', loc: ['body', FIELD], msg: 'One file only', input: null, ctx: { max_length: 1 } })
  }
  return faults
}

const tooLarge = (): ApiError => new ApiError('PAYLOAD_TOO_LARGE', `The file may hold ${CSV_MAX_BYTES} bytes at most.`)

const broken = (cause: unknown): ApiError => new ApiError('BAD_REQUEST', 'The form cannot be read.', { cause })
