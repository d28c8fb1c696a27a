import { execFileSync } from 'node:child_process'
import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import type { PlatformFile } from '#services/cli/run-directory.ts'
import { describePlatform, sampleCalls } from '#services/cli/sample-calls.ts'

const platform: PlatformFile = {
  base_url: 'http://127.0.0.1:8080',
  market: 'demo',
  keys: { free: 'key-free', starter: 'key-starter', pro: 'key-pro', quant: 'key-quant' },
  services: {},
  servers: { kafka: '', schema_registry: '', redis: '', clickhouse: '', clickhouse_read_only: '', postgres: '' },
}

describe('the text of a started platform', () => {
  it('names the address first, then one key for each tier', () => {
    const text = describePlatform(platform)
    expect(text).to.match(/^\nmarketlog is live at http:\/\/127\.0\.0\.1:8080\n.* browser/)
    for (const tier of TIERS) expect(text).to.match(new RegExp(`${tier} +key-${tier}\n`))
  })

  it('leads into the console with the key in a fragment, which no server sees', () => {
    expect(describePlatform(platform)).to.match(/ http:\/\/127\.0\.0\.1:8080\/console\/#key=key-quant\n/)
  })

  it('holds each sample call as one line', () => {
    const lines = describePlatform(platform).split('\n')
    for (const { command } of sampleCalls(platform)) {
      expect(lines).to.include(command)
      expect(command).to.match(/^curl .* "http:\/\/127\.0\.0\.1:8080\/v1\/[a-z/]+"$/)
    }
  })

  it('reaches a shell as it was meant', () => {
    const item = 'AK-47 | Redline (Field-Tested)'
    for (const { command } of sampleCalls(platform)) {
      const words = execFileSync('sh', ['-c', `printf '%s\\n' ${command}`], { encoding: 'utf8' }).split('\n')
      const named = words.filter(word => word.startsWith('market_hash_name='))
      expect(named).to.deep.equal(command.includes('market_hash_name') ? [`market_hash_name=${item}`] : [])
    }
  })
})
