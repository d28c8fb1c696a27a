/**
 * Writes src/generated.ts from the pinned description: types of schemas and parameters, and a method for each operation.
 *
 * Runs before the checks and, by .mocharc.json, before tests. Knows the keywords of JSON Schema that the description uses and no
 * others: one that is new throws.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Schema {
  $ref?: string
  type?: string | string[]
  description?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  propertyNames?: Schema
}

interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required: boolean
  description: string
  schema: Schema
}

interface Described {
  operationId: string
  summary: string
  description?: string
  security?: unknown[]
  'x-scope': string
  parameters: Parameter[]
  requestBody?: { required: boolean; content: Record<string, { schema: Schema }> }
  responses: Record<string, { content?: Record<string, { schema: Schema; 'x-events'?: Record<string, Schema> }> }>
}

interface Description {
  paths: Record<string, Record<string, Described>>
  components: { schemas: Record<string, Schema> }
}

const DESCRIPTION = new URL('../../../../schemas/api/openapi.json', import.meta.url)
const OUTPUT = fileURLToPath(new URL('../src/generated.ts', import.meta.url))

/** Those that say which values are taken, which a type cannot. */
const BOUNDS = 'format minimum maximum exclusiveMinimum pattern minItems maxItems minLength maxLength default example'
const KEYWORDS = new Set(
  `$ref type description const enum anyOf items properties required additionalProperties propertyNames ${BOUNDS}`.split(
    ' ',
  ),
)

const { paths, components } = JSON.parse(readFileSync(DESCRIPTION, 'utf8')) as Description

const unionOf = (types: readonly string[]): string => [...new Set(types)].join(' | ')

function typeOf(schema: Schema): string {
  const unknown = Object.keys(schema).find(keyword => !KEYWORDS.has(keyword))
  if (unknown) throw new Error(`a schema has ${unknown}, which this generator does not know`)
  const { $ref, type, items, properties, additionalProperties } = schema
  if ($ref) return $ref.split('/').at(-1) as string
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return unionOf(schema.enum.map(value => JSON.stringify(value)))
  if (schema.anyOf) return unionOf(schema.anyOf.map(typeOf))
  if (Array.isArray(type)) return unionOf(type.map(one => typeOf({ ...schema, type: one })))
  if (type === 'array') return `readonly (${typeOf(items ?? {})})[]`
  if (type === 'integer') return 'number'
  if (type === undefined) return 'unknown'
  if (type !== 'object') return type
  if (properties) return `{\n${membersOf(properties, schema.required ?? [])}}`
  const value = typeof additionalProperties === 'object' ? typeOf(additionalProperties) : 'unknown'
  return `Partial<Record<${schema.propertyNames ? typeOf(schema.propertyNames) : 'string'}, ${value}>>`
}

const noteOf = (...texts: (string | undefined)[]): string =>
  `/** ${texts.filter(Boolean).join('\n\n').replaceAll('*/', '*\\/')} */\n`

const membersOf = (properties: Record<string, Schema>, required: readonly string[]): string =>
  Object.entries(properties)
    .map(([name, schema]) => {
      const note = schema.description ? noteOf(schema.description) : ''
      return `${note}${name}${required.includes(name) ? '' : '?'}: ${typeOf(schema)}\n`
    })
    .join('')

/** As it is written flat, among the members of a body. */
const flatName = ({ name }: Pick<Parameter, 'name'>): string => name.toLowerCase().replaceAll('-', '_')

/** The options of a method: parameters and the members of the body, flat. */
function inputOf({ operationId, parameters, requestBody }: Described): { members: string; isOptional: boolean } {
  const [form, json] = ['multipart/form-data', 'application/json'].map(type => requestBody?.content[type]?.schema)
  const properties: Record<string, Schema> = { ...json?.properties }
  const required = [...((requestBody?.required && json?.required) || [])]
  for (const parameter of parameters) {
    const name = flatName(parameter)
    if (name in properties) throw new Error(`${operationId} has ${name} twice`)
    properties[name] = { ...parameter.schema, description: parameter.description }
    if (parameter.required) required.push(name)
  }
  const file = form ? `${noteOf('The content of the file.')}file: string | Blob\n` : ''
  return { members: membersOf(properties, required) + file, isOptional: required.length === 0 && !form }
}

const REPLIES: Record<string, string> = {
  'application/json': 'json',
  'application/x-ndjson': 'lines',
  'text/event-stream': 'events',
  'text/csv': 'text',
  'text/html': 'text',
}

