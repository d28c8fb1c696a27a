/**
 * The documents of the API: GET /openapi.json, /asyncapi.json (feeds and topics), /llms.txt, and the page /docs that browses the first.
 *
 * Needs no key. Reads the page's script from services/api/assets (Scalar's stand-alone build, MIT, version in
 * SCRIPT): its package would install 270 others for that one file. Invariant: the page loads nothing from any
 * other host, which its policy enforces.
 */
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { apiReference } from '@scalar/express-api-reference'
import type { Request, Response } from 'express'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { openApiDocument } from '#infra/http/openapi.ts'
import { JSON_TYPE, lendPage, SENT, type Sent, sendDocument } from '#infra/http/reply.ts'
import { asyncApiDocument } from '#schemas/api/asyncapi.ts'
import { llmsText } from '#schemas/api/llms-text.ts'
import type { Operation } from '#schemas/api/operation.ts'

/** What the documents are made of. */
interface DocumentNeeds {
  operations: readonly Operation[]
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
}

const SCRIPT = { file: '../assets/scalar-api-reference.js.gz', path: '/docs/scalar-1.72.1.js' }
const NONCE_BYTES = 16

/** The pages. */
export function documentPages({ operations, baseUrl }: DocumentNeeds): Endpoint[] {
  // As bytes: encoding the description for each request of the hostile clients was a tenth of all that the process did.
  const [description, feeds, prose] = [
    JSON.stringify(openApiDocument(operations, { baseUrl })),
    JSON.stringify(asyncApiDocument({ baseUrl })),
    llmsText(operations, baseUrl),
  ].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]
  const packed = readFileSync(new URL(SCRIPT.file, import.meta.url))
  let unpacked: Promise<Buffer> | undefined
  return [
    definePage('get', '/openapi.json', 'documents', ({ response }) => sendDocument(response, JSON_TYPE, description)),
    definePage('get', '/asyncapi.json', 'documents', ({ response }) => sendDocument(response, JSON_TYPE, feeds)),
    definePage('get', '/llms.txt', 'documents', ({ response }) =>
      sendDocument(response, 'text/plain; charset=utf-8', prose),
    ),
    definePage('get', '/docs', 'documents', ({ request, response }) => sendReference(request, response)),
    definePage('get', SCRIPT.path, 'documents', async ({ request, response }) => {
      const type = 'text/javascript; charset=utf-8'
      const vary = ['Vary', 'Accept-Encoding']
      if (/\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))) {
        return sendDocument(response, type, packed, { headers: [...vary, 'Content-Encoding', 'gzip'] })
      }
      unpacked ??= promisify(gunzip)(packed)
      return sendDocument(response, type, await unpacked, { headers: vary })
    }),
  ]
}

function sendReference(request: Request, response: Response): Sent {
  const nonce = Buffer.from(crypto.getRandomValues(new Uint8Array(NONCE_BYTES))).toString('base64url')
  lendPage(response, policyOf(nonce))
  // The root of the request: a proxy may pass only one of both roots.
  const root = request.originalUrl.startsWith('/v1/') ? '/v1' : ''
  const page = apiReference({
    url: `${root}/openapi.json`,
    cdn: `${root}${SCRIPT.path}`,
    pageTitle: 'marketlog API',
    nonce,
    withDefaultFonts: false,
    telemetry: false,
  })
  page(request as Parameters<typeof page>[0], response, () => undefined)
  return SENT
}

/** Own script and style alone; requests may go to this host alone. */
function policyOf(nonce: string): string {
  const rules = ["default-src 'none'", "connect-src 'self'", "font-src 'self' data:", "img-src 'self' data:"]
  const scripts = `script-src 'self' 'nonce-${nonce}'`
  return [...rules, scripts, "style-src 'self' 'unsafe-inline'", "base-uri 'none'", "frame-ancestors 'none'"].join('; ')
}
