/**
 * The text that a started platform ends with.
 */
import { expect } from 'chai'
import { type PlatformFile, TIERS } from '#services/cli/run-directory.ts'
import { describePlatform, sampleCalls } from '#services/cli/sample-calls.ts'

const platform: PlatformFile = {
  base_url: 'http://127.0.0.1:8080',
  market: 'demo',
  keys: { free: 'key-free', starter: 'key-starter', pro: 'key-pro', quant: 'key-quant' },
  services: {},
  servers: { kafka: '', schema_registry: '', redis: '', clickhouse: '', clickhouse_read_only: '', postgres: '' },
}

describe('the text of a started platform', () => {
  it('names the address and one key for each tier', () => {
    const text = describePlatform(platform)
    expect(text).to.include('live at http://127.0.0.1:8080\n')
    for (const tier of TIERS) expect(text).to.match(new RegExp(`${tier} +key-${tier}\n`))
  })

  it('holds each sample call as one line that a shell takes as it stands', () => {
    const lines = describePlatform(platform).split('\n')
    for (const { command } of sampleCalls(platform)) {
      expect(lines).to.include(command)
      expect(command).to.match(/^curl .* "http:\/\/127\.0\.0\.1:8080\/v1\/[a-z/]+"$/)
      expect((command.match(/"/g) ?? []).length % 2).to.equal(0)
    }
  })
})
