/**
 * The sink runner on a real log: a view decides where its partition goes on, not the group; an event that a version to come has
 * written holds its partition, so that nothing is lost; and a sink that hangs ends its process.
 */
import { expect } from 'chai'
import { connectKafka } from '#infra/kafka/connection.ts'
import type { RoleContext, StartRole } from '#infra/runtime/role.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { openPlatformLag } from '#services/cli/lag.ts'
import { OK } from '#streams/runner/outcome.ts'
import { type PartitionSink, runSink } from '#streams/runner/sink-runner.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useServers } from '#test/harness/use-servers.ts'

const RECORDS = 12
const STALLED_AFTER_MS = 1_200
const POSITION = 5
const JSON_TYPE = 'application/vnd.schemaregistry.v1+json'
const HEADER_BYTES = 5
/** The one field, 1, as Avro writes an int. */
const BODY = 2

/** A role that keeps a view from a position on, `opening` once that is opened. */
const roleOf = (
  next: () => number,
  sink: Partial<PartitionSink> = {},
  given: Partial<Pick<Parameters<typeof runSink>[2], 'group' | 'maxBytesPerPartition' | 'stalledAfterMs'>> = {},
  opening: (context: RoleContext) => Promise<unknown> = async () => undefined,
): StartRole => {
  const { group = 'fx' } = given
  return context =>
    runSink(context, connectKafka({ config: context.config, role: 'test', log: context.log }), {
      ...given,
      group,
      topics: [group as TopicKey],
      async open({ topic }) {
        await opening(context)
        const position = { topicId: await (await context.topicIds()).idOf(topic), next: next() }
        const idle = { apply: () => OK, flush: async () => undefined, close: async () => undefined }
        return { position, ...idle, ...sink }
      },
    })
}

describe('sink runner', () => {
  const platform = useServers()

  /** The ends that readers of the view were to wait for. */
  let waitedFor: number[] = []

  /** A view that starts at a position and notes what it is given. */
  const noting = (
    next: number | (() => number),
    seen: number[],
    flushed: number[],
    more: Partial<PartitionSink> = {},
  ) =>
    roleOf(typeof next === 'number' ? () => next : next, {
      ...more,
      apply({ offset }) {
        seen.push(offset)
        return OK
      },
      async flush({ next, until }) {
        flushed.push(next)
        if (until !== undefined) waitedFor.push(until)
      },
    })

  const publish = async (count: number): Promise<void> => {
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'ingest')
    for (let asOf = 0; asOf < count; asOf++) await publisher.send([ratesRecord(kafka.codec, asOf)])
  }

  const untilNoLag = async (): Promise<void> => {
    const look = await openPlatformLag(platform.config, platform.log)
    const groups = [{ group: 'fx', topic: 'fx' as const, stage: 0 }]
    await eventually(async () => (await look.read(groups)).every(({ lag }) => lag === 0), 'no lag')
    await look.close()
  }

  it('goes on from a view that is ahead of its group, and moves the group there', async () => {
    // What used to happen: records below the view's position were flushed as progress, which a view refuses
    // as another owner's doing, for ever.
    await publish(RECORDS)
    const seen: number[] = []
    const flushed: number[] = []
    const whole = await platform.startRoles([noting(RECORDS, seen, flushed)])
    await untilNoLag()
    await whole.stop()
    expect(seen).to.deep.equal([])
    expect(flushed).to.deep.equal([])
  })

  const from = (position: number) => Array.from({ length: RECORDS - position }, (_, each) => position + each)

  it('goes back to a view that is behind its group, though no record comes', async () => {
    // What used to happen: a view that had been wiped stayed empty until its next record.
    const seen: number[] = []
    const flushed: number[] = []
    waitedFor = []
    const behind = await platform.startRoles([noting(POSITION, seen, flushed)])
    await eventually(() => flushed.at(-1) === RECORDS, 'the last record')
    await untilNoLag()
    await behind.stop()
    expect(seen).to.deep.equal(from(POSITION))
    expect(flushed[0], 'what readers are to know first').to.equal(POSITION)
    expect(new Set(waitedFor)).to.deep.equal(new Set([RECORDS]))
  })

  it('reopens a view that was wiped while it ran, though no record comes', async () => {
    const seen: number[] = []
    const flushed: number[] = []
    let stored: number | undefined = RECORDS
    const position = () => stored ?? 0
    const isCurrent = async () => {
      if (flushed.length > 0) stored = flushed.at(-1)
      return stored === (flushed.at(-1) ?? RECORDS)
    }
    const view = noting(position, seen, flushed, { isCurrent })
    const running = await platform.startRoles([view])
    await running.ready()
    await untilNoLag()
    expect(seen).to.deep.equal([])
    stored = undefined
    await eventually(() => flushed.at(-1) === RECORDS, 'the view to be whole again')
    await running.stop()
    expect(seen).to.deep.equal(from(0))
  })

  const letters = async () =>
    (await readTopic(platform.connect(), 'deadLetters')).map(({ value }) => `${value.reason} ${value.offset}`)
  const readiness = async ({ operatorUrl }: StartedRoles) => (await fetch(`${operatorUrl}/readyz`)).text()
  const waiting = async ({ metrics }: StartedRoles) =>
    metrics.registry.getSingleMetricAsString('marketlog_unknown_event_partitions')

  it('used to make an event of a version to come a dead letter for good: now it holds its partition, while broken records are passed', async () => {
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'ingest')
    const later = await laterEvent(platform, 'RatesSplit')
    const foreign = await laterEvent(platform, 'RatesSplit', 'elsewhere')
    const values = [
      ratesRecord(kafka.codec, 1).value,
      foreign,
      Buffer.from('broken'),
      later,
      ratesRecord(kafka.codec, 2).value,
    ]
    await publisher.send(values.map(value => ({ topic: 'fx', key: 'USD', value })))
    const [seen, flushed]: [number[], number[]] = [[], []]
    const roles = await platform.startRoles([noting(RECORDS, seen, flushed)])
    const text = await eventually(async () => {
      const answer = await readiness(roles)
      return answer.includes('RatesSplit') && answer
    }, 'readiness to name the event')
    expect(text)
      .to.include(`market.fx-0 at offset ${RECORDS + 3}`)
      .and.to.include('start the version that wrote it')
    expect(await waiting(roles)).to.match(/group="fx",topic="market.fx",event="RatesSplit"\} 1$/m)
    await eventually(() => flushed.at(-1) === RECORDS + 3, 'what precedes it to be written')
    expect(seen).to.deep.equal([RECORDS])
    expect(await letters()).to.deep.equal([1, 2].map(at => `undecodable ${RECORDS + at}`))
    await roles.stop()
    expect(roles.failures).to.deep.equal([])
  })
})

