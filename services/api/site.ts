/**
 * The pages for people: the files that they load, and the frame around each.
 *
 * The name of a file carries a hash of its content, so that it may be kept for a year. Links are relative, since a proxy may pass only one
 * of both roots. Invariant: a page loads nothing from any other host and runs no script but files of this one, which its policy enforces.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { gunzipSync, gzip } from 'node:zlib'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { VERSION } from '#infra/http/openapi.ts'
import { bytes } from '#infra/http/reply.ts'

export const HTML_TYPE = 'text/html; charset=utf-8'
/** How long a page or description may be kept. */
export const DOCUMENT = 'max-age=300'
const HASH_DIGITS = 16
const FILE_TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}
const FILES = [
  'frame.css',
  'site.css',
  'guide.css',
  'reference.css',
  'landing.js',
  'guide.js',
  'reference.js',
  'icon.svg',
]
/** Left there by services/console/build; nothing in a checkout that was not built. */
const BUILT = new URL('../console/dist/', import.meta.url)
const INDEX = new URL('index.html', BUILT)
export const isConsoleBuilt = (): boolean => existsSync(INDEX)

const NAVIGATION: readonly (readonly [string, string])[] = [
  ...(isConsoleBuilt() ? [['console', 'Console'] as const] : []),
  ['docs', 'Guides'],
  ['docs/reference', 'Reference'],
  ['openapi.json', 'OpenAPI'],
  ['asyncapi.json', 'AsyncAPI'],
  ['llms.txt', 'llms.txt'],
]

interface PageValues {
  /** Where the page is, below the root. */
  path: string
  /** Texts, by the name between two braces. */
  texts: Readonly<Record<string, string>>
  /** HTML, by the name between three. */
  html?: Readonly<Record<string, string>>
}

export type Site = ReturnType<typeof openSite>

export function openSite() {
  const scalar = readAsset('scalar-api-reference.js.gz')
  const bodies = [...FILES.map(file => [file, readAsset(file)] as const), ['scalar.js', gunzipSync(scalar)] as const]
  const names = Object.fromEntries(bodies.map(([file, body]) => [file, hashedName(file, body)]))
  const files = new Map(bodies.map(([file, body]) => [names[file] as string, body]))
  return {
    page(template: string, { path, texts, html = {} }: PageValues): string {
      const root = rootFrom(path)
      const values: Record<string, string> = { ...names, root, version: VERSION, ...texts }
      const parts: Record<string, string> = { header: headerOf(path, names['icon.svg'] ?? ''), ...html }
      return readAsset(template)
        .toString()
        .replaceAll(/\{\{\{(\w+)\}\}\}/g, (_, name) => parts[name] ?? '')
        .replaceAll(/\{\{([\w.]+)\}\}/g, (_, name) => escaped(values[name] ?? ''))
    },
    files: filesAt('/assets', files, new Map([[names['scalar.js'] as string, Promise.resolve(scalar)]])),
  }
}

/** Serves files whose names change with their content, so that they may be kept for a year; each is packed once for all clients. */
export function filesAt(
  folder: string,
  files: ReadonlyMap<string, Buffer>,
  packed = new Map<string, Promise<Buffer>>(),
): Endpoint {
  return definePage('get', `${folder}/:name`, 'documents', async ({ request, response }) => {
    const name = String(request.params.name)
    const file = files.get(name)
    if (!file) throw new HttpError('NOT_FOUND', 'There is no such file.')
    const isPacked = request.acceptsEncodings('gzip', 'identity') === 'gzip'
    if (isPacked && !packed.has(name)) packed.set(name, promisify(gzip)(file, { level: 9 }))
    return bytes(response, (isPacked && (await packed.get(name))) || file, {
      type: FILE_TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
      cache: 'max-age=31536000, immutable',
      headers: ['Vary', 'Accept-Encoding', ...(isPacked ? ['Content-Encoding', 'gzip'] : [])],
      // A worker has the policy of its own file.
      policy: policyOf(),
    })
  })
}

/** A page may load from this host, and no script or style of its own text; `more` are further rules. */
export const policyOf = (...more: string[]): string =>
  [
    ...["default-src 'none'", "connect-src 'self'", "script-src 'self'", "form-action 'none'", "base-uri 'none'"],
    ...["frame-ancestors 'none'", ...(more.length > 0 ? more : ["img-src 'self'", "style-src 'self'"])],
  ].join('; ')

/** The way from a page to the root. */
export const rootFrom = (path: string): string => '../'.repeat(path.split('/').length - 1)

export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

function headerOf(path: string, icon: string): string {
  const root = rootFrom(path)
  const section = path.startsWith('docs/') && path !== 'docs/reference' ? 'docs' : path
  const links = NAVIGATION.map(
    ([to, text]) => `<a href="${root}${to}"${to === section ? ' aria-current="page"' : ''}>${text}</a>`,
  )
  return `<header class="band">
    <a class="brand" href="${root || './'}"><img src="${root}assets/${icon}" alt="" width="24" height="24"> marketlog</a>
    <nav aria-label="Documents">${links.join(' ')}</nav>
  </header>`
}

const readAsset = (file: string): Buffer => readFileSync(new URL(`./assets/${file}`, import.meta.url))

function hashedName(file: string, body: Buffer): string {
  const hash = createHash('sha256').update(body).digest('hex').slice(0, HASH_DIGITS)
  return file.replace('.', `-${hash}.`)
}

/**
 * The page, whose links begin with `./`, and by name the files that it loads, whose names have hashes of their content. Undefined where
 * nothing is built.
 */
export function readConsole(): { page: string; files: ReadonlyMap<string, Buffer> } | undefined {
  if (!isConsoleBuilt()) return undefined
  const folder = new URL('assets/', BUILT)
  const files = readdirSync(folder).map(name => [name, readFileSync(new URL(name, folder))] as const)
  return { page: readFileSync(INDEX, 'utf8'), files: new Map(files) }
}
