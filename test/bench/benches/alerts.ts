/**
 * A million enabled alerts over 30,000 items at 5,000 changes of prices a second: latency, memory, cost of a change.
 *
 * Latency: from the log's taking a change to its taking the trigger that it caused, by the log's own clock, sampled by rules that fire.
 * Cost: CPU of the role's process for a change out of a backlog. A provider of its own is the cheapest of every item, so each of its moves
 * moves the item's best ask, the dearest kind. Invariant: a rule that is not a canary never holds; a canary holds by the one change that was
 * made for it.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import { type AlertRuleChanged, alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { ITEM_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import type { AlertKind } from '#schemas/values/alert.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { bookChangeRecord, changed } from '#test/harness/published-records.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { entryOf, percentile, requireOffered, requireSome } from '../entry.ts'
import { openGate } from '../gate.ts'
import type { Stage } from '../stage.ts'

const ROLE = 'alert-triggers'
const CHANGES_PER_SECOND = 5_000
const TICK_MS = 20
const SECONDS = 20
const WARM_UP_SECONDS = 3
const BACKLOG_ROUNDS = 4
const TURNS = 3
const LIMIT_MS = 240_000

const CANARY_MICRO = 150

const PROVIDER = 'alerts_bench'
const RULES_PER_SEND = 20_000
const EPOCH = Date.UTC(2026, 2, 1)
/** Below the market's cheapest asks, above the lower thresholds. */
const MICRO = { resting: 200, step: 10 }
const CANARY_USD = '0.00018'

/** By turns; nothing costs as much as the upper thresholds or as little as the lower ones. */
const SHAPES: readonly [kind: AlertKind, value: string, currency: string | null][] = [
  ['price_below', '0.0001', 'USD'],
  ['price_above', '100000', 'USD'],
  ['price_below', '0.0001', 'EUR'],
  ['price_above', '900000', 'CNY'],
  ['spread_exceeds', '99.9', null],
]

export const alerts: Bench = {
  name: 'alerts',
  ownStage: true,
  about: 'a million alerts at 5,000 changes a second: latency, memory, and cost of a change by number of rules',
  async run(context) {
    const stage = await context.stage()
    await stage.stop('book')
    const sizes = context.isQuick ? [1_000, 100_000] : [10_000, 1_000_000]
    const bench = await openAlertBench(stage)
    const costs: number[][] = []
    let known = 0
    for (const size of sizes) {
      context.say(`publishing rules up to ${size.toLocaleString('en')}`)
      await bench.rules(known, size)
      known = size
      await restartTriggers(stage)
      context.say(`changes with ${size.toLocaleString('en')} rules`)
      costs.push(await costsOf(context, stage, bench))
    }
    context.say(`${CHANGES_PER_SECOND} changes a second with ${known.toLocaleString('en')} rules`)
    const { latenciesMs, mostMib } = await latencies(context, stage, bench)
    const [few = [], many = []] = costs
    const [least, most] = sizes.map(size => size.toLocaleString('en'))
    const turns = many.map((value, turn) => ({ value, against: few[turn] ?? Number.NaN }))
    return [
      entryOf(`alerts: changes with ${most} rules, against ${least}`, 'changes/CPU s', turns),
      entryOf('alerts: change to trigger p99', 's', percentile(latenciesMs, 0.99) / 1_000),
      entryOf(`alerts: most memory with ${most} rules`, 'MiB', mostMib),
    ]
  },
}

/** Starts the role again, so that all of its rules come the way that they come after a restart. */
async function restartTriggers(stage: Stage): Promise<void> {
  await stage.stop(ROLE)
  const role = await stage.role(ROLE)
  await role.ready(LIMIT_MS)
  await stage.caughtUp([ROLE], LIMIT_MS)
}

