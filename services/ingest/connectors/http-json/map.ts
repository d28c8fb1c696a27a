/**
 * The meaning of a provider's JSON: expressions of its market file, compiled once.
 *
 * Pure but for its pauses: rows are mapped in bounded portions and the event loop runs between them, because JSONata evaluates a
 * page of 30,000 rows in one go of a quarter of a second, which would block all other providers. Invariant: every row that the
 * mapping keeps becomes an entry, in order; a result of any other shape fails the refresh.
 */
import { setImmediate as pause } from 'node:timers/promises'
import jsonata, { type Expression } from 'jsonata'
import type { HttpJsonOptions } from '#infra/config/market.ts'
import { FetchFailure } from '../../bounded-fetch.ts'
import { minorUnits, type Rounding } from '../../minor-units.ts'
import type { RawEntry, Source } from '../../source.ts'

export type PageReader = ReturnType<typeof compileMapping>

export type MappedPage = Awaited<ReturnType<PageReader>>

const PORTION = 500

export function compileMapping(options: HttpJsonOptions, source: Source) {
  const { paging } = options
  const rows = compile('rows', options.rows, source)
  const mapping = compile('mapping', options.mapping, source)
  const currency = options.currency ? compile('currency', options.currency, source) : undefined
  const pagingText = paging && ('next' in paging ? paging.next : 'more' in paging ? paging.more : undefined)
  const pagingExpression = pagingText ? compile('paging', pagingText, source) : undefined
  return async (page: unknown) => {
    const all = asArray(await evaluate('rows', rows, page, page))
    const entries: RawEntry[] = []
    for (let i = 0; i < all.length; i += PORTION) {
      if (i > 0) await pause()
      const mapped = asArray(await evaluate('mapping', mapping, all.slice(i, i + PORTION), page))
      for (const entry of mapped) entries.push(entry as RawEntry)
    }
    return {
      entries,
      /** Before the mapping; paging recognizes a short page by them. */
      rows: all.length,
      /** Undefined: the provider's own. */
      currency: currency && textOf(await evaluate('currency', currency, page, page)),
      paging: pagingExpression && (await evaluate('paging', pagingExpression, page, page)),
    }
  }
}

/** So that no price looks better than it is. */
const ROUNDING: Record<Source['side'], Rounding> = { ask: 'up', bid: 'down', sale: 'half-up' }

/** `$minor(decimal)`: hundredths of a decimal number or text, rounded once; what is no decimal stays and is rejected later. */
function compile(name: string, text: string, { provider, side }: Source): Expression {
  try {
    const expression = jsonata(text)
    expression.registerFunction('minor', value => minorUnits(value, ROUNDING[side]) ?? value, '<x?:x>')
    return expression
  } catch (error) {
    throw new Error(`${name} of ${provider} is no JSONata: ${messageOf(error)}`)
  }
}

async function evaluate(name: string, expression: Expression, input: unknown, page: unknown): Promise<unknown> {
  try {
    return await expression.evaluate(input, { page })
  } catch (error) {
    throw new FetchFailure('bad_mapping', `${name}: ${messageOf(error)}`)
  }
}

/** JSONata gives nothing, one value or a sequence where people say "array". */
function asArray(value: unknown): unknown[] {
  if (value === undefined || value === null) return []
  return Array.isArray(value) ? value : [value]
}

function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new FetchFailure('bad_mapping', 'currency: gives no text')
  return value.toUpperCase()
}

const messageOf = (error: unknown): string =>
  String((error as { message?: unknown } | null)?.message ?? error).slice(0, 200)
