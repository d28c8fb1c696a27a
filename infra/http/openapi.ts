/**
 * The API's description, OpenAPI 3.1, made of the routes and their zod schemas.
 *
 * Parameters, bodies, replies and error bodies become JSON Schema through zod's own conversion; headers and errors follow from what
 * a route is (key, body, tier). The document holds nothing that routes do not declare, so it names no path, parameter or code that
 * does not exist. Error answers are components, named after their codes: most routes share them.
 */
import { z } from 'zod'
import { ERROR_STATUS, type ErrorCode, violation } from '#schemas/api/error.ts'
import type { Access, Operation } from '#schemas/api/operation.ts'
import { getQuery } from '#schemas/api/query-values.ts'
import { amount } from '#schemas/api/reply-values.ts'
import { type NeededScope, scopeNeeded } from '#schemas/api/scopes.ts'

type Json = Record<string, unknown>

/** Where the API is served, and what it is called. */
interface DocumentScope {
  /** Public root, without a trailing slash. */
  baseUrl: string
}

const VERSION = '1.0.0'
/** Every path has it; the root alone answers as well. */
const ROOT = '/v1'

const RATE_FIELDS: Record<string, string> = {
  'RateLimit-Policy': 'Quotas of the key (`minute`, `month`): `"minute";q=300;w=60`, requests and seconds.',
  RateLimit:
    'What is left of them: `"minute";r=299;t=60`, requests and seconds. Of a 429 that of the exceeded quota alone.',
}
const RATE_HEADERS: Record<string, string> = {
  ...RATE_FIELDS,
  'X-RateLimit-Limit': 'Requests that the key may send in a calendar month (UTC).',
  'X-RateLimit-Remaining': 'Requests left in the month.',
  'X-RateLimit-Reset': 'Unix time at which the month ends.',
  'X-RateLimit-Tier': 'Tier of the key.',
}
const RETRY_AFTER = 'Seconds to wait, at least 1.'

const ABOUT = `Market data of 41 marketplaces through one REST interface.

Send your key as \`Authorization: Bearer <API_KEY>\`. Amounts are integers in hundredths of the currency, times are ISO 8601 in UTC.
Checks are made in this order: key (401), account and tier (403), rate limit (429), parameters (422). Parameters that the operation
does not know are ignored, or with \`strict=true\` a 422; a known one in other letters or with \`[]\` behind it is a 422 in any case, and so is a single-valued
parameter that comes twice. On 429 and 409 wait as \`Retry-After\` says; on 503 try again with a growing delay.
Every path answers at the root as well as below \`/v1\`.`

/** Makes the document. */
export function openApiDocument(operations: readonly Operation[], { baseUrl }: DocumentScope): Json {
  const paths: Record<string, Json> = {}
  const errors = openComponents('responses')
  for (const operation of operations) {
    const path = ROOT + operation.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [operation.method]: describe(operation, errors) }
  }
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: {
      title: 'marketlog',
      version: VERSION,
      description: ABOUT,
      license: { name: 'Proprietary', url: `${baseUrl}/docs` },
    },
    servers: [{ url: baseUrl }],
    tags: [...new Set(operations.map(({ group }) => group))].map(name => ({ name })),
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: 'An API key, `sk_live_...`.' } },
      responses: errors.all(),
      schemas: { ...replySchemas(operations), Violation: schemaOf(violation, 'output') },
    },
  }
}

/** Parts that routes share. */
interface Components {
  /** Adds a part; returns the reference to it, or to an equal one. */
  add(name: string, part: Json): Json
  all(): Json
}

function openComponents(kind: string): Components {
  const parts = new Map<string, string>()
  return {
    add(name, part) {
      const text = JSON.stringify(part)
      let free = name
      for (let n = 2; (parts.get(free) ?? text) !== text; n++) free = `${name}${n}`
      parts.set(free, text)
      return { $ref: `#/components/${kind}/${free}` }
    },
    all: () => Object.fromEntries([...parts].map(([name, text]) => [name, JSON.parse(text)])),
  }
}

const ACCESS: Record<Access, string> = {
  key: 'Counts against the monthly quota.',
  account: 'Takes an API key or a session; exempt from the monthly quota.',
  management: 'Takes the root key or a session, no child key; exempt from the monthly quota.',
  'recent-session':
    'Takes a session that was opened within the last ten minutes, no key; exempt from the monthly quota.',
  stream: 'Takes an API key, or a feed token as `token`; exempt from the monthly quota.',
  uncounted: 'Takes an API key; exempt from the monthly quota.',
}