/** Changes for a second of CPU, in turns over a backlog of every item's changes. */
async function costsOf(context: BenchContext, stage: Stage, bench: AlertBench): Promise<number[]> {
  const role = await stage.role(ROLE)
  const items = stage.market.itemIds
  const gate = await openGate(stage.kafka, 'bookChanges')
  const none: ReadonlySet<number> = new Set()
  const turns: number[] = []
  try {
    for (let turn = 0; turn < (context.isQuick ? 1 : TURNS) + 1; turn++) {
      context.signal.throwIfAborted()
      await gate.hold()
      for (let round = 0; round < BACKLOG_ROUNDS; round++) await bench.changes(items, round, none)
      const ends = await stage.ends('bookChanges')
      const before = await role.figures()
      await gate.release()
      await stage.reached(ROLE, 'bookChanges', ends, LIMIT_MS)
      const { cpuSeconds } = await role.figures()
      // The first turn warms up.
      if (turn > 0) turns.push((items.length * BACKLOG_ROUNDS) / (cpuSeconds - before.cpuSeconds))
    }
  } finally {
    await gate.close()
  }
  context.log.info({ turns }, 'changes for a second of CPU')
  return turns
}

/** Moves prices at the set pace; one item of each tick fires its canary. */
async function latencies(
  context: BenchContext,
  stage: Stage,
  bench: AlertBench,
): Promise<{ latenciesMs: number[]; mostMib: number }> {
  const role = await stage.role(ROLE)
  const items = stage.market.itemIds
  const perTick = (CHANGES_PER_SECOND * TICK_MS) / 1_000
  const seconds = WARM_UP_SECONDS + (context.isQuick ? 5 : SECONDS)
  const ticks = (seconds * 1_000) / TICK_MS
  const at = (tick: number, each: number): number => items[(tick * perTick + each) % items.length] ?? 0
  // When all items have passed, the ones after the last round's are taken.
  const roundOf = (tick: number): number => Math.floor((tick * perTick) / items.length)
  const canaryOf = (tick: number): number => at(tick, roundOf(tick) % perTick)
  const canaries = [...new Set(Array.from({ length: ticks }, (_, tick) => canaryOf(tick)))]
  await bench.canaries(canaries)
  await pause(1_000)
  const from = { changes: await stage.ends('bookChanges'), triggers: await stage.ends('alertsTriggered') }
  let mostMib = 0
  let sent: Promise<void> = Promise.resolve()
  const fired = new Set<number>()
  const startedAt = performance.now()
  for (let tick = 0; tick < ticks; tick++) {
    await pause(Math.max(0, startedAt + tick * TICK_MS - performance.now()))
    const ids = Array.from({ length: perTick }, (_, each) => at(tick, each))
    const canary = canaryOf(tick)
    const chosen = fired.has(canary) ? new Set<number>() : new Set([canary])
    fired.add(canary)
    sent = sent.then(() => bench.changes(ids, roundOf(tick), chosen))
    if (tick % (1_000 / TICK_MS) === 0) mostMib = Math.max(mostMib, (await role.figures()).residentMib)
  }
  await sent
  const rate = Math.round((ticks * perTick * 1_000) / (performance.now() - startedAt))
  context.log.info({ changesPerSecond: rate, canaries: fired.size }, 'changes were published')
  if (!context.isQuick) requireOffered('changes a second', rate, CHANGES_PER_SECOND)
  await stage.caughtUp([ROLE], LIMIT_MS)
  const warm = new Set(Array.from({ length: (WARM_UP_SECONDS * 1_000) / TICK_MS }, (_, tick) => canaryOf(tick)))
  const latenciesMs = await delays(stage, from, fired, warm)
  requireSome('canaries that count', latenciesMs.length)
  return { latenciesMs, mostMib }
}

/** From the log's taking each canary's change to its taking the trigger; a canary that never fired took for ever. */
async function delays(
  stage: Stage,
  from: { changes: number[]; triggers: number[] },
  fired: ReadonlySet<number>,
  warm: ReadonlySet<number>,
): Promise<number[]> {
  const changedAt = await times(stage, 'bookChanges', from.changes)
  const triggeredAt = await times(stage, 'alertsTriggered', from.triggers)
  return [...fired]
    .filter(itemId => !warm.has(itemId))
    .map(itemId => (triggeredAt.get(itemId) ?? Number.POSITIVE_INFINITY) - (changedAt.get(itemId) ?? 0))
}

