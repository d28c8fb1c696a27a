/**
 * The subscribers of this process and all that happens to them between connect and close.
 *
 * Invariant: a subscriber is in the hub exactly as long as its stream is live, and its lease is released when the stream
 * ends, for whatever reason. A key that is refused, or whose tier has no feeds, ends its streams within RECHECK_MS plus
 * the key directory's own bound: together under a second. A batch yields to the sockets after every SLICE_BYTES, so a
 * burst does not make slow clients of fast ones.
 */
import type { IncomingMessage } from 'node:http'
import { setTimeout as delay, setImmediate as yieldToSockets } from 'node:timers/promises'
import type { Response } from 'express'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type DeliveryPolicy, openDeliveryPolicy } from './delivery-policy.ts'
import { type EventStream, type EventStreamOptions, openEventStream } from './event-stream.ts'
import type { FeedRequest, Subscription } from './feed-request.ts'
import type { FeedChange } from './feed-topics.ts'
import { type FrameItems, identifiedFrame, readyFrame } from './frames.ts'
import { type Delivery, type Hub, openHub } from './hub.ts'
import type { EventIds } from './log-position.ts'
import { FEED_NAMES, type FeedMetrics } from './metrics.ts'
import type { AssembledBatch } from './refresh-assembler.ts'
import { type FeedWindow, framesOf } from './window.ts'

/** Brings a stream to live, or through a replay to its end. */
export type StartStream = (subscriber: StartingSubscriber) => Promise<void>

export interface StartingSubscriber extends Subscription {
  stream: EventStream
  ready: Buffer
  isResuming: boolean
  /** Adds it to the hub: live from now on. */
  join(): void
  /** Aborts when its stream is over. */
  signal: AbortSignal
}

export interface AuthorizedStream {
  feed: FeedRequest
  keyId: string
  recheck(): KeyAnswer | Promise<KeyAnswer>
  /** Gives back what the request has acquired; once, however often it is called. */
  release(): void
  /** Aborts when another connection has taken its lease over. */
  replaced: AbortSignal
  requestId: string
  begin: StartStream
}

interface GatewayOptions extends FrameItems, Partial<EventStreamOptions> {
  mayListen(credential: Credential): boolean
  metrics: FeedMetrics
  log: Log
}

export type Gateway = ReturnType<typeof openGateway>

interface Subscriber extends Subscription {
  stream: EventStream
  policy: DeliveryPolicy
  authorized: AuthorizedStream
}

type EndReason = 'client' | 'too_slow' | 'key' | 'replaced' | 'stopping' | 'begin'

const CAP_BYTES = 16 * 2 ** 20
const END_LIMIT_MS = 5_000
const SLICE_BYTES = 2 ** 20
const RECHECK_MS = 100
const PING_AFTER_MS = 20_000
const PING_CHECK_MS = 500
const STOP_LIMIT_MS = 3_000
/** Clients that were disconnected together must not reconnect together. */
const RETRY_MS = { shortest: 500, longest: 5_000 }

const jitter = (): number => Math.round(RETRY_MS.shortest + Math.random() * (RETRY_MS.longest - RETRY_MS.shortest))

export function openGateway(options: GatewayOptions) {
  const { metrics, capBytes = CAP_BYTES, endLimitMs = END_LIMIT_MS, now = () => performance.now() } = options
  /** One for all streams, each of which keeps it. */
  const streamOptions = { itemOf: options.itemOf, itemText: options.itemText, capBytes, endLimitMs, now }
  const registry = openSubscriberRegistry(options)
  const { hub, subscribers, leave, dismiss } = registry
  const pingIdle = (): void => {
    for (const { stream } of subscribers) stream.pingIfIdle(PING_AFTER_MS)
  }
  const timers = [
    setInterval(openRecheck(registry, options.mayListen), RECHECK_MS),
    setInterval(pingIdle, PING_CHECK_MS),
  ]
  return {
    /** Opens the stream of a request that has passed every check; what it has acquired is released when the stream is over. */
    connect(request: IncomingMessage, response: Response, authorized: AuthorizedStream): void {
      const stream = openEventStream({ request, response }, streamOptions)
      if (!stream) {
        authorized.release()
        return
      }
      const { feed, replaced } = authorized
      const policy = openDeliveryPolicy(stream, feed, streamOptions)
      const subscriber = { ...feed.subscription, stream, policy, authorized }
      registry.add(subscriber)
      stream.onClose(() => leave(subscriber, 'client'))
      const replace = () => dismiss(subscriber, 'replaced', 'closed: another connection was opened with this token')
      if (replaced.aborted) replace()
      else replaced.addEventListener('abort', replace, { once: true })
      void start(subscriber, registry, options.log)
    },
    /** Puts a batch into the window of its topic and queues it for the subscribers whom it concerns; one batch of a topic at a time. */
    async deliver(batch: AssembledBatch, { window, ids }: { window: FeedWindow; ids: EventIds }): Promise<void> {
      let [queued, framed] = [0, 0]
      for (const { frame, changes } of framesOf(batch, options)) {
        framed += changes.length
        const id = lazily(() => ids.write(frame.after, frame.side))
        // In one turn: a stream that joins finds the frame in the window, or gets it from the hub.
        window.append(frame)
        for (const delivery of hub.deliver(frame)) {
          queued += queue(delivery, { id, changes, feed: FEED_NAMES[frame.side] }, registry, metrics)
          if (queued < SLICE_BYTES) continue
          queued = 0
          await yieldToSockets()
        }
      }
      metrics.unknownItems.inc(batch.changes.length - framed)
    },
    /** Ends all streams and the gateway's own timers; resolves when the connections are gone, or at a limit. */
    async stop(): Promise<void> {
      for (const timer of timers) clearInterval(timer)
      const ended = [...subscribers].map(({ stream }) => new Promise<void>(resolve => stream.onClose(resolve)))
      for (const subscriber of subscribers) dismiss(subscriber, 'stopping', 'closed: the server is stopping', jitter())
      await Promise.race([Promise.all(ended), delay(STOP_LIMIT_MS, undefined, { ref: false })])
    },
  }
}

