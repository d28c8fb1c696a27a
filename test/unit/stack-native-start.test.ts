import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { type NativeServers, startNative } from '#infra/stack/native-start.ts'
import { eventually } from '#test/harness/eventually.ts'

const FIRST_PAUSE_MS = 20

describe('servers that are kept', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-kept-'))
  before(() => {
    for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  })
  after(() => rmSync(dataDir, { recursive: true }))

  /** A process of our own in place of a server. */
  async function start(failures: number, giveUpAfterMs?: number) {
    const lines: string[] = []
    const lost: string[] = []
    let starts = -1
    const prepare = async () => {
      starts += 1
      if (starts > 0 && starts <= failures) throw new Error('no room on its disk')
      return { launch: { command: 'sleep', args: ['600'] }, isReady: async () => true, addresses: {} }
    }
    const options = {
      dataDir,
      environment: process.env,
      signal: new AbortController().signal,
      say: (line: string) => void lines.push(line),
      onLost: (name: string, error: Error) => void lost.push(`${name}: ${error.message.split('\n')[0]}`),
    }
    const servers = await startNative(options, { redis: prepare }, { firstPauseMs: FIRST_PAUSE_MS, giveUpAfterMs })
    return { servers, lines, lost, starts: () => starts }
  }
  const kill = (servers: NativeServers) => process.kill(servers.pids.redis ?? 0, 'SIGKILL')

  it('used to end the platform: what is killed is started again, each time, until it is stopped', async () => {
    const { servers, lines, lost, starts } = await start(0)
    for (let round = 1; round <= 2; round++) {
      kill(servers)
      await eventually(() => lines.filter(line => line.includes('answers again')).length === round, 'a new process')
    }
    expect(lines[0]).to.equal('redis has ended; starting it again')
    await servers.stop()
    expect({ lost, starts: starts() }).to.deep.equal({ lost: [], starts: 2 })
  })

  it('are tried again after a start that failed, and why it did is said', async () => {
    const { servers, lines, starts } = await start(2)
    kill(servers)
    await eventually(() => starts() === 3, 'the third start')
    await servers.stop()
    expect(lines.filter(line => line.includes('no room on its disk'))).to.have.length(2)
  })

  it('are given up when they do not come back, once', async () => {
    const { servers, lost } = await start(Number.POSITIVE_INFINITY, 100)
    kill(servers)
    await eventually(() => lost.length > 0, 'the end of patience')
    await servers.stop()
    expect(lost).to.deep.equal(['redis: redis could not be started: no room on its disk'])
  })
})