function describe(operation: Operation, errors: Components): Json {
  const { id, method, group, summary, description, tiers, params, query, isCreate } = operation
  const access = tiers ? `Tiers: ${tiers.join(', ')}. ${ACCESS[operation.access ?? 'key']}` : 'No key needed.'
  return {
    operationId: id,
    tags: [group],
    summary,
    description: `${description}\n\n${access}`,
    'x-tiers': tiers ?? [],
    'x-credential': tiers ? (operation.access ?? 'key') : 'none',
    'x-scope': scopeOf(operation),
    ...(tiers === undefined && { security: [] }),
    parameters: [
      ...parametersOf('path', params),
      ...parametersOf('query', method === 'get' ? getQuery(query) : query),
      ...(isCreate ? [IDEMPOTENCY_KEY] : []),
    ],
    ...requestOf(operation),
    responses: { ...successOf(operation), ...errorsOf(operation, errors) },
  }
}

/** What it asks of a child key with scopes. */
const scopeOf = (operation: Operation): NeededScope => {
  const { tiers, access } = operation
  if (tiers === undefined) return 'any'
  return access === 'management' || access === 'recent-session' ? 'none' : scopeNeeded(operation)
}

function parametersOf(place: 'path' | 'query', schema: z.ZodObject | undefined): Json[] {
  if (!schema) return []
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as { properties?: Json; required?: string[] }
  return Object.entries(properties).map(([name, one]) => {
    const { description, example, ...own } = one as Json
    if (description === undefined) throw new Error(`the ${place} parameter ${name} has no description`)
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      description,
      example,
      ...(own.type === 'array' && { style: 'form', explode: true }),
      schema: own,
    }
  })
}

const IDEMPOTENCY_KEY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'Names this create: sent again within a day with the same key, it is answered as before and done once.',
  example: '3f2c9a1e-order-17',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

function requestOf({ body, upload, isBodyOptional = false }: Operation): Json {
  if (body) return { requestBody: bodyOf(body, !isBodyOptional) }
  if (!upload) return {}
  const { field, description } = upload
  const schema = {
    type: 'object',
    properties: { [field]: { type: 'string', contentMediaType: 'text/csv', description } },
    required: [field],
    additionalProperties: false,
  }
  return { requestBody: { required: true, content: { 'multipart/form-data': { schema } } } }
}

function bodyOf(schema: z.ZodObject, required: boolean): Json {
  const json = schemaOf(schema, 'input') as { properties: Record<string, Json> }
  const members = Object.entries(json.properties).map(([name, { example, ...own }]) => {
    if (own.description === undefined) throw new Error(`the body member ${name} has no description`)
    return { name, own, example }
  })
  const properties = Object.fromEntries(members.map(({ name, own }) => [name, own]))
  const example = Object.fromEntries(members.map(({ name, example }) => [name, example]))
  return { required, content: { 'application/json': { schema: { ...json, properties }, example } } }
}

function successOf({ reply, tiers }: Operation): Json {
  const { status, description, name, isStream, headers = {}, example } = reply
  const { events } = reply
  const schema = events ? { type: 'string', description: EVENTS } : refTo(name)
  const type = reply.type ?? (isStream ? 'application/x-ndjson' : 'application/json')
  const success = {
    description,
    headers: headersOf({ ...(tiers && RATE_HEADERS), ...headers }),
    ...(name !== undefined && {
      content: { [type]: { schema, example, ...(events && { 'x-events': dataOf(events) }) } },
    }),
  }
  const unchanged = { description: 'The snapshot that If-None-Match names is the current one.', headers: headersOf({}) }
  return { [status]: success, ...(isStream && { 304: unchanged }) }
}

const EVENTS = 'Server-Sent Events; `x-events` names the schema of each event\u2019s `data`.'

const refTo = (name: string | undefined): Json => ({ $ref: `#/components/schemas/${name}` })

const dataOf = (events: NonNullable<Operation['reply']['events']>): Json =>
  Object.fromEntries(Object.entries(events).map(([event, { name }]) => [event, refTo(name)]))

