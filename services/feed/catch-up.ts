/**
 * Brings streams from the position of their clients to the live stream, by readings of the log that many streams share.
 *
 * States of a stream: waiting (for a reading) -> reading (receives what it lacks, with all whose positions are similar) -> live;
 * or draining, because its client reads slower than most of that reading, then waiting again, among the slow. Invariant: at every
 * change of state a stream has received exactly what lies before its position; it joins the live stream between two live batches,
 * and live events are buffered for it while its last round is delivered up to exactly that point. Readings, streams and waits are
 * bounded: a reading ends after its time slice when others wait, no stream waits beyond WAIT_LIMIT_MS, and a reading without
 * streams ends.
 */

import { setTimeout as delay, setImmediate as yieldToSockets } from 'node:timers/promises'
import { isOutOfRange } from '#infra/kafka/range-reader.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { ChangeReader } from './change-reader.ts'
import type { EventStream } from './event-stream.ts'
import type { FeedMetrics } from './feed-metrics.ts'
import { type ItemText, identifiedFrame } from './frames.ts'
import type { Subscription } from './hub.ts'
import type { LogHistory } from './log-history.ts'
import { covers, distance, encodePosition, intersectionOf, type LogPosition, ofSide } from './log-position.ts'
import { type GroupDelivery, openReadingGroup, type ReadingGroup } from './reading-group.ts'

/** A stream that is to be brought to the live stream. */
interface Latecomer {
  stream: Pick<EventStream, 'send' | 'waiting' | 'drained'>
  subscription: Subscription
  /** Adds it to the live stream, whose events are buffered for it. */
  join(): void
  /** Delivers what is buffered for it; live from now on. */
  goLive(): void
  /** Aborts when its stream is over. */
  signal: AbortSignal
  /** Of the ids of its events; undefined where they have none. */
  scope: string | undefined
}

/** Brings streams to the live one. */
export interface CatchUps {
  /** Resolves when the stream is live, or when the log no longer holds what it lacks; else rejects, as when the stream is over. */
  bring(latecomer: Latecomer, from: LogPosition): Promise<'live' | 'expired'>
  close(): void
}

/** What catching up needs. */
export interface CatchUpOptions {
  live: Pick<ChangeReader, 'between'>
  history: Pick<LogHistory, 'judge' | 'forget' | 'read'>
  itemOf(itemId: number): CatalogItem | undefined
  /** Shared by all that make frames of the same catalog; its own when left out. */
  itemText?: ItemText
  metrics: Pick<FeedMetrics, 'readings'>
}

interface Member extends Subscription, Omit<Latecomer, 'subscription'> {
  /** Its position, while it is in no reading. */
  at: LogPosition
  /** How often it was slower than most. */
  level: number
  reading: Reading | undefined
  waitsSince: number
  failures: number
  done: PromiseWithResolvers<'live' | 'expired'>
}

interface Reading {
  side: Side
  level: number
  group: ReadingGroup<Member>
  members: Set<Member>
  at: LogPosition
  /** Where its round ends. */
  to: LogPosition
  startedAt: number
  checkedAt: number
  /** Its members have joined the live stream: no other can be admitted, and none is removed for being slow. */
  isLast: boolean
  ending: AbortController
}

const READINGS_MAX = 4
/** Clients of a gateway that ended reconnect within a moment: the first of them waits for some more. */
const GATHER_MS = 20
/** Of the records that two lack: in one reading the nearer one waits for what the farther one lacks. */
const SIMILAR = 4
const TIME_SLICE_MS = 5_000
const WAIT_LIMIT_MS = 60_000
const SWEEP_EVERY_MS = 1_000
const CHECK_EVERY_MS = 20
/** Records that a stream may lack when it joins. */
const NEAR = 5_000
const ROUNDS_MAX = 100
const COVER_LIMIT_MS = 10_000
const FAILURES_MAX = 3
const SLICE_BYTES = 2 ** 20
/** A reading waits for a stream from the high mark of unread bytes on, and until the low one. */
const HIGH_WATER_BYTES = 256 * 1024
const LOW_WATER_BYTES = 64 * 1024
const DRAIN_POLL_MS = 5
/** A stream that is slower than the fastest quarter by this much is removed: three times its time and a moment. */
const SLOWER = { times: 3, moreMs: 100 }
const LEVEL_MAX = 4

