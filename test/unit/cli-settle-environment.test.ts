import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { readConfig } from '#infra/runtime/config.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { addressVariables, settingsOf, settleEnvironment } from '#services/cli/settle-environment.ts'

const servers = {
  kafka: ['127.0.0.1:9092', '127.0.0.1:9093'],
  schemaRegistry: 'http://127.0.0.1:8081',
  redis: 'redis://127.0.0.1:6379',
  clickhouse: 'http://writer:secret@127.0.0.1:8123',
  clickhouseReadOnly: 'http://reader:secret@127.0.0.1:8123',
  postgres: 'postgres://127.0.0.1:5432/marketlog',
}
const local = { servers, stateDir: '/state', cursorKey: 'signs', secretKey: newSecretKey() }

describe('the environment of a command', () => {
  it('finds the servers of a running platform and gives them to the configuration unchanged', () => {
    expect(readConfig(settleEnvironment({}, local, true)).servers).to.deep.equal(servers)
  })

  it('never replaces what the user has set', () => {
    const given = { REDIS_URL: 'redis://elsewhere:6379', PORT: '9000', CURSOR_KEY: 'own', MARKETLOG_STATE_DIR: '/own' }
    expect(settleEnvironment(given, local, true)).to.include(given)
  })

  it('takes a variable that is set to nothing as not set', () => {
    expect(settleEnvironment({ REDIS_URL: '' }, local, true).REDIS_URL).to.equal(servers.redis)
  })

  it('gives the known ports to processes that serve clients, and any free ones to others', () => {
    const portsOf = (serves: boolean) => {
      const { PORT, OPERATOR_PORT } = settleEnvironment({}, local, serves)
      return [PORT, OPERATOR_PORT]
    }
    expect([portsOf(true), portsOf(false)]).to.deep.equal([
      ['8080', '8081'],
      ['0', '0'],
    ])
  })

  it('says where its clients come from, and refuses what it cannot be told', () => {
    const read = (given: Record<string, string>) => readConfig(settleEnvironment(given, local, true))
    expect(read({}).clients).to.include({ connections: 20_000, connectionsPerAddress: 256 })
    const networks = {
      TRUSTED_PROXIES: '10.0.0.0/8, fd00::/8',
      MAX_CONNECTIONS_PER_ADDRESS: '9',
    }
    expect(read(networks).clients).to.deep.include({
      trustedProxies: ['10.0.0.0/8', 'fd00::/8'],
      connectionsPerAddress: 9,
    })
    expect(() => read({ TRUSTED_PROXIES: '10.0.0.0/33' })).to.throw('TRUSTED_PROXIES: 10.0.0.0/33 is no network')
    expect(() => read({ MAX_CONNECTIONS: '0', OPERATOR_PORT: 'x' })).to.throw(
      /OPERATOR_PORT must be.*MAX_CONNECTIONS must/,
    )
  })

  // Both had defaults: a constant that anybody can read signed cursors, and links led to the loopback address.
  it('has no cursor key, no public root and no simulated market of its own making', () => {
    const read = (given: Record<string, string>) =>
      readConfig(settleEnvironment(given, { ...local, cursorKey: undefined }, true))
    expect(read({}).cursorKey).to.equal(undefined)
    expect(read({}).baseUrl).to.equal('http://127.0.0.1:8080')
    expect(read({}).market).to.equal('empty')
    expect(() => read({ HOST: '0.0.0.0' })).to.throw('BASE_URL is not set, and HOST (0.0.0.0) is not loopback alone')
    expect(() => read({ BASE_URL: 'http://api.example' })).to.throw('BASE_URL must be an https URL')
    expect(read({ HOST: '0.0.0.0', BASE_URL: 'https://api.example/' }).baseUrl).to.equal('https://api.example')
    expect(read({ BASE_URL: 'http://localhost:9000' }).baseUrl).to.equal('http://localhost:9000')
    expect(() => read({ MARKETLOG_WEBHOOK_PORTS: '80,x' })).to.throw('MARKETLOG_WEBHOOK_PORTS must list ports')
  })

  it('counts as another where a setting, the market or a variable that the market names is another', () => {
    const folder = mkdtempSync(join(tmpdir(), 'marketlog-settings-'))
    const MARKET = join(folder, 'market.json')
    const write = (url: string) => {
      const feed = { provider: 'provider_02', side: 'ask', connector: 'http-json', interval_ms: 60_000 }
      writeFileSync(MARKET, JSON.stringify({ name: 'own', feeds: [{ ...feed, options: { url, mapping: '$' } }] }))
    }
    const differing = (a: object, b: object): string[] => {
      const [one, other] = [a, b].map(more => settingsOf({ MARKET, ...more })) as [
        Record<string, string>,
        Record<string, string>,
      ]
      return Object.keys({ ...one, ...other }).filter(name => one[name] !== other[name])
    }
    write('https://shop.example')
    const before = settingsOf({ MARKET })
    expect(
      differing({ PORT: '8080', PATH: '/bin', LOG_LEVEL: '' }, { PATH: '/usr/bin', MARKETLOG_RUN_DIR: '/run' }),
    ).to.deep.equal([])
    expect(differing({ TOKEN: 'a' }, { TOKEN: 'b', REDIS_URL: 'redis://a', PORT: '9000' })).to.deep.equal([
      'PORT',
      'REDIS_URL',
    ])
    write(`https://shop.example/\${TOKEN}`)
    expect(settingsOf({ MARKET }).MARKET).not.to.equal(before.MARKET)
    expect(differing({ TOKEN: 'a' }, { TOKEN: 'b' })).to.deep.equal(['TOKEN'])
    expect(JSON.stringify(settingsOf({ MARKET, TOKEN: 'a secret' }))).not.to.include('a secret')
    rmSync(folder, { recursive: true })
  })

  it('compares every setting that the documentation names, but where a platform is and what it is installed with', () => {
    const readme = readFileSync(new URL('../../infra/README.md', import.meta.url), 'utf8')
    const [, table = ''] = readme.split('## Configuration')
    const rows = [...table.matchAll(/^\| ((?:`[A-Z_]+`(?:, )?)+) +\|/gm)]
    const names = rows.flatMap(([, cell = '']) => cell.match(/[A-Z_]+/g) ?? [])
    expect(names).to.include.members(['PORT', 'KAFKA_BROKERS', 'MARKETLOG_NAMESPACE'])
    const settings = settingsOf({ ...Object.fromEntries(names.map(name => [name, 'x'])), MARKET: 'demo' })
    expect(names.filter(name => !(name in settings))).to.deep.equal([
      'MARKETLOG_RUN_DIR',
      'MARKETLOG_CACHE',
      'MARKETLOG_INSTALL',
    ])
  })

  it('leaves the addresses open when nothing runs, and the configuration then says what to do', () => {
    const environment = settleEnvironment({}, { ...local, servers: undefined }, true)
    for (const name of Object.keys(addressVariables(servers))) expect(environment[name]).to.equal(undefined)
    expect(() => readConfig(environment)).to.throw(/KAFKA_BROKERS is not set.*make up/s)
  })
})
