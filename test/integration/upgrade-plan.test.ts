/**
 * `marketlog upgrade plan`: what a start would change, from an empty namespace to one that another version has written.
 */
import { expect } from 'chai'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { bookPositionStored } from '#schemas/events/book-state.ts'
import { allTopics } from '#schemas/topics.ts'
import { setUp } from '#services/cli/set-up.ts'
import { type PlannedStep, planUpgrade } from '#services/cli/upgrade.ts'
import { headKey } from '#streams/live-view/table.ts'
import { TABLES } from '#streams/views.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('the upgrade plan', () => {
  const platform = useServers({ setUp: false })
  const plan = () => planUpgrade(platform.config, platform.log)
  const call = () => runCommand(['upgrade', 'plan'], { PATH: process.env.PATH, ...platform.environment })
  const shown = ({ part, does, name }: PlannedStep) => `${part} ${does} ${name}`

  it('names everything of an empty namespace, and changes nothing of it', async () => {
    const steps = await plan()
    const count = (part: string, does: string) => steps.filter(step => step.part === part && step.does === does).length
    expect(count('topics', 'create')).to.equal(allTopics.length)
    expect(count('tables', 'create')).to.equal(TABLES.length)
    expect([count('migrations', 'change'), count('schemas', 'create')].every(each => each > 0)).to.equal(true)
    expect(count('catalog', 'change')).to.equal(1)
    expect(await plan()).to.deep.equal(steps)
  })

  it('is empty after a start, with exit code 0', async () => {
    await setUp(platform.config, platform.log)
    expect(await plan()).to.deep.equal([])
    expect(await call()).to.include({ code: 0, stdout: '' })
  })

  it('names what other versions have left and this one would change, as JSON lines with exit code 1', async () => {
    const { config } = platform
    const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    await writer.command(`ALTER TABLE ${writer.database}.sales DROP COLUMN paint_seed`)
    await writer.close()
    const redis = await platform.openRedis()
    await redis.set(headKey(2, config.namespace), '{"format":7,"generation":1,"next":0,"ask":{},"bid":{}}')
    const { code, stdout, stderr } = await call()
    const steps = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as PlannedStep)
    expect(steps.map(shown)).to.deep.equal(['tables change sales', 'formats rebuild live table, partition 2'])
    expect(steps[0]?.detail).to.match(
      /^ALTER TABLE \S+ ADD COLUMN IF NOT EXISTS paint_seed Nullable\(Int32\) AFTER float$/,
    )
    // Before it, what takes long says so.
    expect([code, stderr.trim().split('\n').at(-1)]).to.deep.equal([1, 'marketlog: a start would change 2 things'])
    await redis.del(headKey(2, config.namespace))
    await setUp(platform.config, platform.log)
    expect(await plan()).to.deep.equal([])
  })

  it('says with exit code 65 what a start would refuse', async () => {
    const kafka = platform.connect()
    const book = await platform.openPublisher(kafka, 'book')
    const value = kafka.codec.encode(bookPositionStored, { next: 0, from: 0, format: 9, oldest_reader: 9 })
    await book.send([{ topic: 'book', partition: 3, key: 'position', value }])
    expect((await plan()).map(shown)).to.deep.equal([`changelog refuse ${kafka.topicName('book')}`])
    const { code, stderr } = await call()
    expect([code, stderr]).to.satisfy(
      ([exit, text]: [number, string]) => exit === 65 && text.includes('must know version 9'),
    )
  })
})
