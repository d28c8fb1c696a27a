/**
 * The form of every error answer: the codes, their HTTP status, and the body.
 *
 * The one table that maps a code to a status; services throw codes and never statuses. Rules:
 * DECISIONS.md, "Errors". Invariant: `detail` is a text, except for VALIDATION_ERROR, where it
 * lists the violations of the request, the first of many.
 */
import { z } from 'zod'

export const ERROR_STATUS = {
  BAD_REQUEST: 400,
  CURSOR_NOT_SUPPORTED: 400,
  AUTH_INVALID_API_KEY: 401,
  AUTH_API_KEY_REVOKED: 401,
  AUTH_INVALID_SESSION: 401,
  ALERT_LIMIT_REACHED: 402,
  AUTH_ACCOUNT_DISABLED: 403,
  FORBIDDEN_TIER: 403,
  FORBIDDEN_CHILD_KEY: 403,
  FORBIDDEN_SCOPE: 403,
  RECENT_SESSION_REQUIRED: 403,
  EMAIL_NOT_VERIFIED: 403,
  SIGN_IN_REFUSED: 403,
  FORBIDDEN: 403,
  NO_DELIVERY_CHANNEL: 403,
  PLATFORM_ACCOUNT_NOT_LINKED: 403,
  NOT_FOUND: 404,
  ITEM_NOT_FOUND: 404,
  KEY_NOT_FOUND: 404,
  WEBHOOK_NOT_FOUND: 404,
  DELIVERY_NOT_FOUND: 404,
  ALERT_NOT_FOUND: 404,
  SIGN_IN_NOT_CONFIGURED: 404,
  PORTFOLIO_NOT_FOUND: 404,
  PORTFOLIO_ENTRY_NOT_FOUND: 404,
  TRANSACTION_NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  STREAM_ALREADY_ACTIVE: 409,
  CHILD_KEY_LIMIT_REACHED: 409,
  WEBHOOK_LIMIT_REACHED: 409,
  WEBHOOK_PAUSED: 409,
  PORTFOLIO_LIMIT_REACHED: 409,
  PORTFOLIO_ITEM_LIMIT_REACHED: 409,
  INSUFFICIENT_HOLDINGS: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  EXPECTATION_FAILED: 417,
  VALIDATION_ERROR: 422,
  RATE_LIMIT_EXCEEDED: 429,
  RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED: 429,
  RATE_LIMIT_STREAM_QUOTA_EXCEEDED: 429,
  RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED: 429,
  REQUEST_HEADERS_TOO_LARGE: 431,
  INTERNAL_ERROR: 500,
  UPSTREAM_ERROR: 502,
  PRICES_INDEX_UNAVAILABLE: 503,
  BIDS_INDEX_UNAVAILABLE: 503,
  SERVICE_UNAVAILABLE: 503,
} as const

/** A stable, machine-readable error code. */
export type ErrorCode = keyof typeof ERROR_STATUS

const VIOLATION_TYPES = [
  'missing',
  'enum',
  'int_parsing',
  'float_parsing',
  'bool_parsing',
  'string_type',
  'string_too_short',
  'string_too_long',
  'too_short',
  'too_long',
  'greater_than',
  'greater_than_equal',
  'less_than',
  'less_than_equal',
  'uuid_parsing',
  'date_from_datetime_parsing',
  'datetime_parsing',
  'url_parsing',
  'extra_forbidden',
  'value_error',
] as const

export type ViolationType = (typeof VIOLATION_TYPES)[number]

/** One thing that is wrong with a request. */
export const violation = z.strictObject({
  type: z.enum(VIOLATION_TYPES),
  loc: z
    .array(z.union([z.string(), z.int().min(0)]))
    .describe('Where: `["query", "limit"]`, `["body", "items", 0, "quantity"]`.'),
  msg: z.string(),
  input: z.unknown().describe('What was sent there, or the beginning of its text; null when nothing was.'),
  ctx: z.record(z.string(), z.unknown()).describe('The bound or the allowed values, where there are any.'),
})

/** One thing that is wrong with a request. */
export type Violation = z.infer<typeof violation>

const codes = Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]

export const plainErrorReply = z.strictObject({ code: z.enum(codes).exclude(['VALIDATION_ERROR']), detail: z.string() })

export const validationErrorReply = z.strictObject({
  code: z.literal('VALIDATION_ERROR'),
  detail: z.array(violation).min(1),
  omitted: z
    .int()
    .min(1)
    .optional()
    .describe('Violations beside those of `detail`, where there are more than it lists.'),
})

export const errorReply = z.union([plainErrorReply, validationErrorReply])

export type ErrorReply = z.infer<typeof errorReply>
