import { globSync, readFileSync } from 'node:fs'
import { expect } from 'chai'
import { ERROR_STATUS, type ErrorCode, errorReply } from '#schemas/api/error.ts'
import { errorExample } from '#schemas/api/error-meanings.ts'

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[]

/** Fewer letters than any detail has beside what is put into it. */
const SHORTEST = 15

const escaped = (text: string): string => text.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&')

/** Each source of a service with the forms of its texts; what is put into one may be anything. */
const SOURCES = globSync('{infra,services}/**/*.ts').map(file => {
  const source = readFileSync(file, 'utf8')
  const forms = [...source.matchAll(/'((?:[^'\\\n]|\\.)+)'|`((?:[^`\\]|\\.)+)`/g)]
    .map(([, plain, template = plain ?? '']) => template.replaceAll('\\`', '`').split(/\$\{[^}]*\}/))
    .filter(parts => parts.join('').length >= SHORTEST)
    .map(parts => new RegExp(`^${parts.map(escaped).join('.+')}$`))
  return { source, forms }
})

const isSent = (code: ErrorCode, detail: string): boolean =>
  SOURCES.some(({ source, forms }) => source.includes(`'${code}'`) && forms.some(form => form.test(detail)))

describe('the example of each error', () => {
  for (const code of CODES) {
    const { detail } = errorReply.parse(errorExample(code))
    it(`${code} is one that is sent`, () => {
      if (code !== 'VALIDATION_ERROR') expect(isSent(code, String(detail)), String(detail)).to.equal(true)
    })
  }
})
