/**
 * Views whose topic is no longer the log that they have read: deleted and created again, expired, cut short.
 *
 * What used to happen: a view whose position was beyond the log's end committed it, was sent past all that came, and looked healthy.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { openFxReader } from '#streams/fx/reader.ts'
import { fxPositionKey } from '#streams/fx/table.ts'
import { parsePosition } from '#streams/runner/positions.ts'
import { expireRecords, recreateTopic } from '#test/fixtures/changed-topics.ts'
import { readLiveHead, readTables } from '#test/fixtures/live-tables.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, bookRowRecord, changed, ratesRecord } from '#test/harness/published-records.ts'
import { runCommand } from '#test/harness/run-command.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const DAY_MS = 86_400_000
const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
const ITEM = 7
const PARTITION = partitionOfItem(ITEM)

describe('views on a log that is not what it was', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let redis: Redis
  let roles: StartedRoles
  let asOf = today - DAY_MS

  before(async () => {
    kafka = platform.connect()
    redis = await platform.openRedis()
    roles = await platform.startRoles(['fx', 'live-view'])
  })

  async function publishRates(EUR: string): Promise<void> {
    const ingest = await platform.openPublisher(kafka, 'ingest')
    await ingest.send([ratesRecord(kafka.codec, asOf++, { EUR })])
    await ingest.close()
  }
  /** What amounts are converted with; undefined: they are refused. */
  async function euro(): Promise<bigint | number | undefined | string> {
    const reader = await openFxReader(redis, platform.namespace, platform.log)
    reader.stop()
    return reader.current()?.rates.has('EUR')
      ? JSON.parse((await redis.get(`${platform.namespace}{fx}:current`)) ?? '{}').rates.EUR
      : undefined
  }
  const euroBecomes = (rate: string | undefined) => eventually(async () => (await euro()) === rate, `the rate ${rate}`)
  const stoppedFor = (role: string, reason: RegExp) =>
    eventually(async () => {
      const { roles: all } = (await (await fetch(`${roles.operatorUrl}/readyz`)).json()) as {
        roles: Record<string, string>
      }
      return reason.test(all[role] ?? '')
    }, `${role} to stop`)
  const marketlog = (...words: string[]) => runCommand(words, { PATH: process.env.PATH, ...platform.environment })
  const recreate = (topic: TopicKey) => recreateTopic(platform, kafka, topic)

  it('stop alone, refuse their readers, and say what was found, until they are rebuilt', async () => {
    await publishRates('0.9')
    await euroBecomes('0.9')
    await recreate('fx')
    await publishRates('0.8')
    await stoppedFor(
      'fx',
      /market.fx-0: the position is of the topic with id \S+, which was deleted.*`marketlog rebuild fx`/,
    )
    await euroBecomes(undefined)
    const lag = await marketlog('lag')
    expect([lag.code, /fx does not go on reading market.fx-0/.test(lag.stderr)]).to.deep.equal([1, true])
    expect((await marketlog('lag', '--wait', '--timeout', '60')).stderr).to.match(/fx does not go on reading/)
    expect((await marketlog('rebuild', 'fx')).code).to.equal(0)
    await euroBecomes('0.8')
    expect(parsePosition(await redis.get(fxPositionKey(platform.namespace)))).to.include({ generation: 1 })
    await publishRates('0.7')
    await euroBecomes('0.7')
    expect(roles.failures).to.deep.equal([])
  })

  it('stop where records expired unread, and are rebuilt without them when that is accepted', async () => {
    await roles.stop()
    await publishRates('0.6')
    await publishRates('0.5')
    await expireRecords(kafka, 'fx', 0)
    roles = await platform.startRoles(['fx', 'live-view'])
    await stoppedFor(
      'fx',
      /market.fx-0: 2 records from \d+ to \d+ have expired unread.*`marketlog rebuild fx --accept-loss`/,
    )
    await euroBecomes(undefined)
    const refused = await marketlog('rebuild', 'fx')
    expect([refused.code, /2 records .* have expired unread/.test(refused.stderr)]).to.deep.equal([1, true])
    expect((await marketlog('rebuild', 'fx', '--accept-loss')).code).to.equal(0)
    await publishRates('0.4')
    await euroBecomes('0.4')
  })

  it('that have a base are built again from it, while they run', async () => {
    const book = await platform.openPublisher(kafka, 'book')
    const publish = (price: number) => {
      const change = changed({ item_id: ITEM, price, price_micro_usd: price * 10_000 })
      return book.send([bookChangeRecord(kafka.codec, change), bookRowRecord(kafka.codec, change)])
    }
    const prices = async () =>
      [...(await readTables(redis, platform.namespace)).rows.values()].map(({ price }) => price)
    await publish(100)
    await eventually(async () => (await prices()).includes(100), 'the first price')
    const { topicId } = await readLiveHead(redis, PARTITION, platform.namespace)
    await recreate('bookChanges')
    await eventually(
      async () => (await readLiveHead(redis, PARTITION, platform.namespace)).topicId !== topicId,
      'another head',
    )
    // Until the rows of the former head are gone, they are found as left over.
    await eventually(async () => expect(await prices()).to.deep.equal([100]), 'the rows of the other head')
    await publish(200)
    await book.close()
    await eventually(async () => (await prices())[0] === 200, 'the next price')
  })
})
