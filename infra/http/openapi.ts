/**
 * The API's description, OpenAPI 3.1, made of the routes and their zod schemas.
 *
 * zod makes the JSON Schema; headers and errors follow from what a route is (key, body, tier). The document holds nothing that routes
 * do not declare, so it names no path, parameter or code that does not exist. Error answers are components, named after their codes.
 */
import { z } from 'zod'
import { alertTriggered } from '#schemas/api/alert-triggered.ts'
import { ERROR_STATUS, type ErrorCode, plainErrorReply, validationErrorReply, violation } from '#schemas/api/error.ts'
import { errorExample } from '#schemas/api/error-meanings.ts'
import { feedItem } from '#schemas/api/feed.ts'
import { ACCESS, type Delivered, GROUPS, type NamedSchema, type Operation } from '#schemas/api/operation.ts'
import { getQuery } from '#schemas/api/query-values.ts'
import { exampleOf } from '#schemas/api/reply-values.ts'
import { saleRecord } from '#schemas/api/sales.ts'
import { type NeededScope, scopeNeeded } from '#schemas/api/scopes.ts'

type Json = Record<string, unknown>

export const VERSION = '1.0.0'
/** Every path has it; the root alone answers as well. */
const ROOT = '/v1'

const HEADERS: Record<string, [type: 'string' | 'integer', description: string]> = {
  'X-Request-Id': ['string', 'Id of the request, your own where it is harmless.'],
  'RateLimit-Policy': ['string', 'Quotas of the key (`minute`, `month`): `"minute";q=300;w=60`, requests and seconds.'],
  RateLimit: [
    'string',
    'What is left of them: `"minute";r=299;t=60`, requests and seconds. Of a 429 that of the exceeded quota alone.',
  ],
  'X-RateLimit-Limit': ['integer', 'Requests that the key may send in a calendar month (UTC).'],
  'X-RateLimit-Remaining': ['integer', 'Requests left in the month.'],
  'X-RateLimit-Reset': ['integer', 'Unix time at which the month ends.'],
  'X-RateLimit-Tier': ['string', 'Tier of the key.'],
  'Retry-After': ['integer', 'Seconds to wait, at least 1.'],
  'WWW-Authenticate': ['string', 'Bearer'],
}
const RATE_FIELDS = ['RateLimit-Policy', 'RateLimit']
const RATE_HEADERS = [...RATE_FIELDS, ...Object.keys(HEADERS).filter(name => name.startsWith('X-RateLimit-'))]
/** Refusals that come before a key is known, or without its limits. */
const WITHOUT_LIMITS: readonly number[] = [400, 401, 408, 431, 503]

const ABOUT = `Market data of 41 marketplaces through one REST interface.

Send your key as \`Authorization: Bearer <API_KEY>\`. Amounts are integers in hundredths of the currency, times are ISO 8601 in UTC.
Checks are made in this order: key (401), account and tier (403), rate limit (429), parameters (422). Parameters that the operation
does not know are ignored, or with \`strict=true\` a 422; a known one in other letters or with \`[]\` behind it is a 422 in any case, and so is a single-valued
parameter that comes twice. On 429 and 409 wait as \`Retry-After\` says; on 503 try again with a growing delay.
Every path answers at the root as well as below \`/v1\`.`

/** `baseUrl` is the public root, without a trailing slash. */
export function openApiDocument(operations: readonly Operation[], { baseUrl }: { baseUrl: string }): Json {
  const paths: Record<string, Json> = {}
  for (const operation of operations) {
    const path = ROOT + operation.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [operation.method]: describe(operation) }
  }
  const codes = new Set(operations.flatMap(codesOf))
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: {
      title: 'marketlog',
      version: VERSION,
      description: ABOUT,
      contact: { name: 'marketlog', url: baseUrl },
      license: { name: 'Proprietary', url: `${baseUrl}/docs` },
    },
    servers: [{ url: baseUrl }],
    tags: [...new Set(operations.map(({ group }) => group))].map(name => ({ name, description: GROUPS[name] })),
    security: [{ apiKey: [] }],
    paths,
    webhooks: { [alertTriggered.event]: { post: describeDelivered(alertTriggered) } },
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: 'An API key, `sk_live_...`.' } },
      headers: mapped(HEADERS, ([type, description]) => ({ description, schema: { type } })),
      responses: Object.assign({}, ...operations.flatMap(errorsOf).map(({ name, response }) => ({ [name]: response }))),
      examples: Object.fromEntries([...codes].map(code => [code, { value: errorExample(code) }])),
      schemas: componentSchemas(operations),
    },
  }
}

