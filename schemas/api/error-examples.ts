/** What is answered with each code, for one cause of it: `detail` as it is sent. */
import type { ErrorCode, ErrorReply } from './error.ts'

const DETAILS: Record<Exclude<ErrorCode, 'VALIDATION_ERROR'>, string> = {
  BAD_REQUEST: 'The URL holds percent-encoding that cannot be decoded.',
  CURSOR_NOT_SUPPORTED: 'Arbitrage is paged by offset; leave cursor out.',
  AUTH_INVALID_API_KEY: 'Send your API key as `Authorization: Bearer <API_KEY>`.',
  AUTH_API_KEY_REVOKED: 'This API key was revoked; use the key that replaced it.',
  AUTH_INVALID_SESSION: 'This refresh token is not valid, was used, or has expired; sign in again.',
  ALERT_LIMIT_REACHED: 'This tier has 10 enabled alerts at most; 10 are enabled. Disable or delete some first.',
  AUTH_ACCOUNT_DISABLED: 'The account of this API key is disabled.',
  FORBIDDEN_TIER: 'This route is for the tier pro and above.',
  FORBIDDEN_CHILD_KEY: 'A child key manages no keys; use the root key or a session.',
  FORBIDDEN_SCOPE: 'This route needs the scope alerts; this key has market:read alone.',
  RECENT_SESSION_REQUIRED:
    'This takes the session of a sign-in within the last ten minutes; sign in again at GET /account/login.',
  EMAIL_NOT_VERIFIED: 'Enabled alerts need a verified e-mail address; see POST /account/email.',
  SIGN_IN_REFUSED:
    'This sign-in was not begun in this browser, was used, or took too long; begin again at GET /account/login.',
  FORBIDDEN: 'This inventory is private; its owner can make it public.',
  NO_DELIVERY_CHANNEL:
    'Enabled alerts need a verified e-mail address with alert e-mails on, or (quant) an active webhook.',
  PLATFORM_ACCOUNT_NOT_LINKED: 'Link an account of the platform to this account first.',
  NOT_FOUND: 'There is no such provider.',
  ITEM_NOT_FOUND: 'No catalog item has this name; the nearest is "AK-47 | Redline (Field-Tested)".',
  KEY_NOT_FOUND: 'This account has no active key with this id.',
  WEBHOOK_NOT_FOUND: 'This account has no webhook with this id.',
  DELIVERY_NOT_FOUND: 'This account has no delivery with this id.',
  ALERT_NOT_FOUND: 'This account has no alert with this id.',
  SIGN_IN_NOT_CONFIGURED: 'This sign-in is not configured here; set MARKETLOG_PLATFORM_OPENID_URL.',
  PORTFOLIO_NOT_FOUND: 'This account has no portfolio with this id.',
  PORTFOLIO_ENTRY_NOT_FOUND: 'This portfolio has no entry with this id; it is not the item_id.',
  TRANSACTION_NOT_FOUND: 'This portfolio has no transaction with this id.',
  METHOD_NOT_ALLOWED: 'This path answers GET, HEAD, not POST.',
  REQUEST_TIMEOUT: 'The request did not arrive in time.',
  STREAM_ALREADY_ACTIVE: 'A stream of this key runs already; let it end first.',
  CHILD_KEY_LIMIT_REACHED: 'A root key has 25 child keys at most; delete one first.',
  WEBHOOK_LIMIT_REACHED: 'An account has 20 webhooks at most; delete one first.',
  WEBHOOK_PAUSED: 'The webhook is paused; set is_active to true first.',
  PORTFOLIO_LIMIT_REACHED: 'Your tier allows 20 portfolios; delete one first.',
  PORTFOLIO_ITEM_LIMIT_REACHED: 'A portfolio of your tier holds 1000 items at most.',
  INSUFFICIENT_HOLDINGS:
    'On 2026-03-01 the ledger would have sold 2 more than it held; record what was bought by then first.',
  PAYLOAD_TOO_LARGE: 'The body may hold 262144 bytes at most.',
  UNSUPPORTED_MEDIA_TYPE: 'Send the body as `Content-Type: application/json`.',
  EXPECTATION_FAILED: 'Of Expect only 100-continue is known; leave it out.',
  RATE_LIMIT_EXCEEDED: 'This key may send 300 requests a minute; wait as Retry-After says.',
  RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED: 'The 1000000 requests of the month of this key are used up.',
  RATE_LIMIT_STREAM_QUOTA_EXCEEDED: 'This key has started its 300 streams of 24 hours; wait as Retry-After says.',
  RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED: 'This key holds its 2 feed connections already; close one and try again.',
  REQUEST_HEADERS_TOO_LARGE: 'The request line and headers may hold 16 kB at most.',
  INTERNAL_ERROR: 'Something went wrong on our side; the request id helps us find it.',
  UPSTREAM_ERROR: 'The platform does not answer at the moment; try again later.',
  PRICES_INDEX_UNAVAILABLE: 'The live price index is temporarily unavailable.',
  BIDS_INDEX_UNAVAILABLE: 'The live bids index is temporarily unavailable.',
  SERVICE_UNAVAILABLE: 'Requests cannot be counted at the moment; try again with a growing delay.',
}

/** An answer with a code. */
export const errorExample = (code: ErrorCode): ErrorReply =>
  code === 'VALIDATION_ERROR'
    ? {
        code,
        detail: [
          {
            type: 'less_than_equal',
            loc: ['query', 'limit'],
            msg: 'Input should be less than or equal to 1000',
            input: '5000',
            ctx: { le: 1000 },
          },
        ],
      }
    : { code, detail: DETAILS[code] }
