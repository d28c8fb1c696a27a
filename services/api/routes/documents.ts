/**
 * The documents of the API: GET /openapi.json, /asyncapi.json (feeds and topics), /llms.txt, and the page /docs that browses the first.
 *
 * Needs no key. Reads the page's script from services/api/assets (Scalar's stand-alone build, MIT, version in
 * SCRIPT): its package would install 270 others for that one file. Invariant: the page loads nothing from any
 * other host, which its policy enforces.
 */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { apiReference } from '@scalar/express-api-reference'
import type { RequestHandler, Router } from 'express'
import { childKeyScope } from '#schemas/api/account-keys.ts'
import { asyncApiDocument } from '#schemas/api/asyncapi.ts'
import { llmsText } from '#schemas/api/llms-text.ts'
import { openApiDocument } from '#schemas/api/openapi.ts'
import { operationsOf } from '#schemas/api/operations.ts'
import type { ApiParts } from '../parts.ts'
import { lendPage, sendDocument } from '../reply.ts'

const SCRIPT = { file: '../assets/scalar-api-reference.js.gz', path: '/docs/scalar-1.72.1.js' }
const NONCE_BYTES = 16

/** Adds the routes. */
export function addDocumentRoutes(router: Router, withoutKey: RequestHandler, parts: ApiParts): void {
  const { registry, tiers, baseUrl } = parts
  const operations = operationsOf({ ...registry, childKeys: childKeyScope(tiers.quant) })
  const description = JSON.stringify(openApiDocument(operations, { baseUrl }))
  const prose = llmsText(operations, baseUrl)
  const packed = readFileSync(new URL(SCRIPT.file, import.meta.url))
  let unpacked: Buffer | undefined

  router.get('/openapi.json', withoutKey, (_request, response) => {
    sendDocument(response, 'application/json; charset=utf-8', description, [])
  })

  const feeds = JSON.stringify(asyncApiDocument({ baseUrl }))
  router.get('/asyncapi.json', withoutKey, (_request, response) => {
    sendDocument(response, 'application/json; charset=utf-8', feeds, [])
  })

  router.get('/llms.txt', withoutKey, (_request, response) => {
    sendDocument(response, 'text/plain; charset=utf-8', prose, [])
  })

  router.get('/docs', withoutKey, (request, response, next) => {
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
    page(request as Parameters<typeof page>[0], response, next)
  })

  router.get(SCRIPT.path, withoutKey, (request, response) => {
    const isPacked = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
    const headers = ['Vary', 'Accept-Encoding', ...(isPacked ? ['Content-Encoding', 'gzip'] : [])]
    if (!isPacked) unpacked ??= gunzipSync(packed)
    sendDocument(response, 'text/javascript; charset=utf-8', isPacked ? packed : (unpacked ?? packed), headers)
  })
}

/** Own script and style alone; requests may go to this host alone. */
function policyOf(nonce: string): string {
  const rules = ["default-src 'none'", "connect-src 'self'", "font-src 'self' data:", "img-src 'self' data:"]
  const scripts = `script-src 'self' 'nonce-${nonce}'`
  return [...rules, scripts, "style-src 'self' 'unsafe-inline'", "base-uri 'none'", "frame-ancestors 'none'"].join('; ')
}
