/**
 * A link into the reference leads to an operation of the pinned description; that its page has the place is for test/e2e/guides-in-browser.test.ts.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import { ERROR_STATUS } from '#schemas/api/error.ts'
import { guideNames } from '#test/fixtures/guide-snippets.ts'
import { PINNED } from '#test/fixtures/pinned-operations.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { type Answer, openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const BROWSER = 'text/html,application/xhtml+xml,*/*;q=0.8'
const GUIDES = guideNames()
  .filter(name => name !== 'overview')
  .map(name => `docs/${name}`)
const PAGES = ['', 'docs', 'docs/reference', 'llms.txt', ...GUIDES]

/** Of every operation in the pinned description. */
const ANCHORS = Object.entries(PINNED.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const [tag = ''] = (operation as unknown as { tags: string[] }).tags
    return `tag/${tag.toLowerCase().replaceAll(' ', '-')}/${method.toUpperCase()}${path}`
  }),
)

const unescaped = (html: string): string =>
  html.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
const textOf = (html: string): string => unescaped(html.replaceAll(/<[^>]*>/g, '')).trim()

describe('the documents for people', () => {
  const platform = useServers()
  let scenario: Scenario
  before('the service', async () => {
    scenario = await openScenario(platform, { config: { tiersFile: writeRoomyTiers(platform.config.stateDir) } })
  })
  after('end of the service', () => scenario.close())

  const ask = (path: string): Promise<Answer> => scenario.ask(path, { as: null, headers: { accept: BROWSER } })

  const linksOf = (text: string): string[] =>
    [...text.matchAll(/ (?:href|src)="([^"]+)"|\]\(([^\s)]+)\)/g)].map(([, html, prose]) =>
      unescaped(html ?? prose ?? ''),
    )

  for (const root of ['/', '/v1/'])
    it(`lead from every page below ${root} to places that are there, on this host`, async () => {
      const bodies = new Map<string, string>()
      const bodyOf = async (path: string): Promise<string> => {
        const known = bodies.get(path)
        if (known !== undefined) return known
        const { status, text } = await ask(path)
        expect(status, path).to.equal(200)
        bodies.set(path, text)
        return text
      }
      let links = 0
      for (const page of PAGES) {
        const address = `${scenario.roles.baseUrl}${root}${page}`
        for (const link of new Set(linksOf(await bodyOf(root + page)))) {
          const { origin, pathname, hash } = new URL(link, address)
          expect(origin, `${page} ${link}`).to.equal(scenario.roles.baseUrl)
          const body = await bodyOf(pathname)
          const place = decodeURIComponent(hash.slice(1))
          if (pathname.endsWith('/docs/reference') && place !== '') expect(ANCHORS, link).to.include(place)
          else if (place !== '') expect(body, `${page} ${link}`).to.include(` id="${place}"`)
          links += 1
        }
      }
      expect(links).to.be.above(300)
    })

  it('are one page for each file of guides, in the list of each and in llms.txt', async () => {
    const prose = (await ask('/llms.txt')).text
    const overview = (await ask('/docs')).text
    for (const guide of GUIDES) {
      expect((await ask(`/${guide}`)).text).to.include(` href="../${guide}" aria-current="page"`)
      expect(overview).to.include(`<li><a href="${guide}">`)
      expect(prose).to.include(`/v1/${guide})`)
    }
    for (const anchor of ANCHORS) expect(prose).to.include(`/v1/docs/reference#${anchor})`)
  })

  it('load from their own host alone, and run no script but files', async () => {
    for (const page of ['', 'docs', ...GUIDES, 'docs/reference']) {
      const { headers, text } = await ask(`/${page}`)
      expect(headers.get('content-type')).to.equal('text/html; charset=utf-8')
      expect(headers.get('cache-control')).to.equal('public, max-age=300')
      const policy = headers.get('content-security-policy') ?? ''
      expect(policy).to.match(/^default-src 'none'; connect-src 'self'; script-src 'self';/)
      expect(policy).not.to.match(/https?:|\*|nonce|eval/)
      // The script of the reference writes its styles into the page.
      expect(policy.includes('unsafe'), page).to.equal(page === 'docs/reference')
      expect(text).not.to.match(/<style| style=|<script(?! (type="module"|defer) src=)| on\w+=|\{\{|undefined/)
      expect(text).to.match(/^<!doctype html>\n<html lang="en">/)
    }
    const { headers: others } = await ask('/openapi.json')
    expect(others.get('content-security-policy')).to.include("default-src 'none'; form-action 'self'")
  })

  it('lead to their page where a path ends in a slash', async () => {
    for (const path of ['/docs', '/v1/docs/feeds']) {
      const { status, headers } = await ask(`${path}/`)
      const { pathname } = new URL(headers.get('location') ?? '', `${scenario.roles.baseUrl}${path}/`)
      expect([status, pathname]).to.deep.equal([308, path])
    }
  })

  it('show the limits of each tier as the file has them that the platform runs with', async () => {
    const { text } = await ask('/docs/authentication')
    const table = /<h2 id="limits-by-tier">[\s\S]*?<table>([\s\S]*?)<\/table>/.exec(text)?.[1] ?? ''
    const [head, ...rows] = [...table.matchAll(/<tr>([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
      [...row.matchAll(/<t[hd][^>]*>([\s\S]*?)<\/t[hd]>/g)].map(([, cell = '']) => textOf(cell)),
    )
    expect(head?.slice(1)).to.deep.equal(TIERS)
    const file = JSON.parse(readFileSync(writeRoomyTiers(platform.config.stateDir), 'utf8'))
    const members = Object.keys(file.free)
    expect(rows).to.have.length(members.length)
    members.forEach((member, at) => {
      const shown = rows[at]?.slice(1).map(cell => {
        const number = cell.replaceAll(',', '')
        return /^\d+$/.test(number) ? Number(number) : cell
      })
      const words: Record<string, unknown> = { true: 'yes', false: 'no', 0: 'none' }
      const unbounded = member === 'lookback_days_max' ? 'all' : 'none'
      const expected = TIERS.map(tier => {
        const value = file[tier][member]
        if (value === null) return unbounded
        return Array.isArray(value) ? value.join(' ') : (words[String(value)] ?? value)
      })
      expect(shown, member).to.deep.equal(expected)
    })
  })

  it('say of every error code its cause and what to do, at a place of its name', async () => {
    const { text } = await ask('/docs/errors')
    const rows = [
      ...text.matchAll(
        /<tr>\s*<td><a id="([A-Z_]+)"><\/a>([\s\S]*?)<\/td>\s*<td>([\s\S]*?)<\/td>\s*<td>([\s\S]*?)<\/td>/g,
      ),
    ]
    expect(rows.map(([, code]) => code)).to.have.members(Object.keys(ERROR_STATUS))
    for (const [, code = '', name = '', cause = '', remedy = ''] of rows) {
      expect(textOf(name)).to.equal(code)
      for (const sentence of [cause, remedy]) expect(textOf(sentence), code).to.match(/^\W*\w.{10,}\.$/)
      const heading = text
        .slice(0, text.indexOf(`<a id="${code}">`))
        .match(/<h3 id="(\d+)-/g)
        ?.at(-1)
      expect(heading, code).to.equal(`<h3 id="${ERROR_STATUS[code as keyof typeof ERROR_STATUS]}-`)
    }
  })

  it('are browsed by a script that is compressed where that is accepted', async () => {
    const [, script = ''] = / src="([^"]+scalar[^"]+)"/.exec((await ask('/docs/reference')).text) ?? []
    const path = new URL(script, `${scenario.roles.baseUrl}/docs/reference`).pathname
    const packed = await ask(path)
    const plain = await scenario.ask(path, { as: null, headers: { 'accept-encoding': 'identity' } })
    expect(packed.headers.get('content-encoding')).to.equal('gzip')
    expect([plain.status, plain.headers.get('content-type')]).to.deep.equal([200, 'text/javascript; charset=utf-8'])
    expect(plain.headers.has('content-encoding')).to.equal(false)
    expect(createHash('sha256').update(plain.text).digest('hex')).to.equal(
      createHash('sha256').update(packed.text).digest('hex'),
    )
    expect(plain.text).to.include('createApiReference')
  })
})
