/**
 * What one operation of the API is: what it takes, who may call it, what it answers and refuses.
 *
 * Routes are declared with these words (infra/http/define-route.ts). Request and reply schemas are those that routes parse with and
 * that tests hold answers against.
 */
import type { z } from 'zod'
import type { ErrorCode } from './error.ts'

/** All tiers; the others leave out the lower ones. */
export const ALL = ['free', 'starter', 'pro', 'quant'] as const

/** Starter and above. */
export const STARTER = ALL.slice(1)

/** Pro and above. */
export const PRO = ALL.slice(2)

/** Quant alone. */
export const QUANT = ALL.slice(3)

/**
 * Which credential an operation takes: `key` any API key, counted in the month; `account` the same or a session,
 * exempt from the month; `management` a root key or a session, exempt from the month; `recent-session` a session that was opened
 * within ten minutes, no key, exempt from the month; `stream` any API key or a feed token, `uncounted` any API key, both exempt
 * from the month.
 */
export type Access = 'key' | 'account' | 'management' | 'recent-session' | 'stream' | 'uncounted'

/** One operation. */
export interface Operation {
  id: string
  method: 'get' | 'post' | 'patch' | 'delete'
  /** With `:name` for parameters, without the version. */
  path: string
  group: string
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
  /** Whether the body may be left out. */
  isBodyOptional?: boolean
  /** Instead of a JSON body: the field of a form that carries a file. */
  upload?: { field: string; description: string }
  /** Whether it creates something, and so takes an Idempotency-Key. */
  isCreate?: boolean
  /** What a 422 holds beside code and detail. */
  violationMembers?: z.ZodObject
  reply: Reply
  /** Refusals beside those that every operation of its kind has. */
  errors: readonly ErrorCode[]
}

/** What an operation answers when all is well. */
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
  /** Of a stream of events: the schema of each event's data by the event's name. */
  events?: Record<string, { name: string; schema: z.ZodType }>
  headers?: Record<string, string>
  example?: unknown
}

/** A JSON answer; its example is that of its schema. */
export const json = <V>(
  name: string,
  schema: z.ZodType<V>,
  description: string,
  status: 200 | 201 = 200,
): Reply<V> => ({ status, name, schema, description, example: schema.meta()?.example })