describe('a sink that hangs', () => {
  // Its own: rates that another role published before would be counted, or not, by how far they had been read.
  const platform = useServers()
  const store = Promise.withResolvers<void>()
  // A process would have ended; the roles of this one have to be stopped.
  after(() => store.resolve())

  /** A sink whose store does not answer. */
  const hanging = (group: 'fx' | 'sales') =>
    roleOf(() => 0, { flush: () => store.promise }, { group, stalledAfterMs: STALLED_AFTER_MS })

  const lagOf = async ({ metrics }: StartedRoles, group: string) => {
    const found = await metrics.registry.getSingleMetric('marketlog_group_lag')?.get()
    return found?.values.find(({ labels }) => labels.group === group)?.value
  }

  const takenOf = async ({ metrics }: StartedRoles) =>
    (await metrics.registry.getSingleMetric('marketlog_records_taken_total')?.get())?.values[0]?.value ?? 0

  it('used to end a role whose view is ahead of records that came while it was being opened', async () => {
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'ingest')
    for (let asOf = 0; asOf < RECORDS; asOf++) await publisher.send([ratesRecord(kafka.codec, asOf)])
    const next = ((await readTopic(kafka, 'fx')).at(-1)?.offset ?? 0) + 1
    const isWatched = async (context: RoleContext) =>
      (await context.metrics.registry.getSingleMetric('marketlog_group_lag')?.get())?.values.length !== 0
    // One record at a time.
    const given = { maxBytesPerPartition: 1, stalledAfterMs: STALLED_AFTER_MS }
    const slow = roleOf(
      () => next,
      {},
      given,
      context => eventually(() => isWatched(context), 'the first record to wait'),
    )
    const roles = await platform.startRoles([slow])
    await eventually(async () => (await takenOf(roles)) > 0 && (await lagOf(roles, 'fx')) === 0, 'no lag')
    expect(roles.failures).to.deep.equal([])
    await roles.stop()
  })

  it('ends its role, which says which records wait; one that has nothing to do goes on', async () => {
    const idle = await platform.startRoles([hanging('sales')])
    await eventually(async () => (await lagOf(idle, 'sales')) === 0, 'a member at rest')
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'ingest')
    await publisher.send([ratesRecord(kafka.codec, 1)])
    const roles = await platform.startRoles([hanging('fx')])
    roles.expectFailure(/^fx does not get on/)
    const failure = await eventually(() => roles.failures[0], 'the end of the role')
    expect(failure.message).to.match(/^fx does not get on: 1 records of market\.fx-0 wait from offset \d+ on/)
    expect(await lagOf(roles, 'fx')).to.equal(1)
    // It has been watched for longer.
    expect(idle.failures).to.deep.equal([])
  })
})

/** The bytes of a record of an event that a version to come has registered, among the namespace's own subjects. */
async function laterEvent({ config }: TestPlatform, name: string, namespace = 'marketlog'): Promise<Buffer> {
  const subject = encodeURIComponent(`${config.namespace}${namespace}.${name}`)
  const schema = JSON.stringify({ type: 'record', name, namespace, fields: [{ name: 'level', type: 'int' }] })
  const answer = await fetch(`${config.servers.schemaRegistry.replace(/\/+$/, '')}/subjects/${subject}/versions`, {
    method: 'POST',
    headers: { 'content-type': JSON_TYPE },
    body: JSON.stringify({ schemaType: 'AVRO', schema }),
  })
  const { id } = (await answer.json()) as { id: number }
  const bytes = Buffer.alloc(HEADER_BYTES + 1)
  bytes.writeInt32BE(id, 1)
  bytes[HEADER_BYTES] = BODY
  return bytes
}
