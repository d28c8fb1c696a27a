/** CURSOR_KEY was the database's password, Redis asked for none, and a deployment simulated a market of its own. */
import { readFileSync } from 'node:fs'
import { expect } from 'chai'

const COMPOSE = readFileSync(new URL('../../infra/compose.yaml', import.meta.url), 'utf8')
const serviceOf = (name: string): string =>
  COMPOSE.match(new RegExp(`\\n  ${name}:\\n((?:    .*\\n|\\s*\\n|  +#.*\\n)+)`))?.[1] ?? ''

describe('the compose file', () => {
  it('names no secret, and gives none the value of another', () => {
    const values = [...COMPOSE.matchAll(/^\s+\w*(?:PASSWORD|_KEY|SECRET): (.*)$/gm)].map(([, value]) => value)
    expect(values.length).to.be.greaterThan(5)
    for (const value of values) expect(value).to.match(/^\$\{\w+(:-|:\?[\w ]+|:-\$\{\w+:\?[\w ]+\})\}$/)
    expect(serviceOf('marketlog')).to.include(`\n      CURSOR_KEY: \${CURSOR_KEY:-}\n`)
  })

  it('asks for the public root, and simulates no market unless it is named', () => {
    expect(serviceOf('marketlog')).to.include(`BASE_URL: \${BASE_URL:-}`).and.to.include(`MARKET: \${MARKET:-empty}`)
  })

  it('runs the platform without capabilities, on a root that is read-only, within limits, and asks for its readiness', () => {
    const platform = serviceOf('marketlog')
    for (const line of ['read_only: true', 'cap_drop: [ALL]', 'no-new-privileges:true', 'mem_limit:', 'pids_limit:'])
      expect(platform).to.include(line)
    expect(platform.split('healthcheck:')[1]).to.include('127.0.0.1:8081/readyz')
  })

  it('has Redis ask for a password, which no argument holds', () => {
    expect(serviceOf('redis'))
      .to.include('requirepass $$REDISCLI_AUTH')
      .and.not.to.match(/--requirepass/)
    expect(serviceOf('marketlog')).to.match(/redis:\/\/:\$\{MARKETLOG_PASSWORD/)
  })
})