type SubscriberRegistry = ReturnType<typeof openSubscriberRegistry>

/** The open streams: those that are live are in the hub. */
function openSubscriberRegistry({ itemOf, metrics, log }: Pick<GatewayOptions, 'itemOf' | 'metrics' | 'log'>) {
  const hub: Hub<Subscriber> = openHub(itemOf)
  const subscribers = new Set<Subscriber>()
  const note = ({ side, authorized }: Subscriber, words: string, reason?: EndReason): void =>
    log.info(
      { feed: FEED_NAMES[side], reason, key_id: authorized.keyId, request_id: authorized.requestId },
      `stream ${words}`,
    )
  const leave = (subscriber: Subscriber, reason: EndReason): void => {
    if (!subscribers.delete(subscriber)) return
    hub.remove(subscriber)
    subscriber.authorized.release()
    const feed = FEED_NAMES[subscriber.side]
    metrics.connections.dec({ feed })
    metrics.ended.inc({ feed, reason })
    note(subscriber, 'ended', reason)
  }
  return {
    hub,
    subscribers,
    leave,
    add(subscriber: Subscriber): void {
      subscribers.add(subscriber)
      metrics.connections.inc({ feed: FEED_NAMES[subscriber.side] })
      note(subscriber, 'opened')
    },
    dismiss(subscriber: Subscriber, reason: EndReason, words: string, retryMs?: number): void {
      leave(subscriber, reason)
      subscriber.stream.end(words, retryMs)
    },
  }
}

async function start(
  subscriber: Subscriber,
  { hub, subscribers, dismiss }: SubscriberRegistry,
  log: Log,
): Promise<void> {
  const { stream, authorized, ...subscription } = subscriber
  const { feed, begin, requestId } = authorized
  const ending = new AbortController()
  stream.onClose(() => ending.abort())
  const join = () => {
    if (subscribers.has(subscriber)) hub.add(subscriber)
  }
  const ready = readyFrame(feed)
  const starting = { ...subscription, stream, ready, isResuming: feed.options.resume, join, signal: ending.signal }
  await begin(starting).catch(error => {
    if (!subscribers.has(subscriber)) return
    log.warn({ err: error, request_id: requestId }, 'a stream could not be begun')
    dismiss(subscriber, 'begin', 'closed: this stream cannot be begun at the moment; try again', jitter())
  })
}

/** Queues an event for the subscribers whom it concerns; returns the bytes queued. */
function queue(
  { bytes, to, indexes }: Delivery<Subscriber>,
  { id, changes, feed }: { id: () => string; changes: readonly FeedChange[]; feed: string },
  { leave }: Pick<SubscriberRegistry, 'leave'>,
  metrics: FeedMetrics,
): number {
  const own = lazily(() => (indexes ? indexes.map(at => changes[at] as FeedChange) : changes))
  const event = { bytes, identified: lazily(() => identifiedFrame(bytes, id())), changes: own }
  let events = 0
  for (const subscriber of to) {
    const outcome = subscriber.policy(event)
    if (outcome === 'queued') events += 1
    else if (outcome === 'too_slow') leave(subscriber, 'too_slow')
  }
  metrics.events.inc({ feed }, events)
  metrics.bytes.inc({ feed }, events * bytes.length)
  return events * bytes.length
}

function lazily<T>(compute: () => T): () => T {
  let value: { is: T } | undefined
  return () => {
    value ??= { is: compute() }
    return value.is
  }
}

/** One pass over the keys of all open streams; a pass that is still under way is not joined by another. */
function openRecheck({ subscribers, dismiss }: SubscriberRegistry, mayListen: GatewayOptions['mayListen']) {
  const apply = (subscriber: Subscriber, answer: KeyAnswer): void => {
    if (answer.accepted && mayListen(answer.credential)) return
    dismiss(subscriber, 'key', 'closed: this API key may no longer use the feeds')
  }
  let pending: Promise<void>[] = []
  return () => {
    if (pending.length > 0) return
    for (const subscriber of subscribers) {
      // Most keys are known at once; a promise for each of thousands, ten times a second, would cost more than all else.
      const answer = subscriber.authorized.recheck()
      if (answer instanceof Promise) pending.push(answer.then(late => apply(subscriber, late)))
      else apply(subscriber, answer)
    }
    // While Postgres is away it is unknown whether a key was revoked: accepted streams stay open.
    void Promise.allSettled(pending).then(() => {
      pending = []
    })
  }
}