/** When the log took the first record of each item that is of a canary: its change, or a trigger. */
async function times(stage: Stage, topic: TopicKey, from: readonly number[]): Promise<Map<number, number>> {
  const found = new Map<number, number>()
  const name = stage.kafka.topicName(topic)
  for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
    const range = { from: from[partition] ?? 0, to: await stage.reader.end(name, partition) }
    for await (const page of stage.reader.range(name, new Map([[partition, range]]))) {
      for (const { value, timestamp } of page) {
        if (value === null) continue
        // A trigger has no price of its own.
        const { item_id, price_micro_usd: micro = CANARY_MICRO } = stage.kafka.codec.decode(value).value
        if (micro === CANARY_MICRO && !found.has(item_id)) found.set(item_id, timestamp)
      }
    }
  }
  return found
}

type AlertBench = Awaited<ReturnType<typeof openAlertBench>>

async function openAlertBench(stage: Stage) {
  const { kafka } = stage
  const { itemIds } = stage.market
  await kafka.codec.prepare(topics.alertsTriggered.events)
  const rules = await stage.openPublisher(kafka, 'alerts')
  const book = await stage.openPublisher(kafka, 'book')
  const ruleOf = (number: number): AlertRuleChanged => {
    const [kind, value, currency] = SHAPES[number % SHAPES.length] ?? ['price_below', '0.0001', 'USD']
    // A shape's thresholds differ, so that they have an order to keep.
    const places = String(number % 9_973).padStart(4, '0')
    return {
      alert_id: idOf(number),
      account_id: idOf(number % 1_000),
      kind,
      threshold_currency: currency,
      item_id: itemIds[number % itemIds.length] ?? 0,
      threshold_value: `${value}${value.includes('.') ? '' : '.'}${places}`,
      is_enabled: true,
      version: 1,
      changed_at: EPOCH,
    }
  }
  const canaryOf = (itemId: number): AlertRuleChanged => ({
    ...ruleOf(0),
    alert_id: idOf(2 ** 40 + itemId),
    item_id: itemId,
    threshold_value: CANARY_USD,
  })
  return {
    /** Publishes rules `from` to `to`, spread over the items evenly. */
    async rules(from: number, to: number): Promise<void> {
      for (let start = from; start < to; start += RULES_PER_SEND) {
        const numbers = Array.from({ length: Math.min(RULES_PER_SEND, to - start) }, (_, each) => start + each)
        await sendRules(kafka, rules, numbers.map(ruleOf))
      }
    },
    /** Publishes a rule on each item that fires by a change of that canary. */
    canaries: (ids: readonly number[]): Promise<void> => sendRules(kafka, rules, ids.map(canaryOf)),
    /** Publishes a change of each item, of canaries to the price that fires them; `turn` sets which way the others go. */
    changes: (ids: readonly number[], turn: number, canaries: ReadonlySet<number>): Promise<void> =>
      book.send(ids.map(itemId => changeTo(kafka, itemId, canaries.has(itemId) ? CANARY_MICRO : restingAt(turn)))),
  }
}

const restingAt = (turn: number): number => MICRO.resting + (turn % 2) * MICRO.step

const idOf = (number: number): string => `00000000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`

async function sendRules(
  kafka: KafkaConnection,
  publisher: Publisher,
  rules: readonly AlertRuleChanged[],
): Promise<void> {
  await publisher.send(
    rules.map(rule => ({
      topic: 'alertRules',
      key: rule.alert_id,
      partition: partitionOfItem(rule.item_id),
      value: kafka.codec.encode(alertRuleChanged, rule),
    })),
  )
}

const changeTo = ({ codec }: KafkaConnection, itemId: number, micro: number): Outgoing =>
  bookChangeRecord(
    codec,
    changed({
      provider: PROVIDER,
      item_id: itemId,
      change: 'updated',
      price: Math.round(micro / 10_000),
      price_micro_usd: micro,
      previous_micro_usd: MICRO.resting,
      previous_quantity: 1,
      seen_at: EPOCH,
      refresh_id: null,
    }),
  )
