/** `npm run openapi:pin` writes the pinned document again; its diff is the change that clients get. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import { fxReply } from '#schemas/api/providers.ts'
import { exampleOf } from '#schemas/api/reply-values.ts'
import { operationsDescribed } from '#test/fixtures/api-routes.ts'
import { PINNED, PINNED_FILE, pinnedOperations } from '#test/fixtures/pinned-operations.ts'
import { openDescribedAnswers } from '#test/harness/described-answers.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ROOT = 'https://marketlog.example'
const OPERATIONS = pinnedOperations()

describe('the description of the API', () => {
  const platform = useServers()
  let scenario: Scenario
  before('the service', async () => {
    // With the limits as built in: they are bounds of some members.
    scenario = await openScenario(platform, { config: { tiersFile: undefined } })
  })
  after('end of the service', () => scenario.close())

  const ask = (path: string, headers = {}) => scenario.ask(path, { as: null, headers })

  it('is the pinned one', async () => {
    const { text } = await ask('/v1/openapi.json')
    const served = text.replaceAll(scenario.roles.baseUrl, ROOT)
    if (process.env.PIN_OPENAPI === '1') writeFileSync(PINNED_FILE, served)
    const pinned = JSON.parse(readFileSync(PINNED_FILE, 'utf8'))
    expect(JSON.parse(served)).to.deep.equal(pinned, 'npm run openapi:pin')
    expect(JSON.stringify(JSON.parse(served)) === JSON.stringify(pinned), 'in the same order').to.equal(true)
  })

  for (const root of ['', '/v1'])
    it(`is served as ${root}/openapi.json and ${root}/llms.txt, without a key`, async () => {
      const { body, headers } = await ask(`${root}/openapi.json`)
      expect(body.servers).to.deep.equal([{ url: scenario.roles.baseUrl }])
      expect(headers.get('access-control-allow-origin')).to.equal('*')
      const prose = await ask(`${root}/llms.txt`)
      for (const { method, path } of OPERATIONS) {
        expect(prose.text).to.include(`${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
      }
    })

  it('has words and an example for each parameter, and a bound for each list that a body may hold', () => {
    const lists: string[] = []
    const visit = (schema: unknown, at: string): void => {
      if (typeof schema !== 'object' || schema === null) return
      const { type, maxItems } = schema as { type?: string; maxItems?: number }
      if (type === 'array' && lists.push(at)) expect(maxItems, at).to.be.a('number')
      for (const [name, one] of Object.entries(schema)) visit(one, `${at} ${name}`)
    }
    for (const { name, parameters, body } of OPERATIONS) {
      visit(body?.schema, name)
      for (const parameter of parameters) {
        const { name: own, description, example } = parameter
        expect([/\w{3}/.test(description), example !== undefined], `${name} ${own}`).to.deep.equal([true, true])
      }
    }
    expect(lists).to.have.length.above(5)
  })

  it('has an example for every reply, which fits its schema', () => {
    const check = openDescribedAnswers(PINNED)
    for (const { method, path, reply } of operationsDescribed()) {
      if (reply.name === undefined) continue
      const type = reply.type ?? (reply.isStream ? 'application/x-ndjson' : 'application/json')
      const examples = reply.events ? Object.values(reply.example ?? {}) : [reply.example]
      expect(examples.length, path).to.be.above(0)
      for (const body of examples) check({ method: method.toUpperCase(), path, status: reply.status, type, body })
    }
  })

  it('is what answers are held against: one that deviates is seen', () => {
    const check = openDescribedAnswers(PINNED)
    const answer = { method: 'GET', path: '/fx?a=1', status: 200, type: 'application/json; charset=utf-8' }
    const example = exampleOf(fxReply) as object
    check({ ...answer, body: example })
    expect(() => check({ ...answer, body: { timestamp: 'x', rates: {} } })).to.throw('format')
    expect(() => check({ ...answer, body: { ...example, more: 1 } })).to.throw('additional')
    expect(() => check({ ...answer, status: 418, body: {} })).to.throw('not described')
    expect(() => check({ ...answer, type: 'text/html', body: '' })).to.throw('text/html')
    const refused = { ...answer, status: 401, body: { code: 'AUTH_INVALID_API_KEY', detail: 'x' } }
    check(refused)
    expect(() => check({ ...refused, body: { code: 'NOT_FOUND', detail: 'x' } })).to.throw('NOT_FOUND')
  })
})
