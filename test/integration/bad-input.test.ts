import { expect } from 'chai'
import type { DeadLettered } from '#schemas/events/dead-lettered.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { PROVIDER_PARTITIONS } from '#schemas/topics.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { eventually } from '#test/harness/eventually.ts'
import { refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const PROVIDER = 'provider_01'

describe('the book', () => {
  const platform = useServers()

  it('makes dead letters of poisoned bytes and of ids of unknown schemas, counts them, and applies the refresh around them', async () => {
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'ingest')
    const book = await platform.spawnRole('book')
    const entries = smallCatalog()
      .filter(({ phase }) => phase === null)
      .slice(0, 3)
      .map(({ market_hash_name: name }) => ({ name, itemId: undefined, price: 1_000, quantity: 1 }))
    const refresh = refreshOf({ provider: PROVIDER, observedAt: Date.UTC(2026, 2, 3), refreshId: 'r1', entries })
    const sound = refreshRecords(kafka.codec, refresh).map(({ value }) => value ?? expect.fail('a tombstone'))
    const whole = sound[2] as Buffer
    const foreign = Buffer.from(whole)
    foreign.writeInt32BE(2_000_000_000, 1)
    const poison = [
      ...[Buffer.from('no event at all'), whole.subarray(0, 20), Buffer.concat([whole, Buffer.from('more')])],
      ...[foreign, null],
    ]
    const values = [...sound.slice(0, 2), ...poison, ...sound.slice(2)]
    await publisher.send(values.map(value => ({ topic: 'quotes', key: PROVIDER, value })))
    // A commit is shown in partition after partition.
    await eventually(async () => {
      const changes = (await readTopic(kafka, 'bookChanges')).filter(({ event }) => event === 'BookChanged')
      return expect(changes).to.have.length(3)
    }, 'the changes of the refresh')
    const letters = await eventually(async (): Promise<DeadLettered[]> => {
      const all = (await readTopic(kafka, 'deadLetters')).map(({ value }) => value)
      expect(all).to.have.length(poison.length)
      return all
    }, 'the dead letters')
    const judged = await eventually(async (): Promise<RefreshJudged[]> => {
      const all = (await readTopic(kafka, 'refreshes')).map(({ value }) => value)
      expect(all).to.have.length(1)
      return all
    }, 'the verdict')
    expect(judged[0]).to.include({ verdict: 'applied', reason: null })
    expect(letters.map(({ reason }) => reason)).to.deep.equal([...Array(4).fill('undecodable'), 'empty'])
    expect(letters[3]?.detail).to.equal('schema id 2000000000 is unknown')
    expect(letters.map(({ value }) => value)).to.deep.equal(poison)
    const partition = partitionOf(PROVIDER, PROVIDER_PARTITIONS)
    expect(letters.map(letter => [letter.topic, letter.partition])).to.deep.equal(
      poison.map(() => ['market.quotes', partition]),
    )
    expect(new Set(letters.map(({ offset }) => offset)).size).to.equal(poison.length)
    for (const [reason, count] of [
      ['undecodable', 4],
      ['empty', 1],
    ]) {
      const line = new RegExp(
        `^marketlog_records_total\\{(?=.*"book")(?=.*"deadLetter").*"${reason}".*\\} ${count}$`,
        'm',
      )
      await eventually(
        async () => line.test(await (await fetch(`${await book.operatorUrl()}/metrics`)).text()),
        `${count} ${reason}`,
      )
      await book.line(new RegExp(`"reason":"${reason}"`))
    }
  })
})