/** Opens it without streams. */
export function openCatchUps(options: CatchUpOptions): CatchUps {
  const waiting = new Set<Member>()
  const readings = new Set<Reading>()
  const context: Context = { ...options, waiting, wait }
  let freeReadings = READINGS_MAX
  let gathering: NodeJS.Timeout | undefined
  const sweeping = setInterval(() => {
    for (const member of waiting) {
      if (performance.now() - member.waitsSince > WAIT_LIMIT_MS) fail(member, new Error('no reading began in time'))
    }
  }, SWEEP_EVERY_MS)
  sweeping.unref()

  function wait(member: Member): void {
    if (member.signal.aborted) return
    member.waitsSince = performance.now()
    waiting.add(member)
    schedule()
  }
  function schedule(): void {
    if (gathering || freeReadings === 0 || waiting.size === 0) return
    gathering = setTimeout(() => {
      gathering = undefined
      freeReadings -= 1
      void work().finally(() => {
        freeReadings += 1
        schedule()
      })
      schedule()
    }, GATHER_MS)
  }
  async function work(): Promise<void> {
    const asked = [...waiting]
    const reading = await form(context).catch(error => {
      for (const member of asked) if (waiting.has(member)) fail(member, error)
    })
    if (!reading) return
    readings.add(reading)
    options.metrics.readings.inc()
    await follow(context, reading).catch(error => recover(context, reading, error))
    readings.delete(reading)
  }
  function fail(member: Member, error: unknown): void {
    waiting.delete(member)
    member.done.reject(error)
  }
  return {
    async bring({ subscription, ...latecomer }, from) {
      const member = memberOf(subscription, latecomer, from)
      const abort = () => {
        waiting.delete(member)
        if (member.reading) removeMember(member.reading, member)
        member.done.reject(member.signal.reason)
      }
      if (member.signal.aborted) abort()
      else member.signal.addEventListener('abort', abort, { once: true })
      wait(member)
      // A live stream must not keep its catch-up in memory.
      return await member.done.promise.finally(() => member.signal.removeEventListener('abort', abort))
    },
    close() {
      clearInterval(sweeping)
      clearTimeout(gathering)
      const error = new Error('the feed is stopping')
      for (const reading of readings) reading.ending.abort(error)
      for (const member of [...waiting]) fail(member, error)
    },
  }
}

function memberOf(subscription: Subscription, latecomer: Omit<Latecomer, 'subscription'>, at: LogPosition): Member {
  const { side, providers, itemIds, names, isFiltered } = subscription
  return {
    ...latecomer,
    side,
    providers,
    itemIds,
    names,
    isFiltered,
    at,
    level: 0,
    reading: undefined,
    waitsSince: 0,
    failures: 0,
    done: Promise.withResolvers(),
  }
}

interface Context extends CatchUpOptions {
  waiting: Set<Member>
  /** Lets a member wait for a reading. */
  wait(member: Member): void
}

/** A reading for the stream that waits longest and those like it; undefined when none can be read for yet. */
async function form(context: Context): Promise<Reading | undefined> {
  const { waiting, history, live } = context
  const judged = [...waiting].map(async member => ({ member, verdict: await history.judge(member.at) }))
  for (const { member, verdict } of await Promise.all(judged)) {
    if (verdict !== 'kept' && waiting.delete(member)) member.done.resolve('expired')
  }
  const now = await live.between(position => position)
  const toOf = (side: Side) => ofSide(now, side)
  for (const leader of waiting) {
    const { side, level, at } = leader
    const to = toOf(side)
    // A client that was at another gateway may be a moment ahead of this one.
    if (!covers(to, at)) {
      if (performance.now() - leader.waitsSince < COVER_LIMIT_MS) continue
      waiting.delete(leader)
      leader.done.reject(new Error('the live stream does not reach the position to resume from'))
      continue
    }
    const far = distance(at, to)
    const isLike = (one: Member): boolean =>
      one.side === side && one.level === level && covers(to, one.at) && isSimilar(distance(one.at, to), far)
    return startReading(context, [...waiting].filter(isLike), to)
  }
  return undefined
}

const isSimilar = (one: number, other: number): boolean =>
  Math.max(one, other, NEAR) <= SIMILAR * Math.max(Math.min(one, other), NEAR)

function startReading(context: Context, members: readonly Member[], to: LogPosition): Reading {
  const { side, level } = members[0] as Member
  const now = performance.now()
  const reading: Reading = {
    side,
    level,
    to,
    group: openReadingGroup<Member>(side, context.itemOf, context.itemText),
    members: new Set(),
    at: members.map(({ at }) => at).reduce(intersectionOf),
    startedAt: now,
    checkedAt: now,
    isLast: false,
    ending: new AbortController(),
  }
  for (const member of members) addMember(context, reading, member)
  return reading
}

function addMember({ waiting }: Context, reading: Reading, member: Member): void {
  waiting.delete(member)
  member.reading = reading
  reading.members.add(member)
  reading.group.add(member, member.at, reading.at)
}

function removeMember(reading: Reading, member: Member): void {
  member.reading = undefined
  reading.group.remove(member)
  reading.members.delete(member)
  if (reading.members.size === 0) reading.ending.abort()
}

