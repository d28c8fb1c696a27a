/**
 * What a command fills into its environment, and what it must leave alone.
 */
import { expect } from 'chai'
import { readConfig } from '#infra/runtime/config.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { addressVariables, settleEnvironment } from '#services/cli/settle-environment.ts'

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

  it('gives the known port to processes that serve clients, and any free one to others', () => {
    const portOf = (serves: boolean) => settleEnvironment({}, local, serves).PORT
    expect([portOf(true), portOf(false)]).to.deep.equal(['8080', '0'])
  })

  it('leaves the addresses open when nothing runs, and the configuration then says what to do', () => {
    const environment = settleEnvironment({}, { ...local, servers: undefined }, true)
    for (const name of Object.keys(addressVariables(servers))) expect(environment[name]).to.equal(undefined)
    expect(() => readConfig(environment)).to.throw(/KAFKA_BROKERS is not set.*make up/s)
  })
})
