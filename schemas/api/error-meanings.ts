/** The meaning of each code to a client: its cause, what to do, and `detail` as it is sent for one cause of it. */
import type { ErrorCode, ErrorReply } from './error.ts'

/** Sentences of Markdown; a code between backticks is linked by the guides. */
interface ErrorMeaning {
  cause: string
  remedy: string
  /** VALIDATION_ERROR lists violations instead. */
  detail: string
}

export const ERROR_MEANINGS: Readonly<Record<ErrorCode, ErrorMeaning>> = {
  BAD_REQUEST: {
    cause: 'The URL, the JSON or the form cannot be decoded.',
    remedy: 'Encode the query by a library, and send JSON that parses, in UTF-8.',
    detail: 'The URL holds percent-encoding that cannot be decoded.',
  },
  CURSOR_NOT_SUPPORTED: {
    cause: 'Arbitrage was asked with a `cursor`.',
    remedy: 'Page it by `offset`.',
    detail: 'Arbitrage is paged by offset; leave cursor out.',
  },
  AUTH_INVALID_API_KEY: {
    cause: 'There is no key, or it is none that this platform issued, or it has expired.',
    remedy: 'Send `Authorization: Bearer sk_live_…`. Do not try again with the same key.',
    detail: 'Send your API key as `Authorization: Bearer <API_KEY>`.',
  },
  AUTH_API_KEY_REVOKED: {
    cause: 'The key was revoked, or its root key was reissued.',
    remedy: 'Use the key that replaced it.',
    detail: 'This API key was revoked; use the key that replaced it.',
  },
  AUTH_INVALID_SESSION: {
    cause: 'The session has ended, or its refresh token was used before.',
    remedy: 'Sign in again.',
    detail: 'This refresh token is not valid, was used, or has expired; sign in again.',
  },
  ALERT_LIMIT_REACHED: {
    cause: 'The account has as many alerts, or enabled alerts, as its tier allows.',
    remedy: 'Disable or delete some, or change the tier.',
    detail: 'This tier has 10 enabled alerts at most; 10 are enabled. Disable or delete some first.',
  },
  AUTH_ACCOUNT_DISABLED: {
    cause: 'The account of the key is disabled.',
    remedy: 'Ask the operator.',
    detail: 'The account of this API key is disabled.',
  },
  FORBIDDEN_TIER: {
    cause: 'The operation, or an option of it, is for a higher tier.',
    remedy: 'The reference lists the tiers of each operation.',
    detail: 'This route is for the tier pro and above.',
  },
  FORBIDDEN_CHILD_KEY: {
    cause: 'A child key asked for what belongs to the root key.',
    remedy: 'Use the root key or a session.',
    detail: 'A child key manages no keys; use the root key or a session.',
  },
  FORBIDDEN_SCOPE: {
    cause: 'The child key has scopes, and the operation needs another one.',
    remedy: 'Use a key that has the scope, or add it to this one.',
    detail: 'This route needs the scope alerts; this key has market:read alone.',
  },
  RECENT_SESSION_REQUIRED: {
    cause: 'The operation takes a session whose sign-in is less than ten minutes old, and no key.',
    remedy: 'Sign in again, then repeat the request.',
    detail: 'This takes the session of a sign-in within the last ten minutes; sign in again at GET /account/login.',
  },
  EMAIL_NOT_VERIFIED: {
    cause: 'The e-mail address of the account is not verified.',
    remedy: 'Open the link of the verification mail, or ask for another one by `POST /account/email`.',
    detail: 'Enabled alerts need a verified e-mail address; see POST /account/email.',
  },
  SIGN_IN_REFUSED: {
    cause: 'A sign-in was used before, took more than ten minutes, or ended in another browser.',
    remedy: 'Begin again at `GET /account/login`.',
    detail:
      'This sign-in was not begun in this browser, was used, or took too long; begin again at GET /account/login.',
  },
  FORBIDDEN: {
    cause: 'The inventory is private.',
    remedy: 'Its owner can make it public on the platform of the game.',
    detail: 'This inventory is private; its owner can make it public.',
  },
  NO_DELIVERY_CHANNEL: {
    cause: 'An alert was enabled that could reach nobody.',
    remedy: 'Turn on mails for alerts, or (quant) create an active webhook.',
    detail: 'Enabled alerts need a verified e-mail address with alert e-mails on, or (quant) an active webhook.',
  },
  PLATFORM_ACCOUNT_NOT_LINKED: {
    cause: 'The account is linked to none of the platform of the game.',
    remedy: 'Link one by `POST /account/platform`, or name an inventory by `gamestore_id`.',
    detail: 'Link an account of the platform to this account first.',
  },
  NOT_FOUND: {
    cause: 'The path, the provider or the record does not exist.',
    remedy: 'Check the path. It is not tried again.',
    detail: 'There is no such provider.',
  },
  ITEM_NOT_FOUND: {
    cause: 'No item of the catalog has this name or id.',
    remedy: '`detail` names the nearest one; `GET /items` searches.',
    detail: 'No catalog item has this name; the nearest is "AK-47 | Redline (Field-Tested)".',
  },
  KEY_NOT_FOUND: {
    cause: 'The account has no active child key with this id.',
    remedy: 'List them by `GET /account/sub-keys`.',
    detail: 'This account has no active key with this id.',
  },
  WEBHOOK_NOT_FOUND: {
    cause: 'The account has no webhook with this id.',
    remedy: 'List them by `GET /account/webhooks`.',
    detail: 'This account has no webhook with this id.',
  },
  DELIVERY_NOT_FOUND: {
    cause: 'The account has no delivery with this id, or it is older than 90 days.',
    remedy: 'List them by `GET /account/webhooks/deliveries`.',
    detail: 'This account has no delivery with this id.',
  },
  ALERT_NOT_FOUND: {
    cause: 'The account has no alert with this id.',
    remedy: 'List them by `GET /account/alerts`.',
    detail: 'This account has no alert with this id.',
  },
  SIGN_IN_NOT_CONFIGURED: {
    cause: 'This platform has no provider for this sign-in.',
    remedy: 'Ask the operator for a key.',
    detail: 'This sign-in is not configured here; set MARKETLOG_PLATFORM_OPENID_URL.',
  },
  PORTFOLIO_NOT_FOUND: {
    cause: 'The account has no portfolio with this id.',
    remedy: 'List them by `GET /portfolio`.',
    detail: 'This account has no portfolio with this id.',
  },
  PORTFOLIO_ENTRY_NOT_FOUND: {
    cause: 'The portfolio has no entry with this id.',
    remedy: 'Send the `id` of an entry, not its `item_id`.',
    detail: 'This portfolio has no entry with this id; it is not the item_id.',
  },
  TRANSACTION_NOT_FOUND: {
    cause: 'The portfolio has no transaction with this id.',
    remedy: 'List its ledger.',
    detail: 'This portfolio has no transaction with this id.',
  },
  METHOD_NOT_ALLOWED: {
    cause: 'The path exists, but not with this method.',
    remedy: '`Allow` lists the methods.',
    detail: 'This path answers GET, HEAD, not POST.',
  },
  REQUEST_TIMEOUT: {
    cause: 'The request came too slowly.',
    remedy: 'Send it again; compress or split what is large.',
    detail: 'The request did not arrive in time.',
  },
  STREAM_ALREADY_ACTIVE: {
    cause: 'The key reads a bulk stream of this side already.',
    remedy: 'Let it end, then wait as `Retry-After` says.',
    detail: 'A stream of this key runs already; let it end first.',
  },
  CHILD_KEY_LIMIT_REACHED: {
    cause: 'The root key has as many child keys as its tier allows.',
    remedy: 'Delete one first.',
    detail: 'A root key has 25 child keys at most; delete one first.',
  },
  WEBHOOK_LIMIT_REACHED: {
    cause: 'The account has as many webhooks as its tier allows.',
    remedy: 'Delete one first.',
    detail: 'An account has 20 webhooks at most; delete one first.',
  },
  WEBHOOK_PAUSED: {
    cause: 'A test or a redelivery was asked of a paused webhook.',
    remedy: 'Set `is_active` to true first.',
    detail: 'The webhook is paused; set is_active to true first.',
  },
  PORTFOLIO_LIMIT_REACHED: {
    cause: 'The account has as many portfolios as its tier allows.',
    remedy: 'Delete one first.',
    detail: 'Your tier allows 20 portfolios; delete one first.',
  },
  PORTFOLIO_ITEM_LIMIT_REACHED: {
    cause: 'The portfolio would hold more items, or the account more transactions, than the tier allows.',
    remedy: 'Use another portfolio, or change the tier. Nothing of the request was stored.',
    detail: 'A portfolio of your tier holds 1000 items at most.',
  },
  INSUFFICIENT_HOLDINGS: {
    cause: 'After this write a day of the ledger would end with fewer than zero units.',
    remedy: 'Record what was bought by that day first.',
    detail: 'On 2026-03-01 the ledger would have sold 2 more than it held; record what was bought by then first.',
  },
  PAYLOAD_TOO_LARGE: {
    cause: 'The body is larger than it may be, or unpacks to too much.',
    remedy: 'Split it; a batch takes 100 items.',
    detail: 'The body may hold 262144 bytes at most.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    cause: 'The body has another content type, or another charset than UTF-8.',
    remedy: 'Send `Content-Type: application/json`; a file goes as `multipart/form-data`.',
    detail: 'Send the body as `Content-Type: application/json`.',
  },
  EXPECTATION_FAILED: {
    cause: '`Expect` asked for something else than `100-continue`.',
    remedy: 'Leave the header out.',
    detail: 'Of Expect only 100-continue is known; leave it out.',
  },
  VALIDATION_ERROR: {
    cause: 'A parameter or a member of the body is missing, unknown, or out of its bounds.',
    remedy: '`detail` lists every violation: `loc` is where, `msg` why, `ctx` the bound.',
    detail: '',
  },
  RATE_LIMIT_EXCEEDED: {
    cause: 'The minute of the key, the account or the address is used up. `RateLimit` names the limit.',
    remedy: 'Wait as `Retry-After` says. A refused request uses nothing up.',
    detail: 'This key may send 300 requests a minute; wait as Retry-After says.',
  },
  RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED: {
    cause: 'The requests of the calendar month are used up.',
    remedy: 'Wait for the month to end (UTC), or change the tier. A feed asks once.',
    detail: 'The 1000000 requests of the month of this key are used up.',
  },
  RATE_LIMIT_STREAM_QUOTA_EXCEEDED: {
    cause: 'The key has started as many bulk streams in 24 hours as its tier allows.',
    remedy: 'Send `If-None-Match`: a 304 is no start. Else wait as `Retry-After` says.',
    detail: 'This key has started its 300 streams of 24 hours; wait as Retry-After says.',
  },
  RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED: {
    cause: 'The key holds all of its feed connections, or the account a replay.',
    remedy: 'Close one. A connection that was lost is free again within 12 seconds.',
    detail: 'This key holds its 2 feed connections already; close one and try again.',
  },
  REQUEST_HEADERS_TOO_LARGE: {
    cause: 'The request line and the headers are larger than 16 kB.',
    remedy: 'Ask for fewer items at once, or send a batch as a body.',
    detail: 'The request line and headers may hold 16 kB at most.',
  },
  INTERNAL_ERROR: {
    cause: 'A bug of the platform.',
    remedy: 'Report the `X-Request-Id` of the answer.',
    detail: 'Something went wrong on our side; the request id helps us find it.',
  },
  UPSTREAM_ERROR: {
    cause: 'The platform of the game does not answer.',
    remedy: 'Try again with a growing delay.',
    detail: 'The platform does not answer at the moment; try again later.',
  },
  PRICES_INDEX_UNAVAILABLE: {
    cause: 'The table of asks is incomplete, so an answer could be wrong.',
    remedy: 'Try again with a growing delay. An empty list would mean that there are none.',
    detail: 'The live price index is temporarily unavailable.',
  },
  BIDS_INDEX_UNAVAILABLE: {
    cause: 'The table of buy orders is incomplete, so an answer could be wrong.',
    remedy: 'Try again with a growing delay.',
    detail: 'The live bids index is temporarily unavailable.',
  },
  SERVICE_UNAVAILABLE: {
    cause: 'A server that the operation needs is away, or too many ask for it at once.',
    remedy: 'Wait as `Retry-After` says; without it, try again with a growing delay.',
    detail: 'Requests cannot be counted at the moment; try again with a growing delay.',
  },
}

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
    : { code, detail: ERROR_MEANINGS[code].detail }
