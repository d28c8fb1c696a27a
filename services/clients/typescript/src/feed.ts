/**
 * Live feeds that go on after any break, and replays.
 *
 * A live feed is connected, or waits to connect again. It ends when its reader stops, its signal aborts, or with an error that a further
 * connection cannot mend: a refusal (4xx but 408 and 429), or a FeedGapError. Events are read from the socket when the reader asks for
 * more, so a slow reader slows the platform, which cuts it at 16 MiB; the feed then resumes like after any other break.
 */
import { FeedGapError, MarketlogConnectionError, MarketlogError } from './errors.ts'
import { eventsOf } from './events.ts'
import { type Events, OPERATIONS, type Parameters } from './generated.ts'
import type { CallOptions } from './operation.ts'
import { backoffMs, pause, waitMs } from './retry.ts'
import type { Transport } from './transport.ts'

/** An event as a browser's EventSource dispatches it, its data parsed. */
export type FeedEvent<O extends keyof Events> = {
  [T in keyof Events[O]]: {
    type: T
    data: Events[O][T]
    /** Where a feed resumes after this event, as `last_event_id`; empty in a replay. */
    lastEventId: string
  }
}[keyof Events[O]]

export interface FeedOptions extends CallOptions {
  /** Called after each break, before the feed connects again; without an error where the platform ended the stream. */
  onBreak?: (error?: unknown) => void
}

type Live = 'streamPriceChanges' | 'streamBidChanges' | 'streamSales'
type Replay = 'replayPriceChanges' | 'replayBidChanges' | 'replaySales'

/** The parameters that the feed itself sets. */
type Managed = 'resume' | 'lastEventId' | 'token' | 'policy' | 'strict'

export type FeedParameters<O extends Live | Replay> = Omit<Parameters[O], Managed | 'speed'> &
  (O extends Replay ? { speed?: number | string } : unknown)

export type Feeds = ReturnType<typeof openFeeds>

export function openFeeds(transport: Transport) {
  const live =
    <O extends Live>(operation: O) =>
    (parameters: FeedParameters<O> = {} as FeedParameters<O>, options: FeedOptions = {}) =>
      follow(transport, operation, parameters, options)
  const replay =
    <O extends Replay>(operation: O) =>
    (parameters: FeedParameters<O>, options: CallOptions = {}) =>
      replayed(transport, operation, parameters, options)
  return {
    prices: live('streamPriceChanges'),
    bids: live('streamBidChanges'),
    sales: live('streamSales'),
    replayPrices: replay('replayPriceChanges'),
    replayBids: replay('replayBidChanges'),
    replaySales: replay('replaySales'),
  }
}

async function* follow<O extends Live>(
  transport: Transport,
  operation: O,
  parameters: FeedParameters<O>,
  options: FeedOptions,
): AsyncGenerator<FeedEvent<O>, void, void> {
  const { last_event_id = '', snapshot = false } = parameters as { last_event_id?: string; snapshot?: boolean }
  const connect = openConnections(transport, operation, parameters)
  let lastEventId = last_event_id
  let wasConnected = false
  /** In a row, without an event. */
  let failures = 0
  for (;;) {
    let retryMs: number | undefined
    let cause: unknown
    try {
      // Only the first connection gives up: later ones are tried until the feed ends.
      const chunks = await connect(lastEventId, wasConnected ? { ...options, retries: 0 } : options)
      wasConnected = true
      const noteRetry = (ms: number): void => {
        retryMs = ms
      }
      for await (const { event: type = 'message', data, id } of eventsOf(chunks, noteRetry)) {
        failures = 0
        if (type === 'resync' && !snapshot) throw new FeedGapError(JSON.parse(data).reason)
        // The id of `ready` is beyond a `resync` that follows it, which would be lost with the connection.
        if (id !== undefined && (type !== 'ready' || lastEventId === '')) lastEventId = id
        yield { type, data: JSON.parse(data), lastEventId } as FeedEvent<O>
      }
    } catch (error) {
      if (!wasConnected || !isTransient(error)) throw error
      cause = error
    }
    options.onBreak?.(cause)
    await pause(cause === undefined ? (retryMs ?? backoffMs(failures)) : waitMs(cause, failures), options.signal)
    failures += 1
  }
}

/** A replay has no positions: one that breaks off ends with a MarketlogConnectionError. */
async function* replayed<O extends Replay>(
  transport: Transport,
  operation: O,
  parameters: FeedParameters<O>,
  options: CallOptions,
): AsyncGenerator<FeedEvent<O>, void, void> {
  const chunks = await openConnections(transport, operation, parameters)('', options)
  for await (const { event: type, data } of eventsOf(chunks)) {
    yield { type, data: JSON.parse(data), lastEventId: '' } as FeedEvent<O>
    if (type === 'replay.end') return
  }
  throw new MarketlogConnectionError('the replay ended before its end')
}

/** Connects with the key, or with a token, which is asked for again where it is refused. */
function openConnections({ open, feedToken }: Transport, operation: Live | Replay, parameters: object) {
  const described = OPERATIONS[operation]
  let token: string | undefined
  return async (lastEventId: string, options: CallOptions): Promise<AsyncGenerator<string>> => {
    const position = lastEventId === '' ? {} : { last_event_id: lastEventId }
    const all = { ...parameters, ...(operation.startsWith('stream') && { resume: true, ...position }) }
    if (feedToken === undefined) return open(described, all, options)
    const openByToken = async () => {
      token ??= await feedToken()
      return open({ ...described, isPublic: true }, { ...all, token }, options)
    }
    const wasUsed = token !== undefined
    return openByToken().catch(error => {
      if (!wasUsed || !(error instanceof MarketlogError) || error.status !== 401) throw error
      token = undefined
      return openByToken()
    })
  }
}

/** Whether a further connection may do better. */
const isTransient = (error: unknown): boolean =>
  error instanceof MarketlogConnectionError ||
  (error instanceof MarketlogError && (error.status >= 500 || error.status === 408 || error.status === 429))
