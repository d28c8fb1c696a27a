/**
 * GET /console and what is below it: the console, one page for all addresses and the files that it loads.
 *
 * Needs no key. The files may be kept for a year; the page is asked for each time, by its entity tag.
 */
import { createHash } from 'node:crypto'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes, isNamed } from '#infra/http/reply.ts'
import { readConsole } from '../console-files.ts'
import { FILE_TYPES, HTML_TYPE, KEPT_FILE, policyOf, rootFrom } from '../site.ts'

/** The console. */
export function consolePages(): Endpoint[] {
  const built = readConsole()
  const etag = `"${createHash('sha256')
    .update(built?.page ?? '')
    .digest('hex')
    .slice(0, 32)}"`
  return [
    definePage('get', '/console/assets/:name', 'documents', async ({ request, response }) => {
      const name = String(request.params.name)
      const file = built?.files.get(name)
      if (!file) throw new HttpError('NOT_FOUND', 'There is no such file.')
      const type = FILE_TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream'
      const isPacked = request.acceptsEncodings('gzip', 'identity') === 'gzip'
      const headers = ['Vary', 'Accept-Encoding', ...(isPacked ? ['Content-Encoding', 'gzip'] : [])]
      // A worker has the policy of its own file.
      const options = { type, cache: KEPT_FILE, headers, policy: policyOf() }
      return bytes(response, isPacked ? await file.packed() : file.body, options)
    }),
    definePage('get', '/console{/*path}', 'documents', ({ request, response }) => {
      if (!built) throw new HttpError('NOT_FOUND', 'The console is not built here; npm run console:build does it.')
      const path = request.path.slice(1)
      // From `console` itself the way leads down, from all below it up.
      const root = path === 'console' ? 'console/' : rootFrom(path).slice('../'.length)
      const body = built.page.replaceAll(/(src|href)="\.\//g, `$1="${root}`)
      const isUnchanged = isNamed(etag, request.headers['if-none-match'])
      const options = { type: HTML_TYPE, cache: 'no-cache', headers: ['ETag', etag], policy: policyOf() }
      // Its policy too: a browser puts the headers of a 304 in the place of those that it has kept.
      return isUnchanged ? bytes(response, undefined, { ...options, status: 304 }) : bytes(response, body, options)
    }),
  ]
}