/** What any operation of its kind may refuse with, beside its own errors. */
function codesOf(operation: Operation): ErrorCode[] {
  const { errors, tiers, access = 'key', params, isCreate } = operation
  const hasBody = operation.body !== undefined || operation.upload !== undefined
  const hasQuery = operation.query !== undefined || operation.method === 'get'
  const codes: ErrorCode[] = ['BAD_REQUEST', 'RATE_LIMIT_EXCEEDED', 'INTERNAL_ERROR', 'SERVICE_UNAVAILABLE', ...errors]
  if (tiers) codes.push('AUTH_INVALID_API_KEY', 'AUTH_API_KEY_REVOKED', 'AUTH_ACCOUNT_DISABLED')
  if (tiers && access === 'key') codes.push('RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED')
  if (access === 'management' || access === 'recent-session') codes.push('FORBIDDEN_CHILD_KEY')
  else if (scopeOf(operation) !== 'any') codes.push('FORBIDDEN_SCOPE')
  if (access === 'recent-session') codes.push('RECENT_SESSION_REQUIRED')
  if (tiers && !tiers.includes('free')) codes.push('FORBIDDEN_TIER')
  if (hasQuery) codes.push('REQUEST_HEADERS_TOO_LARGE')
  if (hasBody) codes.push('PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'REQUEST_TIMEOUT')
  if (hasBody || hasQuery || isCreate || (tiers && params)) codes.push('VALIDATION_ERROR')
  return [...new Set(codes)]
}

function errorsOf(operation: Operation, errors: Components): Json {
  const byStatus = Map.groupBy(codesOf(operation), code => ERROR_STATUS[code])
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      errors.add(codes.map(wordsOf).join('Or'), errorOf(status, codes, operation)),
    ]),
  )
}

/** A code as the name of a component: ItemNotFound. */
const wordsOf = (code: ErrorCode): string =>
  code.toLowerCase().replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())

function errorOf(status: number, codes: readonly ErrorCode[], { tiers, violationMembers }: Operation): Json {
  const isViolation = codes.includes('VALIDATION_ERROR')
  const detail = isViolation
    ? { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/Violation' } }
    : { type: 'string' }
  const schema = {
    type: 'object',
    properties: {
      code: { type: 'string', enum: codes },
      detail,
      ...(isViolation && { omitted: OMITTED, ...membersOf(violationMembers) }),
    },
    required: ['code', 'detail'],
    additionalProperties: false,
  }
  const example = { code: codes[0], detail: isViolation ? [VIOLATION_EXAMPLE] : 'A sentence for people.' }
  const isCounted = tiers !== undefined && ![400, 401, 408, 431, 503].includes(status)
  const headers = {
    ...(isCounted && RATE_HEADERS),
    ...(status === 429 && RATE_FIELDS),
    ...([409, 429].includes(status) && { 'Retry-After': RETRY_AFTER }),
    ...(status === 401 && { 'WWW-Authenticate': 'Bearer' }),
  }
  return {
    description: codes.map(code => `\`${code}\``).join(', '),
    headers: headersOf(headers),
    content: { 'application/json': { schema, example } },
  }
}

const OMITTED: Json = {
  type: 'integer',
  minimum: 1,
  description: 'Violations beside those of `detail`, where there are more than it lists.',
}

const membersOf = (schema: z.ZodObject | undefined): Json =>
  schema ? (schemaOf(schema, 'output').properties as Json) : {}

const VIOLATION_EXAMPLE = {
  type: 'less_than_equal',
  loc: ['query', 'limit'],
  msg: 'Input should be less than or equal to 1000',
  input: '5000',
  ctx: { le: 1000 },
}

const headersOf = (headers: Record<string, string>): Json =>
  Object.fromEntries(
    Object.entries({ 'X-Request-Id': 'Id of the request, your own where it is harmless.', ...headers }).map(
      ([name, description]) => [name, { description, schema: { type: 'string' } }],
    ),
  )

function replySchemas(operations: readonly Operation[]): Json {
  const named = operations.flatMap(({ reply: { name, schema, events = {} } }) => [
    ...(name && schema ? [[name, schema] as const] : []),
    ...Object.values(events).map(event => [event.name, event.schema] as const),
  ])
  return Object.fromEntries(named.map(([name, schema]) => [name, schemaOf(schema, 'output')]))
}

/**
 * A zod schema as JSON Schema, without what would only repeat the limits of a double or the form of a date. Examples
 * stay at parameters and at the members of a body; those of replies are shown once, beside the schema.
 */
function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    override: ({ zodSchema, jsonSchema, path }) => {
      if (io === 'output' || path.length > 2) delete jsonSchema.example
      if (zodSchema === amount) jsonSchema.type = 'integer'
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern
    },
  })
  return json
}