const mapped = <V, W>(record: Record<string, V>, map: (value: V, name: string) => W): Record<string, W> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value, name)]))

const refTo = (kind: string, name: string | undefined): Json => ({ $ref: `#/components/${kind}/${name}` })

function describe(operation: Operation): Json {
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
      ...parametersOf('header', isCreate ? CREATE_HEADERS : undefined),
    ],
    ...requestOf(operation),
    responses: {
      ...successOf(operation),
      ...Object.fromEntries(errorsOf(operation).map(({ status, name }) => [status, refTo('responses', name)])),
    },
  }
}

function describeDelivered({ id, group, summary, description, headers, body, responses }: Delivered): Json {
  const parameters = parametersOf('header', headers)
  return {
    operationId: id,
    tags: [group],
    summary,
    description,
    security: [],
    parameters,
    requestBody: { required: true, content: jsonOf(body.name, { example: exampleOf(body.schema) }) },
    responses: mapped(responses, answered => ({ description: answered })),
  }
}

/** Asked of a child key with scopes. */
const scopeOf = (operation: Operation): NeededScope => {
  const { tiers, access } = operation
  if (tiers === undefined) return 'any'
  return access === 'management' || access === 'recent-session' ? 'none' : scopeNeeded(operation)
}

function parametersOf(place: 'path' | 'query' | 'header', schema: z.ZodObject | undefined): Json[] {
  if (!schema) return []
  const { properties = {}, required = [] } = inputSchema(schema) as { properties?: Json; required?: string[] }
  return Object.entries(properties).map(([name, one]) => {
    const { description, example, 'x-go-name': goName, ...own } = one as Json
    if (description === undefined) throw new Error(`the ${place} parameter ${name} has no description`)
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      description,
      example,
      ...(goName !== undefined && { 'x-go-name': goName }),
      ...(own.type === 'array' && { style: 'form', explode: true }),
      schema: own,
    }
  })
}

const CREATE_HEADERS = z.object({
  'Idempotency-Key': z.string().min(1).max(255).optional().meta({
    description:
      'Names this create: sent again within a day with the same key, it is answered as before and done once.',
    example: '3f2c9a1e-order-17',
  }),
})

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

function bodyOf(body: z.ZodObject, required: boolean): Json {
  const json = inputSchema(body) as { properties: Record<string, Json> }
  const example = mapped(json.properties, member => member.example)
  const properties = mapped(json.properties, ({ example: _, ...own }, name) => {
    if (own.description === undefined) throw new Error(`the body member ${name} has no description`)
    return own
  })
  return { required, content: { 'application/json': { schema: { ...json, properties }, example } } }
}

function successOf({ reply, tiers }: Operation): Json {
  const { status, description, name, isStream, headers, example, events } = reply
  const type = reply.type ?? (isStream ? 'application/x-ndjson' : 'application/json')
  const shown = events
    ? {
        examples: mapped(example as Json, value => ({ value })),
        'x-events': mapped(events, one => refTo('schemas', one.name)),
      }
    : { example }
  const success = {
    description,
    headers: headersOf(tiers && RATE_HEADERS, headers),
    ...(name !== undefined && { content: { [type]: { schema: refTo('schemas', name), ...shown } } }),
  }
  const unchanged = { description: 'The snapshot that If-None-Match names is the current one.', headers: headersOf() }
  return { [status]: success, ...(isStream && { 304: unchanged }) }
}

const jsonOf = (name: string, shown: Json): Json => ({
  'application/json': { schema: refTo('schemas', name), ...shown },
})

