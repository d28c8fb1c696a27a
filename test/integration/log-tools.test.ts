import { existsSync, readFileSync } from 'node:fs'
import { expect } from 'chai'
import { catalogVersion } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { CatalogReader, StartRole } from '#infra/runtime/role.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import { allTopics } from '#schemas/topics.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { listDeadLetters, listUnresolved, showDeadLetter } from '#services/cli/log-tools/dead-letters.ts'
import { tail } from '#services/cli/log-tools/tail.ts'
import { showTopics } from '#services/cli/log-tools/topics.ts'
import type { CommandContext } from '#services/cli/output.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { collectOutput, contextOf } from '#test/harness/collected-output.ts'
import { eventually } from '#test/harness/eventually.ts'
import { saleRecord, sold } from '#test/harness/published-records.ts'
import { runCommand, runOnTerminal } from '#test/harness/run-command.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const SALES = 40
const UNKNOWN_NAME = 'Sticker | A name to come'

describe('log tools', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  let kafka: KafkaConnection
  let publisher: Publisher
  /** That of the roles. */
  let catalog: CatalogReader
  let sales: SaleObserved[]

  before(async () => {
    kafka = platform.connect('ingest')
    publisher = await platform.openPublisher(kafka, 'ingest')
    const names = smallCatalog().slice(0, SALES)
    sales = names.map(({ market_hash_name, phase }, index) => saleOf(market_hash_name, phase, index))
    const lendCatalog: StartRole = async context => {
      catalog = await context.catalog()
      return { name: 'catalog', ready: async () => undefined, stop: async () => undefined }
    }
    await platform.startRoles(['sales', 'history', 'candles', lendCatalog])
    await publish(sales)
    await publish([saleOf(UNKNOWN_NAME, null, SALES)])
    await publisher.send([{ topic: 'sales', key: 'provider_01', value: Buffer.from('no event of ours') }])
    await platform.drained(['sales', 'history', 'candles'])
  })

  const publish = (some: readonly SaleObserved[]) => publisher.send(some.map(sale => saleRecord(kafka.codec, sale)))

  const environment = () => ({ PATH: process.env.PATH, ...platform.environment })
  const call = (...args: string[]) => runCommand(args, environment())

  const run = async (command: (context: CommandContext) => Promise<void>) => {
    const output = collectOutput()
    await command(contextOf(platform, output))
    return output
  }

  const tailed = async (options: { from?: string; key?: string; filter?: string; limit?: number }) => {
    const { signal } = new AbortController()
    return (await run(context => tail(context, 'market.sales', { follow: false, signal, ...options }))).lines()
  }

  const storedSales = async (): Promise<string[]> => {
    const query = `SELECT sale_id FROM ${clickhouse.database}.sales FINAL ORDER BY sale_id`
    return (await clickhouse.writer.rows<{ sale_id: string }>(query)).map(({ sale_id }) => sale_id)
  }

  it('list every topic of the catalogue with its offsets, bytes, retention and the lag of its readers', async () => {
    const lines = (await run(context => showTopics(context, {}))).lines()
    expect(lines.map(({ topic }) => topic)).to.deep.equal(allTopics.map(({ name }) => name))
    const line = lines.find(({ topic }) => topic === 'market.sales')
    expect(line).to.include({ writer: 'ingest', offsets: SALES + 2 })
    expect(line.bytes).to.be.greaterThan(1_000)
    expect(line.readers).to.deep.equal([
      { reader: 'sales', lag: 0 },
      { reader: 'feed', lag: null },
      { reader: 'market-summary', lag: null },
    ])
    expect(line.retention).to.deep.include({ isCompacted: false, ms: 30 * DAY_MS })
    expect(lines.find(({ topic }) => topic === 'catalog.items').retention.isCompacted).to.equal(true)
  })

  it('show records decoded, from an offset, a time or so many before the end', async () => {
    const all = await tailed({ from: '0' })
    expect(all).to.have.length(SALES + 2)
    const saleIds = all.filter(({ event }) => event === 'SaleObserved').map(({ value }) => value.sale_id)
    expect(saleIds.toSorted()).to.deep.equal([...sales.map(({ sale_id }) => sale_id), `s${SALES}`].toSorted())
    const poison = all.find(({ event }) => event === null)
    expect(Buffer.from(poison.value, 'base64').toString()).to.equal('no event of ours')
    const inOrder = all.toSorted(
      (a, b) => a.timestamp - b.timestamp || a.partition - b.partition || a.offset - b.offset,
    )
    expect(await tailed({ from: '-3' })).to.deep.equal(inOrder.slice(-3))
    const { timestamp } = poison
    const since = await tailed({ from: new Date(timestamp).toISOString() })
    expect(since.map(({ partition, offset }) => [partition, offset])).to.have.deep.members(
      all.filter(one => one.timestamp >= timestamp).map(({ partition, offset }) => [partition, offset]),
    )
  })

  it('filter by key and by a JSONata expression over the record', async () => {
    const dearSales = [...sales, saleOf(UNKNOWN_NAME, null, SALES)].filter(
      ({ provider, price }) => provider === 'provider_02' && price > 1_010,
    )
    const filter = 'value.price > 1010 and event = "SaleObserved"'
    const lines = await tailed({ from: '0', key: 'provider_02', filter })
    expect(lines.map(({ value }) => value.sale_id)).to.have.members(dearSales.map(({ sale_id }) => sale_id))
    expect(await tailed({ from: '0', limit: 5 })).to.have.length(5)
  })

  it('answer with exit codes and JSON lines in a pipe', async () => {
    const good = await call('tail', 'market.sales', '--from', '-2', '--no-follow')
    expect({ code: good.code, lines: good.stdout.trim().split('\n').length }, good.stderr).to.deep.equal({
      code: 0,
      lines: 2,
    })
    expect(await call('tail', 'no.such')).to.include({ code: 64, stdout: '' })
    expect(await call('dead-letters', 'show', '4711')).to.include({ code: 1, stdout: '' })
  })

  // It printed `--filter is no JSONata: [object Object]`.
  it('say what is wrong with a filter, and where', async () => {
    const broken = await call('tail', 'market.sales', '--no-follow', '--filter', 'value.price > 1 and ) or')
    expect(broken).to.include({ code: 64, stdout: '' })
    expect(broken.stderr).to.match(
      /^marketlog: --filter is no JSONata: .+ \(S\d+\) at character \d+, after ".*and \)"\n$/,
    )
    expect(broken.stderr).not.to.include('[object')
    const failing = await call('tail', 'market.sales', '--from', '0', '--no-follow', '--filter', '"a" - value.price')
    expect(failing).to.include({ code: 65, stdout: '' })
    expect(failing.stderr).to.match(
      /--filter fails on \d+@\d+: The left side .+ \(T2001\) at character 5, after "\\"a\\" -"/,
    )
  })

  // It printed one indented array where services/cli/README.md promises JSON lines.
  it('list the lag of each group as a JSON line in a pipe', async () => {
    const { code, stdout, stderr } = await call('lag')
    expect(code, stderr).to.equal(0)
    const lines = stdout.trimEnd().split('\n')
    expect(lines.length).to.be.greaterThan(5)
    for (const line of lines) expect(JSON.parse(line)).to.have.all.keys('group', 'topic', 'partitions', 'behind', 'lag')
    expect(lines.map(line => JSON.parse(line)).find(({ group }) => group === 'sales')).to.include({
      topic: 'market.sales',
      lag: 0,
    })
  })

  // `topics` was 175 columns wide and red on every terminal.
  it('fit a table into a terminal, without colours under NO_COLOR', async () => {
    const plain = await runOnTerminal(['topics'], { ...environment(), NO_COLOR: '1' }, 80)
    expect(plain.code, plain.stdout).to.equal(0)
    const lines = plain.stdout.trimEnd().split(/\r?\n/)
    expect(lines.length).to.be.greaterThan(4)
    expect(lines.filter(line => line.length > 80)).to.deep.equal([])
    expect(plain.stdout).not.to.include('\u001b[')
    const coloured = await runOnTerminal(['topics'], environment(), 80)
    expect(coloured.stdout).to.include('\u001b[1m')
  })

  // `--from 2h` was refused.
  it('show records since so long ago, and name the forms that a position has', async () => {
    const all = await tailed({ from: '0' })
    expect(await tailed({ from: '2h' })).to.have.deep.members(all)
    const replayed = await call('replay', 'market.sales', '--from', '15m')
    expect({ code: replayed.code, lines: replayed.stdout.trim().split('\n').length }).to.deep.equal({
      code: 0,
      lines: all.length,
    })
    expect(await call('replay', 'market.sales', '--from', '7d', '--to', '1h')).to.include({ code: 0, stdout: '' })
    const refused = await call('tail', 'market.sales', '--from', '2 hours')
    expect(refused).to.include({ code: 64, stdout: '' })
    expect(refused.stderr).to.match(/offset \(1200\).*-100.*30s, 15m, 2h, 7d.*2026-11-21T14:00:00Z/)
  })

  it('print the version of the package and the commit that is checked out', async () => {
    const { code, stdout } = await call('--version')
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    const [text, commit] = stdout.trim().split(' ')
    expect({ code, text }).to.deep.equal({ code: 0, text: version })
    const isCheckout = existsSync(new URL('../../.git', import.meta.url))
    if (isCheckout) expect(commit).to.match(/^\([0-9a-f]{7,}\)$/)
    else expect(commit).to.equal(undefined)
  })

  it('list a name, and once the catalog knows it `rebuild sales` adds its sale', async () => {
    const list = async () => (await run(context => listUnresolved(context, {}))).lines()
    expect(await list()).to.have.length(1)
    expect((await list())[0]).to.deep.include({ name: UNKNOWN_NAME, groups: ['sales'], item_id: null })
    expect(await storedSales()).to.have.length(SALES)

    const setup = await platform.openPublisher(kafka, 'setup')
    const item = { ...smallCatalog()[0], item_id: 900_000, market_hash_name: UNKNOWN_NAME, phase: null, supply: null }
    const version = { version: `${catalogVersion()}-and-one-more`, items: 1 }
    await setup.send([
      { topic: 'catalog', key: '900000', value: kafka.codec.encode(catalogItemPublished, item as never) },
      { topic: 'catalog', key: 'version', value: kafka.codec.encode(catalogVersionPublished, version) },
    ])
    await eventually(() => catalog.byId(item.item_id) !== undefined, 'the roles to know the name')
    expect((await list())[0]).to.deep.include({ item_id: 900_000 })
    expect((await call('rebuild', 'sales')).code).to.equal(0)
    const ids = [...sales.map(({ sale_id }) => sale_id), `s${SALES}`].toSorted()
    expect(await storedSales()).to.deep.equal(ids)
  })

  it('list a record that cannot be read as a dead letter, and show its bytes', async () => {
    const letters = (await run(context => listDeadLetters(context, {}))).lines()
    expect(letters).to.have.length(1)
    expect(letters[0]).to.include({ group: 'sales', topic: 'market.sales', reason: 'undecodable' })
    const letter = JSON.parse((await run(context => showDeadLetter(context, letters[0].number))).text())
    expect(Buffer.from(letter.value_base64, 'base64').toString()).to.equal('no event of ours')
  })
})

function saleOf(market_hash_name: string, phase: SaleObserved['phase'], index: number): SaleObserved {
  const at = Date.now() - DAY_MS
  const about = { provider: `provider_0${1 + (index % 3)}`, sale_id: `s${index}`, market_hash_name, phase }
  return sold({ ...about, price: 1_000 + index, sold_at: at + index, observed_at: at + 60_000 })
}
