/**
 * The promises of every sink to the runner, each in its real store: repeats change nothing, a position is kept, a former owner is harmless.
 *
 * A test that one sink fails is a record that is lost or counted twice after a rebalance. What the rows say is in the tests
 * of each sink.
 */
import { expect } from 'chai'
import type { Redis } from '#infra/redis/redis.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'
import { PROCESSORS } from '#streams/processors.ts'
import type { StreamRecord } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { contractedSinks } from '#test/fixtures/contracted-sinks.ts'
import { positionAt } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** An offset that no record of the empty partition lies before. */
const EMPTY_NEXT = 7

const nameOf = ({ group, topic }: { group: string; topic: string }): string => `${group} from ${topic}`

const LATE_BATCH = {
  refused: 'refuses the batch of an owner that lost its partition, and writes nothing of it',
  merges: 'is left as it is by the batch that an owner writes after it lost its partition',
} as const

describe('every sink', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  let redis: Redis
  const opened: PartitionSink[] = []

  before('Redis', async () => {
    redis = await platform.openRedis()
  })
  afterEach('the sinks of the test', async () => {
    for (const sink of opened.splice(0)) await sink.close()
  })

  const kept = (sink: PartitionSink): PartitionSink => {
    opened.push(sink)
    return sink
  }

  async function apply(sink: PartitionSink, records: readonly StreamRecord[]): Promise<void> {
    await sink.prepare?.()
    for (const record of records) expect(sink.apply(record), `record ${record.offset}`).to.include({ kind: 'ok' })
  }
  const endOf = (records: readonly StreamRecord[]): number => (records.at(-1)?.offset ?? -1) + 1

  /** Gives a sink those of some records that it lacks, and writes them, as the runner does. */
  async function deliver(sink: PartitionSink, records: readonly StreamRecord[]): Promise<void> {
    const from = sink.position?.next ?? 0
    const lacking = records.filter(({ offset }) => offset >= from)
    await apply(sink, lacking)
    if (lacking.length > 0) await sink.flush(positionAt(endOf(records)))
  }

  const sinks = contractedSinks({ platform, clickhouse, redis: () => redis })

  it('is listed here: every group that reads a topic into a view', () => {
    const isProcessor = (group: string) => PROCESSORS.some(one => one.group === group)
    const read = readingGroups().filter(({ group }) => !isProcessor(group))
    expect(sinks.map(nameOf)).to.have.members(read.map(nameOf))
  })

  for (const sink of sinks)
    describe(`of ${nameOf(sink)}`, () => {
      const open = async (part: number): Promise<PartitionSink> => kept(await sink.open(part))

      it('leaves the same stored state when a batch is delivered again after a restart', async () => {
        const records = await sink.records(seededRandom(`${nameOf(sink)}: repeats`), 0)
        const empty = await sink.stored(0)
        await deliver(await open(0), records)
        const once = await sink.stored(0)
        expect(once, 'what is stored of the batch').not.to.deep.equal(empty)
        for (const repeated of [records, records.slice(records.length / 2)]) {
          await deliver(await open(0), repeated)
          expect(await sink.stored(0)).to.deep.equal(once)
        }
      })

      it('resumes at the first offset that is not stored when it is opened again', async () => {
        const records = await sink.records(seededRandom(`${nameOf(sink)}: position`), 1)
        const half = records.slice(0, records.length / 2)
        await deliver(await open(1), half)
        const stored = await sink.stored(1)
        expect((await open(1)).position?.next).to.equal(sink.resumesAt(endOf(half)))
        expect(await sink.stored(1), 'opening changes nothing').to.deep.equal(stored)
        await deliver(await open(1), records)
        expect(await sink.stored(1), 'the rest is stored').not.to.deep.equal(stored)
      })

      it(LATE_BATCH[sink.lateBatch], async () => {
        const records = await sink.records(seededRandom(`${nameOf(sink)}: owners`), 2)
        const half = records.slice(0, records.length / 2)
        const [former, latter] = [await open(2), await open(2)]
        const late = sink.lateBatch === 'refused' ? records : half
        await apply(former, late)
        await deliver(latter, half)
        const stored = await sink.stored(2)
        const refusal = await former.flush(positionAt(endOf(late))).catch((error: Error) => error.message)
        if (sink.lateBatch === 'refused')
          expect(refusal).to.match(/by another owner|another process has moved|is not the one that was left there/)
        else expect(refusal).to.equal(undefined)
        expect(await sink.stored(2)).to.deep.equal(stored)
        await apply(latter, records.slice(half.length))
        await latter.flush(positionAt(endOf(records)))
        expect(await sink.stored(2), 'the owner goes on').not.to.deep.equal(stored)
      })

      it('stores the position of a partition without records, and nothing else', async () => {
        const empty = await sink.stored(3)
        await (await open(3)).flush(positionAt(EMPTY_NEXT))
        expect(await sink.stored(3)).to.deep.equal(empty)
        expect((await open(3)).position?.next).to.equal(sink.resumesEmptyAt(EMPTY_NEXT))
      })
    })
})
