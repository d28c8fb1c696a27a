/**
 * The subscribers of this process and all that happens to them between connect and close.
 *
 * Invariant: a subscriber is in the hub exactly as long as its stream is open, and its lease is released when the stream
 * ends, for whatever reason. A key that is refused, or whose tier has no feeds, ends its streams within RECHECK_MS plus
 * the key directory's own bound: together under a second. A batch yields to the sockets after every SLICE_BYTES, so a
 * burst does not make slow clients of fast ones.
 */
import type { IncomingMessage } from 'node:http'
import { setImmediate as yieldToSockets } from 'node:timers/promises'
import type { Response } from 'express'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import type { StreamLease } from '#infra/redis/stream-leases.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import {
  conflatingPolicy,
  type DeliveryPolicy,
  openPendingBuffer,
  plainPolicy,
  resumablePolicy,
} from './delivery-policy.ts'
import { type EventStream, openEventStream } from './event-stream.ts'
import { type EndReason, FEED_NAMES, type FeedMetrics } from './feed-metrics.ts'
import type { FeedRequest } from './feed-query.ts'
import { type ItemText, identifiedFrame, openItemText, readyFrame } from './frames.ts'
import { type ChangeBatch, type FrameDelivery, framesOfRows, type Hub, openHub, type Subscription } from './hub.ts'
import { encodePosition, ofSide } from './log-position.ts'
import type { AssembledBatch } from './refresh-assembler.ts'
import type { Begin } from './stream-start.ts'

/** A request that has passed every check. */
export interface AdmittedRequest {
  feed: FeedRequest
  /** What `ready` lists. */
  providers: readonly string[]
  keyId: string
  /** Judges the key of the request again. */
  recheck(): KeyAnswer | Promise<KeyAnswer>
  lease: StreamLease
  requestId: string
  /** What comes before the live stream, where anything does. */
  begin?: Begin | undefined
}

/** What the gateway needs. */
export interface GatewayOptions {
  itemOf(itemId: number): CatalogItem | undefined
  /** Shared by all that make frames of the same catalog; its own when left out. */
  itemText?: ItemText
  mayListen(credential: Credential): boolean
  metrics: FeedMetrics
  log: Log
  /** Of the ids of a feed. */
  scopeOf(subscription: Subscription): string
  /** Most unread bytes of one subscriber. */
  capBytes?: number
  /** How long a client may take to read what is queued when its stream ends. */
  endLimitMs?: number
  /** Idle time after which a ping is sent. */
  pingAfterMs?: number
  /** Monotonic clock in milliseconds. */
  now?: () => number
}

/** The subscribers of this process. */
export interface Gateway {
  /** Opens the stream of a request that has passed every check; its lease is released when the stream is over. */
  connect(request: IncomingMessage, response: Response, admitted: AdmittedRequest): void
  /** Queues a batch for the subscribers whom it concerns; one batch at a time. */
  deliver(batch: DeliverableBatch): Promise<void>
  /** Ends all streams and the gateway's own timers; resolves when the connections are gone, or at a limit. */
  stop(): Promise<void>
}

/** A batch, with the positions that it leads to where a subscriber resumes. */
type DeliverableBatch = ChangeBatch & Partial<Pick<AssembledBatch, 'positionAfter'>>

/** What is kept of a stream and of its request. */
interface Subscriber extends Subscription {
  stream: EventStream
  policy: DeliveryPolicy
  isResuming: boolean
  keyId: string
  recheck: AdmittedRequest['recheck']
  lease: StreamLease
  requestId: string
}

const CAP_BYTES = 16 * 2 ** 20
const END_LIMIT_MS = 5_000
const SLICE_BYTES = 2 ** 20
const RECHECK_MS = 100
const PING_AFTER_MS = 20_000
const PING_CHECK_MS = 500
const STOP_LIMIT_MS = 3_000
/** Clients that were disconnected together must not reconnect together. */
const RETRY_MS = { shortest: 500, longest: 5_000 }

