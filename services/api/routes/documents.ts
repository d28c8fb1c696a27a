/**
 * The documents of the API: GET /openapi.json, /asyncapi.json (feeds and topics), /llms.txt, and the page /docs/reference that browses
 * the first.
 *
 * Needs no key. The page's script is Scalar's stand-alone build (MIT, version in SCRIPT): its package would install 270 others for that one
 * file. It writes styles into the page, so the policy of this page alone permits them.
 */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { openApiDocument } from '#infra/http/openapi.ts'
import { bytes } from '#infra/http/reply.ts'
import { asyncApiDocument } from '#schemas/api/asyncapi.ts'
import { llmsText } from '#schemas/api/llms-text.ts'
import type { Operation } from '#schemas/api/operation.ts'
import type { Guide } from '../guide-text.ts'
import { DOCUMENT, HTML_TYPE, KEPT_FILE, policyOf, readAsset, type Site } from '../site.ts'

/** What the documents are made of. */
interface DocumentNeeds {
  operations: readonly Operation[]
  guides: readonly Guide[]
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
}

const SCRIPT = { file: 'scalar-api-reference.js.gz', path: 'docs/scalar-1.72.1.js' }
const REFERENCE_POLICY = policyOf("font-src 'self' data:", "img-src 'self' data:", "style-src 'self' 'unsafe-inline'")

/** The documents. */
export function documentPages({ operations, guides, baseUrl }: DocumentNeeds, site: Site): Endpoint[] {
  // As bytes: encoding the description for each request of the hostile clients was a tenth of all that the process did.
  const [description, feeds, prose] = [
    JSON.stringify(openApiDocument(operations, { baseUrl })),
    JSON.stringify(asyncApiDocument({ baseUrl })),
    llmsText(operations, guides, baseUrl),
  ].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]
  const reference = site.page('reference.html', { path: 'docs/reference', texts: { script: SCRIPT.path } })
  const packed = readAsset(SCRIPT.file)
  let unpacked: Promise<Buffer> | undefined
  return [
    definePage('get', '/openapi.json', 'documents', ({ response }) =>
      bytes(response, description, { cache: DOCUMENT }),
    ),
    definePage('get', '/asyncapi.json', 'documents', ({ response }) => bytes(response, feeds, { cache: DOCUMENT })),
    definePage('get', '/llms.txt', 'documents', ({ response }) =>
      bytes(response, prose, { type: 'text/plain; charset=utf-8', cache: DOCUMENT }),
    ),
    definePage('get', '/docs/reference', 'documents', ({ response }) =>
      bytes(response, reference, { type: HTML_TYPE, cache: DOCUMENT, policy: REFERENCE_POLICY }),
    ),
    definePage('get', `/${SCRIPT.path}`, 'documents', async ({ request, response }) => {
      const file = { type: 'text/javascript; charset=utf-8', cache: KEPT_FILE }
      const vary = ['Vary', 'Accept-Encoding']
      if (request.acceptsEncodings('gzip', 'identity') === 'gzip') {
        return bytes(response, packed, { ...file, headers: [...vary, 'Content-Encoding', 'gzip'] })
      }
      unpacked ??= promisify(gunzip)(packed)
      return bytes(response, await unpacked, { ...file, headers: vary })
    }),
  ]
}
