/** GET /market/arbitrage took `strict=1`, and every boolean ten more words, where the description has a boolean. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect } from 'chai'
import { getQuery } from '#schemas/api/query-values.ts'
import { operationsDescribed } from '#test/fixtures/api-routes.ts'
import { type Parameter, pinnedOperations, type Schema } from '#test/fixtures/pinned-operations.ts'

const NUMBERS = '0 1 -1 7 +7 07 .5 1. 1.5 1e3 1001 36501 999999999999999 9999999999999999 NaN'.split(' ')
const WORDS = ['', ' ', ...'true False TRUE yes No on t null USD usd 7d 48h 10x provider_02'.split(' ')]
const TIMES = ['2026-03-03', '2026-02-30', '2026-03-03T10:00:00', '2026-03-03T10:00:00Z', '10:00']
const IDS = ['0195a3c2-6b1e-7c40-9d2e-5f0a1b2c3d4e', '0195A3C2-6B1E-7C40-9D2E-5F0A1B2C3D4E', '0195a3c2']
const LENGTHS = [41, 100, 101, 200, 201, 500, 501, 1000, 1001].map(length => 'x'.repeat(length))
const TEXTS = [...NUMBERS, ...WORDS, ...TIMES, ...IDS, ...LENGTHS]

/** A text as a client means it whose parameter is of that type. */
function meant(text: string, { type }: Schema): unknown {
  if (type === 'boolean' && /^(true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  if ((type === 'integer' || type === 'number') && text.trim() !== '' && !Number.isNaN(Number(text)))
    return Number(text)
  return text
}

function valuesOf({ schema, example }: Parameter): (string | string[])[] {
  const one = String([example].flat()[0])
  const lists = [schema.maxItems ?? 200, 201].flatMap(most => [most, most + 1]).map(count => Array(count).fill(one))
  return [...TEXTS, one, [one, one], ...(schema.type === 'array' ? lists : [])]
}

describe('a parameter', () => {
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  const operations = new Map(operationsDescribed().map(one => [`${one.method} /v1${one.path}`, one]))

  it('takes nothing that its description forbids', () => {
    const taken: string[] = []
    let compared = 0
    for (const { method, path, name, parameters } of pinnedOperations()) {
      const operation = operations.get(`${method.toLowerCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
      const { params, query = undefined } = operation ?? {}
      for (const parameter of parameters.filter(one => one.in !== 'header')) {
        const whole = parameter.in === 'path' ? params : method === 'GET' ? getQuery(query) : query
        const allows = ajv.compile(parameter.schema)
        for (const value of valuesOf(parameter)) {
          const { issues = [] } = whole?.safeParse({ [parameter.name]: value }).error ?? {}
          if (issues.some(({ path: [at] }) => at === parameter.name)) continue
          compared += 1
          const { schema } = parameter
          const read = schema.type === 'array' ? [value].flat().map(text => meant(text, schema.items ?? {})) : value
          const one = typeof read === 'string' ? meant(read, schema) : read
          if (!allows(one)) taken.push(`${name}: ${parameter.name}=${String(value).slice(0, 60)}`)
        }
      }
    }
    expect(compared).to.be.above(1_000)
    expect(taken).to.deep.equal([])
  })
})