/** Reads until its members are live or removed. */
async function follow(context: Context, reading: Reading): Promise<void> {
  for (let round = 0; ; round++) {
    if (!(await deliverRound(context, reading))) return
    await context.live.between(position => {
      const to = ofSide(position, reading.side)
      reading.to = to
      const lag = to.next.reduce((sum, offset, at) => sum + Math.max(0, offset - (reading.at.next[at] ?? 0)), 0)
      reading.isLast = lag <= NEAR || round >= ROUNDS_MAX
      if (reading.isLast) for (const member of reading.members) member.join()
    })
    if (!reading.isLast) continue
    if (!(await deliverRound(context, reading))) return
    for (const member of [...reading.members]) {
      member.goLive()
      member.done.resolve('live')
      member.reading = undefined
    }
    return
  }
}

/** Delivers what lies between a reading's position and the end of its round; false when no member is left. */
async function deliverRound(context: Context, reading: Reading): Promise<boolean> {
  const { group, members, ending, to } = reading
  let unsent = 0
  for await (const batch of context.history.read(reading.at, to, ending.signal)) {
    let hasSent = false
    for (const delivery of group.deliver(batch)) {
      hasSent = true
      const full = send(reading, delivery)
      unsent += delivery.frame.length * delivery.to.length
      if (unsent >= SLICE_BYTES || full.length > 0) {
        unsent = 0
        await yieldToSockets()
        if (!reading.isLast) await untilRead(context, reading, full)
      }
    }
    if (members.size === 0) return false
    const now = performance.now()
    const isCheckDue = now - reading.checkedAt >= CHECK_EVERY_MS
    // A position behind the last frame of any member would deliver that frame again.
    if (!hasSent && !isCheckDue && !group.isMixed()) continue
    reading.at = batch.positionAfter(batch.changes.length)
    group.advance(reading.at)
    if (!isCheckDue || reading.isLast) continue
    reading.checkedAt = now
    admitWaiting(context, reading)
    if (context.waiting.size > 0 && now - reading.startedAt > TIME_SLICE_MS) {
      for (const member of [...members]) requeue(context, reading, member)
      return false
    }
  }
  reading.at = to
  group.advance(to)
  return members.size > 0
}

/** Admits the waiting streams whose positions the reading has not reached yet. */
function admitWaiting(context: Context, reading: Reading): void {
  const { side, level, at, to } = reading
  const far = distance(at, to)
  for (const member of context.waiting) {
    if (member.side !== side || member.level !== level || !covers(member.at, at) || !covers(to, member.at)) continue
    if (isSimilar(distance(member.at, to), far)) addMember(context, reading, member)
  }
}

function requeue(context: Context, reading: Reading, member: Member): void {
  member.at = reading.group.positionOf(member, reading.at)
  removeMember(reading, member)
  context.wait(member)
}

/** Sends a frame; returns the members above the high mark now, with their positions noted. */
function send(reading: Reading, { frame, to, position }: GroupDelivery<Member>): Member[] {
  const full: Member[] = []
  const frames = new Map<string | undefined, Buffer>([[undefined, frame]])
  const identified = (scope: string | undefined): Buffer => {
    const id = () => encodePosition(ofSide(position(), reading.side), scope ?? '')
    const made = frames.get(scope) ?? identifiedFrame(frame, id())
    frames.set(scope, made)
    return made
  }
  for (const member of to) {
    // Removed while its batch was delivered.
    if (member.reading !== reading) continue
    member.stream.send(identified(member.scope))
    if (reading.isLast || member.stream.waiting() < HIGH_WATER_BYTES) continue
    member.at = position()
    full.push(member)
  }
  return full
}

/** Waits until the members have read, but for the slow ones no longer than in proportion to the others. */
async function untilRead(context: Context, reading: Reading, full: readonly Member[]): Promise<void> {
  const { members, ending } = reading
  const startedAt = performance.now()
  let pending = full
  let quarterMs: number | undefined
  for (;;) {
    pending = pending.filter(one => one.reading === reading && one.stream.waiting() > LOW_WATER_BYTES)
    if (pending.length === 0) return
    const elapsed = performance.now() - startedAt
    if ((members.size - pending.length) * 4 >= members.size) quarterMs ??= elapsed
    const isOver = quarterMs !== undefined && elapsed > quarterMs * SLOWER.times + SLOWER.moreMs
    if (elapsed > TIME_SLICE_MS || (isOver && reading.level < LEVEL_MAX)) break
    await delay(DRAIN_POLL_MS, undefined, { signal: ending.signal })
  }
  for (const member of pending) {
    removeMember(reading, member)
    member.level = Math.min(member.level + 1, LEVEL_MAX)
    // A client that reads nothing is ended by its stream.
    void member.stream.drained().then(isOpen => isOpen && context.wait(member))
  }
}

/** After a failed reading: its members wait for another one where the log has moved on, else their clients reconnect. */
function recover(context: Context, reading: Reading, error: unknown): void {
  const { members, isLast } = reading
  if (isOutOfRange(error)) context.history.forget()
  for (const member of [...members]) {
    member.failures += 1
    if (isOutOfRange(error) && !isLast && member.failures <= FAILURES_MAX) requeue(context, reading, member)
    else {
      removeMember(reading, member)
      member.done.reject(error)
    }
  }
}