const headersOf = (shared: readonly string[] = [], own: Record<string, string> = {}): Json => ({
  ...Object.fromEntries(['X-Request-Id', ...shared].map(name => [name, refTo('headers', name)])),
  ...mapped(own, description => ({ description, schema: { type: 'string' } })),
})

/** All that an operation may refuse with: its own errors, and those of any of its kind. */
function codesOf(operation: Operation): ErrorCode[] {
  const { errors = [], tiers, access = 'key', params, isCreate } = operation
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

const ALL_CODES = Object.keys(ERROR_STATUS) as ErrorCode[]

function errorsOf(operation: Operation): { status: number; name: string; response: Json }[] {
  const own = codesOf(operation)
  const byStatus = Map.groupBy(
    ALL_CODES.filter(code => own.includes(code)),
    code => ERROR_STATUS[code],
  )
  return [...byStatus].map(([status, codes]) => {
    const { tiers, violations = VIOLATIONS } = operation
    const schema = status === ERROR_STATUS.VALIDATION_ERROR ? violations.name : ERROR
    const cause = schema === ERROR ? codes.map(wordsOf).join('Or') : schema.replace('Reply', '')
    const hasLimits = !WITHOUT_LIMITS.includes(status)
    const name = hasLimits && !tiers ? `${cause}WithoutKey` : cause
    const response = {
      description: codes.map(code => `\`${code}\``).join(', '),
      headers: headersOf([
        ...(hasLimits && tiers ? RATE_HEADERS : []),
        ...(status === 429 && !tiers ? RATE_FIELDS : []),
        ...([409, 429].includes(status) ? ['Retry-After'] : []),
        ...(status === 401 ? ['WWW-Authenticate'] : []),
      ]),
      content: jsonOf(schema, { examples: Object.fromEntries(codes.map(code => [code, refTo('examples', code)])) }),
    }
    return { status, name, response }
  })
}

/** A code as the name of a component: ItemNotFound. */
const wordsOf = (code: ErrorCode): string =>
  code.toLowerCase().replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())

const ERROR = 'ErrorReply'
const VIOLATIONS: NamedSchema = { name: 'ValidationErrorReply', schema: validationErrorReply }

/** All schemas with a name: replies by theirs, parts of replies by the id that they declare. Each refers to the others that it holds. */
function componentSchemas(operations: readonly Operation[]): Json {
  const named = z.registry<{ id: string }>()
  named.add(plainErrorReply, { id: ERROR })
  named.add(violation, { id: 'Violation' })
  // They have no id of their own, since messages of AsyncAPI hold them whole.
  named.add(feedItem, { id: 'FeedItem' })
  named.add(saleRecord, { id: 'Sale' })
  named.add(alertTriggered.body.schema, { id: alertTriggered.body.name })
  for (const { reply, violations = VIOLATIONS } of operations) {
    const { name, schema, events = {} } = reply
    const own = name && schema ? [{ name, schema }] : []
    for (const one of [...own, ...Object.values(events), violations]) named.add(one.schema, { id: one.name })
  }
  const { schemas } = z.toJSONSchema(named, {
    uri: id => refTo('schemas', id).$ref as string,
    override: trim('output'),
  })
  const text = JSON.stringify(schemas).replaceAll('/__shared#/$defs/', '/')
  const { __shared: shared, ...replies } = JSON.parse(text) as Record<string, Json & { $defs?: Record<string, Json> }>
  return mapped({ ...replies, ...shared?.$defs }, ({ $schema: _, $id: _id, id: _name, ...schema }) => schema)
}

function inputSchema(schema: z.ZodObject): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', override: trim('input') })
  return json
}

/**
 * Removes what would only repeat the limits of a double or the form of a date. Examples stay at parameters and at the members of a
 * body; those of replies are shown once, beside the schema.
 */
const trim =
  (io: 'input' | 'output'): z.core.ToJSONSchemaParams['override'] =>
  ({ jsonSchema, path }) => {
    if (io === 'output' || path.length > 2) delete jsonSchema.example
    if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
    if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
    if (jsonSchema.format !== undefined) delete jsonSchema.pattern
  }
