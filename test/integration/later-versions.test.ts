/**
 * What a version to come has written, met by this one: it waits, or says what it needs, and loses nothing.
 */
import { expect } from 'chai'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { ViewPosition } from '#streams/runner/positions.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useServers } from '#test/harness/use-servers.ts'

const JSON_TYPE = 'application/vnd.schemaregistry.v1+json'
const HEADER_BYTES = 5
/** The one field, 1, as Avro writes an int. */
const BODY = 2

describe('an event of a version to come', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let publisher: Publisher
  const seen: number[] = []
  let stored: ViewPosition | undefined

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
  })

  /** A view of the rates that notes what it takes. */
  const noting: StartRole = context => {
    const own = connectKafka({ config: context.config, role: 'test', log: context.log })
    const open = async () => ({
      position: stored,
      apply: ({ value }: { value: { as_of: number } }) => {
        seen.push(value.as_of)
        return OK
      },
      flush: async (position: ViewPosition) => {
        stored = position
      },
      close: async () => undefined,
    })
    return runSink(context, own, { group: 'fx', topics: ['fx'], open })
  }
  const letters = async () =>
    (await readTopic(kafka, 'deadLetters')).map(({ value }) => `${value.reason} ${value.offset}`)
  const readiness = async ({ operatorUrl }: StartedRoles) => (await fetch(`${operatorUrl}/readyz`)).text()
  const waiting = async ({ metrics }: StartedRoles) =>
    metrics.registry.getSingleMetricAsString('marketlog_unknown_event_partitions')

  it('used to become a dead letter for good: now it holds its partition, while broken records are passed at once', async () => {
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
    const roles = await platform.startRoles([noting])
    const text = await eventually(async () => {
      const answer = await readiness(roles)
      return answer.includes('RatesSplit') && answer
    }, 'readiness to name the event')
    expect(text).to.include('market.fx-0 at offset 3').and.to.include('start the version that wrote it')
    expect(await waiting(roles)).to.match(/group="fx",topic="market.fx",event="RatesSplit"\} 1$/m)
    await eventually(() => stored?.next === 3, 'what precedes it to be written')
    expect(seen).to.deep.equal([1])
    expect(await letters()).to.deep.equal(['undecodable 1', 'undecodable 2'])
    await roles.stop()
    expect(roles.failures).to.deep.equal([])
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
