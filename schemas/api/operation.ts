/**
 * An operation of the API: its parameters, who may call it, its answers and refusals.
 *
 * Routes are declared with these words (infra/http/define-route.ts). Request and reply schemas are those that routes parse with and
 * that tests hold answers against.
 */
import type { z } from 'zod'
import type { ErrorCode } from './error.ts'
import { exampleOf } from './reply-values.ts'

/** All tiers; the others leave out the lower ones. */
export const ALL = ['free', 'starter', 'pro', 'quant'] as const

export const STARTER = ALL.slice(1)

export const PRO = ALL.slice(2)

export const QUANT = ALL.slice(3)

/** Which credential an operation takes, and whether it counts. */
export const ACCESS = {
  key: 'Counts against the monthly quota.',
  account: 'Takes an API key or a session; exempt from the monthly quota.',
  management: 'Takes the root key or a session, no child key; exempt from the monthly quota.',
  'recent-session':
    'Takes a session that was opened within the last ten minutes, no key; exempt from the monthly quota.',
  stream: 'Takes an API key, or a feed token as `token`; exempt from the monthly quota.',
  uncounted: 'Takes an API key; exempt from the monthly quota.',
} as const

export type Access = keyof typeof ACCESS

export const GROUPS = {
  Prices: 'The lowest ask of each item at each provider: now, in candles, and change by change.',
  Bids: 'The highest buy order of each item at each provider.',
  Sales: 'Completed sales with what is known of the item sold.',
  Catalog: 'Items, images, providers and exchange rates: what the answers of the other groups refer to.',
  'Market analytics':
    'Figures of the market as a whole and of single items: arbitrage, indexes, indicators, charts, movers.',
  'Account keys': 'The root key of an account and its child keys.',
  Webhooks: 'Destinations of an account, what was delivered to them, and what they are sent.',
  Alerts: 'Rules on the price or spread of an item, and what they have triggered.',
  Portfolio: 'Holdings with their ledger, value and performance, by hand, from files or from an inventory.',
  Inventory: 'Items that an account of the platform holds at the moment.',
  'Sign-in': 'The account itself: sign-in, sessions, e-mail address, linked platform, export and deletion.',
  Feeds: 'Changes as Server-Sent Events, live or recorded.',
} as const

export type Group = keyof typeof GROUPS

export interface Operation {
  id: string
  method: 'get' | 'post' | 'patch' | 'delete'
  /** With `:name` for parameters, without the version. */
  path: string
  group: Group
  summary: string
  description: string
  /** Tiers that may call it; undefined where no key is needed. */
  tiers: readonly string[] | undefined
  /** `key` by default. */
  access?: Access
  /** `any`: open to child keys whatever their scopes; else the group decides (scopes.ts). */
  scope?: 'any'
  params?: z.ZodObject
  query?: z.ZodObject
  body?: z.ZodObject
  isBodyOptional?: boolean
  /** Instead of a JSON body: the field of a form that carries a file. */
  upload?: { field: string; description: string }
  /** Whether it creates something, and so takes an Idempotency-Key. */
  isCreate?: boolean
  /** Its 422, where that holds more than code and detail. */
  violations?: NamedSchema
  reply: Reply
  /** Refusals beside those that every operation of its kind has. */
  errors?: readonly ErrorCode[]
}

/** Where the page of the reference shows an operation, as Scalar names its parts. */
export const referenceAnchor = ({ group, method, path }: Pick<Operation, 'group' | 'method' | 'path'>): string => {
  const tag = group.toLowerCase().replaceAll(/[^a-z]+/g, '-')
  return `tag/${tag}/${method.toUpperCase()}/v1${path.replaceAll(/:(\w+)/g, '{$1}')}`
}

/** A schema and its name among those of the document. */
export interface NamedSchema {
  name: string
  schema: z.ZodType
}

/** A request that is sent to a webhook destination. */
export interface Delivered extends Pick<Operation, 'id' | 'group' | 'summary' | 'description'> {
  event: string
  headers: z.ZodObject
  body: NamedSchema
  responses: Record<string, string>
}

export interface Reply<V = unknown> {
  status: 200 | 201 | 204 | 302
  description: string
  /** Name among the document's schemas. */
  name?: string
  schema?: z.ZodType<V>
  /** Media type; JSON by default. */
  type?: string
  /** Lines of NDJSON instead of one JSON text. */
  isStream?: boolean
  /** Of a stream of events: the schema of each event's data by the event's name; the example has the same members. */
  events?: Record<string, NamedSchema>
  headers?: Record<string, string>
  example?: unknown
}

/** A JSON answer; its example is that of its schema. */
export const json = <V>(
  name: string,
  schema: z.ZodType<V>,
  description: string,
  status: 200 | 201 = 200,
): Reply<V> => ({ status, name, schema, description, example: exampleOf(schema) })