/** Opens a gateway without subscribers. */
export function openGateway(options: GatewayOptions): Gateway {
  const { metrics, log, itemOf, itemText = openItemText(), capBytes = CAP_BYTES } = options
  const { pingAfterMs = PING_AFTER_MS, endLimitMs = END_LIMIT_MS, now = () => performance.now() } = options
  const hub = openHub<Subscriber>(itemOf, itemText)
  const subscribers = openSubscriberRegistry()
  const streams = { capBytes, endLimitMs, now }

  const leave = (subscriber: Subscriber, reason: EndReason): void => {
    if (!subscribers.remove(subscriber)) return
    hub.remove(subscriber)
    const { lease, keyId, requestId } = subscriber
    lease.release()
    const feed = FEED_NAMES[subscriber.side]
    metrics.connections.dec({ feed })
    metrics.ended.inc({ feed, reason })
    log.info({ feed, reason, key_id: keyId, request_id: requestId }, 'stream ended')
  }
  const dismiss = (subscriber: Subscriber, reason: EndReason, words: string, retryMs?: number): void => {
    leave(subscriber, reason)
    subscriber.stream.end(words, retryMs)
  }
  const recheckKeys = openRecheck(subscribers.byKey, options, subscriber =>
    dismiss(subscriber, 'key', 'closed: this API key may no longer use the feeds'),
  )
  const timers = [
    setInterval(() => void recheckKeys(), RECHECK_MS),
    setInterval(() => pingIdle(subscribers.all, pingAfterMs), Math.min(PING_CHECK_MS, pingAfterMs)),
  ]
  /** Queues an event for the subscribers whom it concerns; returns the bytes queued. */
  const queue = ({ frame, to, changes }: FrameDelivery<Subscriber>, identified: Buffer | undefined, feed: string) => {
    let events = 0
    const event = { frame, identified, changes }
    for (const subscriber of to) {
      const outcome = subscriber.policy.deliver(event)
      if (outcome === 'queued') events += 1
      else if (outcome === 'too_slow') leave(subscriber, 'too_slow')
    }
    countQueued(metrics, feed, { events, items: events * changes.length, bytes: events * frame.length })
    return events * frame.length
  }
  return {
    connect(request, response, admitted) {
      const { requestId, lease, keyId, begin } = admitted
      const stream = openEventStream({ request, response }, streams)
      if (!stream) return lease.release()
      const subscriber = openSubscriber(stream, admitted, { itemOf, itemText, capBytes })
      subscribers.add(subscriber)
      void bring(subscriber, readyOf(admitted), begin, { hub, subscribers, capBytes, log, leave, dismiss })
      const feed = FEED_NAMES[subscriber.side]
      metrics.connections.inc({ feed })
      log.info({ feed, key_id: keyId, request_id: requestId }, 'stream opened')
      stream.onClose(() => leave(subscriber, 'client'))
    },
    async deliver(batch) {
      let queued = 0
      const identify = openIdentify(batch, options)
      for (const delivery of hub.deliver(batch)) {
        queued += queue(delivery, identify(delivery), FEED_NAMES[batch.side])
        if (queued < SLICE_BYTES) continue
        queued = 0
        await yieldToSockets()
      }
      metrics.unknownItems.set(hub.unknownItems())
    },
    async stop() {
      for (const timer of timers) clearInterval(timer)
      await atMost(STOP_LIMIT_MS, dismissAll(subscribers, dismiss))
    },
  }
}

/** Ends all streams, each client with a time of its own to reconnect; resolves when the connections are gone. */
function dismissAll(subscribers: SubscriberRegistry, dismiss: Bringing['dismiss']): Promise<unknown> {
  const ended = [...subscribers.all].map(({ stream }) => new Promise<void>(resolve => stream.onClose(resolve)))
  for (const subscriber of [...subscribers.all])
    dismiss(subscriber, 'stopping', 'closed: the server is stopping', jitter())
  return Promise.all(ended)
}

/** The subscribers whose streams are open, and the same by key. */
interface SubscriberRegistry {
  readonly all: ReadonlySet<Subscriber>
  readonly byKey: ReadonlyMap<string, ReadonlySet<Subscriber>>
  add(subscriber: Subscriber): void
  /** False when it is not in it. */
  remove(subscriber: Subscriber): boolean
}

function openSubscriberRegistry(): SubscriberRegistry {
  const all = new Set<Subscriber>()
  const byKey = new Map<string, Set<Subscriber>>()
  return {
    all,
    byKey,
    add(subscriber) {
      all.add(subscriber)
      const own = byKey.get(subscriber.keyId)
      if (own) own.add(subscriber)
      else byKey.set(subscriber.keyId, new Set([subscriber]))
    },
    remove(subscriber) {
      const own = byKey.get(subscriber.keyId)
      own?.delete(subscriber)
      if (own?.size === 0) byKey.delete(subscriber.keyId)
      return all.delete(subscriber)
    },
  }
}

const jitter = (): number => Math.round(RETRY_MS.shortest + Math.random() * (RETRY_MS.longest - RETRY_MS.shortest))

const readyOf = ({ feed, providers }: AdmittedRequest): Buffer =>
  readyFrame({ providers, itemIds: feed.itemIdsCount, names: feed.namesCount })

/** What is kept of an admitted request while its stream is open. */
function openSubscriber(
  stream: EventStream,
  { feed, keyId, recheck, lease, requestId }: AdmittedRequest,
  { itemOf, itemText, capBytes }: Required<Pick<GatewayOptions, 'itemOf' | 'itemText' | 'capBytes'>>,
): Subscriber {
  const { side } = feed.subscription
  const policy = feed.options.conflate
    ? conflatingPolicy(stream, { capBytes, framesOf: changes => framesOfRows(side, changes, itemOf, itemText) })
    : feed.options.resume
      ? resumablePolicy(stream)
      : plainPolicy(stream)
  return { ...feed.subscription, stream, policy, isResuming: feed.options.resume, keyId, recheck, lease, requestId }
}

