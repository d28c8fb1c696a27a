import { expect } from 'chai'
import { chooseCoding, isNamed } from '#infra/http/content-coding.ts'

describe('the coding of a body', () => {
  const cases: [acceptEncoding: string | undefined, coding: 'gzip' | 'identity' | undefined][] = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['x-gzip', 'gzip'],
    ['gzip, deflate, br', 'gzip'],
    ['deflate, gzip;q=1.0, *;q=0.5', 'gzip'],
    ['identity', 'identity'],
    ['identity, gzip', 'gzip'],
    ['gzip;q=0.5, identity', 'identity'],
    ['gzip;q=0.5, identity;q=0.4', 'gzip'],
    ['gzip;q=0.001', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['gzip; q=0.000', 'identity'],
    ['br', 'identity'],
    ['*', 'gzip'],
    ['*;q=0', undefined],
    ['*;q=0, identity', 'identity'],
    ['*;q=0, gzip;q=0.1', 'gzip'],
    ['identity;q=0', 'gzip'],
    ['identity;q=0, gzip', 'gzip'],
    ['identity;q=0, br', 'gzip'],
    ['identity;q=0, gzip;q=0', undefined],
    ['gzip;q=2', 'identity'],
    [',, ;q=1, gzip', 'gzip'],
  ]
  for (const [acceptEncoding, coding] of cases)
    it(`is ${coding ?? 'none'} for ${acceptEncoding === undefined ? 'no header' : `"${acceptEncoding}"`}`, () => {
      expect(chooseCoding(acceptEncoding)).to.equal(coding)
    })
})

describe('If-None-Match', () => {
  const cases: [header: string | undefined, isNamed: boolean][] = [
    [undefined, false],
    ['', false],
    ['"a"', true],
    ['W/"a"', true],
    ['"b"', false],
    ['"b", "a"', true],
    ['"b",W/"a"', true],
    ['*', true],
    ['a', false],
    ['"aa"', false],
    ['"b, \\"a"', false],
  ]
  for (const [header, expected] of cases)
    it(`${expected ? 'names' : 'does not name'} "a": ${header ?? 'no header'}`, () => {
      expect(isNamed('"a"', header)).to.equal(expected)
    })
})