const operations = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([verb, described]) => {
    const { operationId: id, requestBody, parameters } = described
    const [status = '', response] = Object.entries(described.responses).find(([code]) => code < '400') ?? []
    const [type, content] = Object.entries(response?.content ?? {})[0] ?? []
    const reply = type ? REPLIES[type] : status === '302' ? 'location' : 'nothing'
    if (reply === undefined) throw new Error(`${id} answers ${type}, which this generator does not know`)
    if (requestBody && parameters.some(one => one.in === 'query')) throw new Error(`${id} has a body and a query`)
    const headers = parameters.filter(one => one.in === 'header').map(({ name }) => name)
    const method = verb.toUpperCase()
    const operation = {
      method,
      path,
      reply,
      ...(requestBody && { body: requestBody.content['application/json'] ? 'json' : 'form' }),
      ...(headers.length > 0 && { headers }),
      ...(described.security?.length === 0 && { isPublic: true }),
      // Nothing of this scope writes.
      ...((method === 'GET' || described['x-scope'] === 'market:read' || headers.includes('Idempotency-Key')) && {
        isRepeatable: true,
      }),
    }
    return { id, described, operation, content, input: inputOf(described), inputName: `${capital(id)}Parameters` }
  }),
)

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/** Where the rows of a reply that comes in pages are. */
function rowsOf(schema: Schema | undefined): string[] | undefined {
  const { properties = {} } = components.schemas[schema?.$ref?.split('/').at(-1) ?? ''] ?? {}
  if (!properties.pagination) return undefined
  for (const [name, { type, properties: inner = {} }] of Object.entries(properties)) {
    if (type === 'array') return [name]
    const nested = Object.keys(inner).find(key => inner[key]?.type === 'array')
    if (name === 'data' && nested) return [name, nested]
  }
  throw new Error(`${schema?.$ref} has pages without rows`)
}

const returnOf = (reply: string | undefined, schema: Schema | undefined): string =>
  reply === 'json' ? typeOf(schema ?? {}) : reply === 'nothing' ? 'void' : 'string'

const lines = function* (): Generator<string> {
  yield '// Made by build/generate.ts from schemas/api/openapi.json.'
  yield "import type { CallOptions, Operation } from './operation.ts'"
  for (const [name, schema] of Object.entries(components.schemas))
    yield `${schema.description ? noteOf(schema.description) : ''}export type ${name} = ${typeOf(schema)}`
  yield "export type ErrorCode = (ErrorReply | ValidationErrorReply)['code']"
  for (const { inputName, input } of operations) yield `export interface ${inputName} {\n${input.members}}`

  yield 'export interface Parameters {'
  for (const { id, inputName } of operations) yield `${id}: ${inputName}`
  yield '}'

  const paged = operations.flatMap(({ id, content }) => {
    const rows = rowsOf(content?.schema)
    return rows ? [{ id, rows, type: `${typeOf(content?.schema ?? {})}${rows.map(key => `['${key}']`).join('')}` }] : []
  })
  yield '/** Operations that answer in pages, and a row of each. */\nexport interface Rows {'
  for (const { id, type } of paged) yield `${id}: ${type}[number]`
  yield '}\nexport const ROWS: Record<keyof Rows, readonly string[]> = {'
  for (const { id, rows } of paged) yield `${id}: ${JSON.stringify(rows)},`
  yield '}'

  yield '/** Operations that answer in lines, and one of each. */\nexport interface Lines {'
  for (const { id, operation, content } of operations)
    if (operation.reply === 'lines') yield `${id}: ${typeOf(content?.schema ?? {})}`
  yield '}'

  yield '/** Operations that answer in events, and the data of each by its type. */\nexport interface Events {'
  for (const { id, content } of operations)
    if (content?.['x-events']) {
      yield `${id}: {`
      for (const [event, schema] of Object.entries(content['x-events'])) yield `'${event}': ${typeOf(schema)}`
      yield '}'
    }
  yield '}'

  yield 'export const OPERATIONS = {'
  for (const { id, operation } of operations) yield `${id}: ${JSON.stringify(operation)},`
  yield '} satisfies Record<string, Operation>'

  yield 'export abstract class Operations {'
  yield 'protected abstract call(operation: Operation, parameters: object, options?: CallOptions): Promise<unknown>'
  for (const { id, described, operation, content, input, inputName } of operations) {
    const { reply } = operation
    if (reply === 'lines' || reply === 'events') continue
    const result = returnOf(reply, content?.schema)
    yield noteOf(described.summary, described.description)
    yield `${id}(parameters: ${inputName}${input.isOptional ? ' = {}' : ''}, options?: CallOptions): Promise<${result}> {`
    yield `return this.call(OPERATIONS.${id}, parameters, options) as Promise<${result}>`
    yield '}'
  }
  yield '}'
}

const text = `${[...lines()].join('\n')}\n`
// A test of another worker may be reading it.
if (!existsSync(OUTPUT) || readFileSync(OUTPUT, 'utf8') !== text) writeFileSync(OUTPUT, text)