function pingIdle(subscribers: ReadonlySet<Subscriber>, idleMs: number): void {
  for (const { stream } of subscribers) stream.pingIfIdle(idleMs)
}

/** What is needed to bring a subscriber to the live stream. */
interface Bringing {
  hub: Hub<Subscriber>
  subscribers: SubscriberRegistry
  capBytes: number
  log: Log
  leave(subscriber: Subscriber, reason: EndReason): void
  dismiss(subscriber: Subscriber, reason: EndReason, words: string, retryMs?: number): void
}

/** Brings a subscriber to the live stream, at once or by its own start, with `ready` first. */
async function bring(
  subscriber: Subscriber,
  ready: Buffer,
  begin: Begin | undefined,
  { hub, subscribers, capBytes, log, leave, dismiss }: Bringing,
): Promise<void> {
  const { stream } = subscriber
  if (!begin) {
    stream.send(ready)
    return hub.add(subscriber)
  }
  const ending = new AbortController()
  stream.onClose(() => ending.abort())
  const pending = openPendingBuffer(stream, subscriber.policy, capBytes)
  subscriber.policy = pending
  const goLive = () => {
    if (pending.flush() === 'too_slow') leave(subscriber, 'too_slow')
  }
  const join = () => {
    if (subscribers.all.has(subscriber)) hub.add(subscriber)
  }
  await begin({ stream, ready, subscription: subscriber, signal: ending.signal, join, goLive }).catch(error => {
    if (!subscribers.all.has(subscriber)) return
    log.warn({ err: error, request_id: subscriber.requestId }, 'a stream could not be begun')
    dismiss(subscriber, 'begin', 'closed: this stream cannot be begun at the moment; try again', jitter())
  })
}

/** The events of a batch with their ids, each made once, for those who resume. */
function openIdentify(batch: DeliverableBatch, { scopeOf }: Pick<GatewayOptions, 'scopeOf'>) {
  const ids = new Map<number, string>()
  return ({ frame, to, through }: FrameDelivery<Subscriber>): Buffer | undefined => {
    const resuming = batch.positionAfter && to.find(({ isResuming }) => isResuming)
    if (!batch.positionAfter || !resuming) return undefined
    const id = ids.get(through) ?? encodePosition(ofSide(batch.positionAfter(through), batch.side), scopeOf(resuming))
    ids.set(through, id)
    return identifiedFrame(frame, id)
  }
}

function countQueued(
  metrics: FeedMetrics,
  feed: string,
  queued: { events: number; items: number; bytes: number },
): void {
  metrics.events.inc({ feed }, queued.events)
  metrics.items.inc({ feed }, queued.items)
  metrics.bytes.inc({ feed }, queued.bytes)
}

/** One pass over the keys of all open streams; a pass that is still under way is not joined by another. */
function openRecheck(
  byKey: SubscriberRegistry['byKey'],
  { mayListen, log }: GatewayOptions,
  dismiss: (subscriber: Subscriber) => void,
): () => Promise<void> {
  let isUnderWay = false
  let isAnswered = true
  const judge = (own: ReadonlySet<Subscriber>, answer: KeyAnswer): void => {
    if (answer.accepted && mayListen(answer.credential)) return
    for (const subscriber of [...own]) dismiss(subscriber)
  }
  /** Most keys are known at once; a promise for each of thousands, ten times a second, would cost more than all else. */
  const recheck = (own: ReadonlySet<Subscriber>, asked: Promise<void>[]): void => {
    const [first] = own
    const answer = first?.recheck()
    if (answer instanceof Promise) asked.push(answer.then(judged => judge(own, judged)))
    else if (answer) judge(own, answer)
  }
  return async () => {
    if (isUnderWay) return
    isUnderWay = true
    const asked: Promise<void>[] = []
    for (const own of byKey.values()) {
      try {
        recheck(own, asked)
      } catch (error) {
        asked.push(Promise.reject(error))
      }
    }
    const outcomes = await Promise.allSettled(asked)
    // While Postgres is away it is unknown whether a key was revoked: accepted streams stay open.
    const lost = outcomes.find(outcome => outcome.status === 'rejected')
    if (lost && isAnswered) log.warn({ err: lost.reason }, 'the keys of open streams cannot be checked')
    isAnswered = lost === undefined
    isUnderWay = false
  }
}

/** Waits for work, but no longer than the limit. */
async function atMost(limitMs: number, work: Promise<unknown>): Promise<void> {
  const { promise: limit, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, limitMs)
  await Promise.race([work, limit])
  clearTimeout(timer)
}
