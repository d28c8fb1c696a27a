/**
 * The costliest inputs of an operation, made of what its description allows. What a schema cannot say (a name that the catalog has, a real
 * date) comes by the name of the parameter. Every parameter is there alone, with all others, and left out, for each way to choose an item.
 */

type Json = Record<string, unknown>

/** A parameter, or a member of a body, and what its values may be. */
interface Described {
  name: string
  required?: boolean
  schema: Schema
}

interface Schema {
  type?: string | string[]
  enum?: unknown[]
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  maxItems?: number
  maxLength?: number
  minimum?: number
  maximum?: number
}

/** Values by the name of a parameter; `at` counts the members of a list, and a number that differs from request to request is in it. */
export type ValuesByName = Record<string, ((at: number) => unknown)[]>

const SELECTORS = ['item_id', 'market_hash_name', 'phase']
/** Of a list or text without a bound, and of an enumeration the values that are tried. */
const [UNBOUNDED, ENUMERATED] = [100, 4]

export function costlyInputs(described: readonly Described[], values: ValuesByName): Json[] {
  const valuesOf = ({ name, schema }: Described): unknown[] => someValues(name, schema, values)
  const needed = Object.fromEntries(described.filter(one => one.required).map(one => [one.name, valuesOf(one)[0]]))
  const optional = described.filter(one => !one.required && valuesOf(one).length > 0)
  const [selectors, others] = [true, false].map(isSelector =>
    optional.filter(({ name }) => SELECTORS.includes(name) === isSelector),
  ) as [Described[], Described[]]
  const bases = [needed, ...selectors.flatMap(one => valuesOf(one).map(value => ({ ...needed, [one.name]: value })))]
  const alone = others.flatMap(one => valuesOf(one).map(value => ({ [one.name]: value })))
  const together = [0, 1].map(which =>
    Object.fromEntries(others.map(one => [one.name, valuesOf(one)[which] ?? valuesOf(one)[0]])),
  )
  const inputs = bases.flatMap(base => [{}, ...alone, ...together].map(one => ({ ...base, ...one })))
  return [...new Map(inputs.map(input => [JSON.stringify(input), input])).values()]
}

export const costlyBodies = (schema: Schema, values: ValuesByName): Json[] => costlyInputs(membersOf(schema), values)

const membersOf = ({ properties = {}, required = [] }: Schema): Described[] =>
  Object.entries(properties).map(([name, schema]) => ({ name, schema, required: required.includes(name) }))

function someValues(name: string, schema: Schema, values: ValuesByName, at = 0): unknown[] {
  const named = values[name]
  if (named) return named.map(make => make(at))
  const [type] = [schema.anyOf?.[0]?.type ?? schema.type].flat()
  const {
    items,
    maxItems = UNBOUNDED,
    maxLength = UNBOUNDED,
    minimum = 0,
    maximum = 1_000,
    ...own
  } = {
    ...schema,
    ...schema.anyOf?.[0],
  }
  if (own.enum) return own.enum.slice(0, ENUMERATED)
  if (type === 'boolean') return [true, false]
  if (type === 'integer' || type === 'number') return [maximum, minimum]
  if (type === 'object') return costlyInputs(membersOf(own), values).slice(-1)
  if (type === 'array') {
    const singular = name.replace(/s$/, '')
    const list = Array.from({ length: maxItems }, (_, each) => {
      const all = items?.enum
      return all ? all[each % all.length] : someValues(singular, items ?? {}, values, at + each)[0]
    })
    return [list, list.slice(0, 1)]
  }
  return ['x'.repeat(maxLength)]
}
