/**
 * Takes the one file of a form.
 *
 * Reads the request's body through busboy. Invariant: no more than the limits allow of a file, and of files, are in
 * memory at a time; a body of another type is a 415, a file that is too large a 413, a form without the file or with
 * anything else a 422, a form that is broken a 400. The rest of a body that is refused is not waited for.
 */
import busboy from 'busboy'
import type { Request, Response } from 'express'
import type { Violation } from '#schemas/api/error.ts'
import { HttpError } from './http-error.ts'

/** What a form may carry. */
interface FormFileLimits {
  /** Name of the field. */
  field: string
  maxBytes: number
  /** Files that are in memory at a time. */
  atOnce: number
}

/** Runs work on the file of a request's form. */
type WithFormFile = <T>(request: Request, response: Response, work: (file: Buffer) => Promise<T>) => Promise<T>

/** Opens the reader of the forms of a route. */
export function openFormFiles(limits: FormFileLimits): WithFormFile {
  let reading = 0
  return async (request, response, work) => {
    if (reading >= limits.atOnce) {
      throw new HttpError('SERVICE_UNAVAILABLE', 'Too many files are being read at the moment; try again soon.', {
        headers: ['Retry-After', '1'],
      })
    }
    reading += 1
    try {
      return await work(await readFile(request, limits))
    } catch (error) {
      if (!request.readableEnded) response.shouldKeepAlive = false
      throw error
    } finally {
      reading -= 1
    }
  }
}

async function readFile(request: Request, { field, maxBytes }: FormFileLimits): Promise<Buffer> {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*(;|$)/i.test(type)) {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', `Send the file as \`multipart/form-data\` in the field \`${field}\`.`)
  }
  let form: busboy.Busboy
  try {
    form = busboy({ headers: request.headers, limits: { fileSize: maxBytes + 1, files: 2, fields: 2, parts: 4 } })
  } catch (error) {
    throw new HttpError('BAD_REQUEST', 'The form names no boundary.', { cause: error })
  }
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const files: Buffer[][] = []
  const strange: string[] = []
  form.on('file', (name, stream) => {
    if (name !== field) strange.push(name)
    const chunks: Buffer[] = []
    files.push(chunks)
    stream.on('data', (chunk: Buffer) => {
      // A form of several files keeps the first alone.
      if (files.length === 1) chunks.push(chunk)
    })
    stream.on('limit', () => reject(tooLarge(maxBytes)))
    stream.on('error', error => reject(broken(error)))
  })
  form.on('field', name => strange.push(name))
  form.on('error', error => reject(broken(error)))
  form.on('close', () => {
    const [file] = files
    const faults = faultsOf(field, files.length, strange)
    if (faults.length > 0 || !file) reject(new HttpError('VALIDATION_ERROR', faults))
    else {
      const whole = Buffer.concat(file)
      if (whole.length > maxBytes) reject(tooLarge(maxBytes))
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
