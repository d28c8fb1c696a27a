/**
 * The platform's life on one machine: up, live, killed, up again, down, and nothing left behind.
 *
 * Uses a small simulated market, so that "live" means prices that ingest has published.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect } from 'chai'
import { eventually } from '#test/harness/eventually.ts'
import { MAIN, runToEnd } from '#test/harness/run-command.ts'
import { type Answer, type OwnPlatform, prepareOwnPlatform } from './own-platform.ts'

const START_LIMIT_MS = 240_000
/** Of the platform's log, where a server is not started again. */
const LINES_SHOWN = 8

describe('a platform on one machine', function () {
  this.timeout(START_LIMIT_MS)
  let own: OwnPlatform
  let keys: Record<string, string>

  before(async () => {
    own = await prepareOwnPlatform('empty')
  })
  after(() => own.remove())

  const feed = { side: 'ask', connector: 'simulated', interval_ms: 2_000, options: {} }
  const market = {
    name: 'small',
    seed: 7,
    items: 50,
    backfill: { days: 1, refreshes_per_day: 4 },
    base: new URL('../../infra/config/markets/base.json.gz', import.meta.url).pathname,
    feeds: ['provider_02', 'provider_05'].map(provider => ({ provider, ...feed })),
  }
  const up = () => own.up(market)

  it('has live prices, candles and history when `up` returns', async () => {
    const { code, stderr, stdout } = await up()
    expect(code, stderr).to.equal(0)
    keys = own.platform().keys
    for (const key of Object.values(keys)) expect(stdout).to.include(key)
    const prices = await own.get('/prices', { providers: 'provider_05', limit: 5 })
    expect(prices.status).to.equal(200)
    expect(prices.body.items).to.have.length(5)
    const item_id = prices.body.items[0].item_id
    const candles = await own.get('/prices/candles', { item_id, interval: '1h', lookback: '48h' })
    expect(candles.body.data).not.to.have.length(0)
    const history = await own.get('/prices/history', { item_id })
    expect(history.body.items).not.to.have.length(0)
  })

  it('announces itself in a file that only its owner can read', () => {
    expect(statSync(join(own.runDir, 'platform.json')).mode & 0o777).to.equal(0o600)
    const platform = own.platform()
    expect(platform.base_url).to.equal(`http://127.0.0.1:${own.port}`)
    expect(Object.keys(platform.services)).to.include.members(['book', 'live-view', 'api', 'feed', 'ingest'])
  })

  it('answers health checks and metrics in every process', async () => {
    const services = Object.values(own.platform().services)
    for (const url of new Set(services.map(service => service.operator_url))) {
      expect((await fetch(`${url}/readyz`)).status, url).to.equal(200)
      expect(await (await fetch(`${url}/metrics`)).text(), url).to.include('process_cpu_seconds_total')
    }
    for (const url of new Set(services.map(service => service.url))) {
      expect((await fetch(`${url}/healthz`)).status, url).to.equal(200)
      for (const path of ['/readyz', '/metrics']) expect((await fetch(url + path)).status, url + path).to.equal(404)
    }
  })

  it('used to be live for a second `up` with other settings: it is found again, and names what differs', async () => {
    expect((await up()).code).to.equal(0)
    const other = await own.command(['up'], { MARKET: 'full', MARKETLOG_SMTP_URL: 'smtp://127.0.0.1:1' })
    expect(other.code).to.equal(1)
    expect(other.stderr).to.match(/a platform with another MARKET, MARKETLOG_SMTP_URL runs at .*make down/)
  })

  it('used to print a stack when the reader of a result had left', async () => {
    const { stderr } = await runToEnd('sh', ['-c', `'${process.execPath}' '${MAIN}' lag | true`], own.environment)
    expect(stderr).to.equal('')
  })

  it('restarts a role that is killed', async () => {
    const { pid, url } = own.platform().services.book ?? { pid: 0, url: '' }
    process.kill(pid, 'SIGKILL')
    const log = join(own.runDir, 'logs', 'platform.log')
    await eventually(() => readFileSync(log, 'utf8').includes('path ended (SIGKILL)'), 'the restart')
    const again = await eventually(
      () => [own.platform().services.book].find(book => book !== undefined && book.pid !== pid && book.url !== url),
      'the announcement of the new process',
    )
    expect((await fetch(`${again.url}/healthz`)).status).to.equal(200)
    expect((await own.command(['lag', '--wait', '--timeout', '60'])).code).to.equal(0)
  })

  it('starts servers again that are killed, and goes on', async () => {
    const log = join(own.runDir, 'logs', 'platform.log')
    for (const name of ['kafka', 'redis']) {
      const note = join(own.runDir, 'servers', 'pids', `${name}.json`)
      // Servers in containers are Docker's to start again.
      if (!existsSync(note)) continue
      process.kill(JSON.parse(readFileSync(note, 'utf8')).pid, 'SIGKILL')
      const isBack = () => {
        const text = readFileSync(log, 'utf8')
        if (!text.includes(`${name} answers again`)) throw new Error(text.split('\n').slice(-LINES_SHOWN).join('\n'))
        return true
      }
      await eventually(isBack, `${name} to be started again`)
    }
    expect((await own.command(['lag', '--wait', '--timeout', '60'])).code).to.equal(0)
    const answers = () => own.get('/prices', { providers: 'provider_05', limit: 1 })
    const updatedAt = (await eventually(async () => updatedIn(await answers()), 'prices')) as string
    await eventually(async () => updatedIn(await answers()) !== updatedAt, 'a later refresh')
  })

  /** When the first price was last updated. */
  const updatedIn = ({ status, body }: Answer): string | undefined =>
    status === 200 ? body.items[0].last_updated : undefined

  it('leaves nothing when it is killed, and starts again with the same keys and data', async () => {
    const owner = JSON.parse(readFileSync(join(own.runDir, 'supervisor', 'owner.json'), 'utf8')) as { pid: number }
    // Which row is the first changes with every refresh.
    const item_id = await anItem()
    const before = await own.get('/prices/history', { item_id, limit: 1000 })
    process.kill(owner.pid, 'SIGKILL')
    await eventually(() => own.remaining().length === 0, 'the end of all processes')
    const { code, stderr } = await up()
    expect(code, stderr).to.equal(0)
    // Every view goes on only on the log that it has read, by the identity of its topics.
    expect((await own.command(['lag', '--wait', '--timeout', '60'])).code).to.equal(0)
    expect(own.platform().keys).to.deep.equal(keys)
    const again = await own.get('/prices/history', { item_id, limit: 1000 })
    expect(again.body.items).to.deep.include.members(before.body.items)
  })

  const anItem = async (): Promise<number> =>
    (await own.get('/prices', { providers: 'provider_05', limit: 1 })).body.items[0].item_id

  it('ends with `down`, which says so, and leaves neither process nor announcement', async () => {
    const { code, stderr } = await own.command(['down'])
    expect(code).to.equal(0)
    expect(stderr).to.include('stopped: the platform')
    expect(own.remaining()).to.deep.equal([])
    expect(() => own.platform()).to.throw(/ENOENT/)
    expect((await own.command(['down'])).stderr).to.include('nothing was running')
  })

  it('shows the same in a terminal by `demo`, and stops all of it at Ctrl-C', async () => {
    const env = { ...own.environment, MARKET: join(own.runDir, 'market.json') }
    const demo = spawn(process.execPath, [MAIN, 'demo'], { env, detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
    let output = ''
    demo.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    const exit = once(demo, 'exit')
    await eventually(() => output.includes('Ctrl-C stops it'), 'sample calls', START_LIMIT_MS)
    expect(output).to.include(keys.quant)
    // A terminal sends it to the whole foreground group.
    process.kill(-(demo.pid as number), 'SIGINT')
    expect(await exit).to.deep.equal([0, null])
    expect(own.remaining()).to.deep.equal([])
    expect(() => own.platform()).to.throw(/ENOENT/)
  })

  it('says in one line that no platform runs', async () => {
    const { code, stderr } = await own.command(['lag'])
    expect(code).to.equal(69)
    expect(stderr).to.match(/^marketlog: .*make up/)
  })

  it('refuses a port that somebody else holds, and leaves nothing', async () => {
    const holder = createServer()
    await new Promise<void>(resolve => holder.listen({ port: own.port, host: '127.0.0.1' }, resolve))
    try {
      const { code, stderr } = await up()
      expect(code).to.equal(73)
      expect(stderr).to.include(`port ${own.port} cannot be used`)
      expect(own.remaining()).to.deep.equal([])
    } finally {
      await new Promise(resolve => holder.close(resolve))
    }
  })
})
