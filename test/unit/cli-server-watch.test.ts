import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'
import { type ServerWatchOptions, watchServers } from '#services/cli/server-watch.ts'
import { eventually } from '#test/harness/eventually.ts'

const EVERY_MS = 20

describe('the watch over servers', () => {
  const never = new AbortController().signal
  const pids: number[] = []
  afterEach(() => {
    for (const pid of pids.splice(0)) process.kill(pid, 'SIGKILL')
  })

  /** A process of our own in place of a server. */
  async function start(): Promise<number> {
    const child = spawn('sleep', ['600'])
    await once(child, 'spawn')
    pids.push(child.pid ?? 0)
    return child.pid ?? 0
  }
  const kill = (pid: number) => {
    process.kill(pid, 'SIGKILL')
    pids.splice(pids.indexOf(pid), 1)
  }

  async function watch(failures: number, giveUpAfterMs = Number.POSITIVE_INFINITY) {
    const pids = { redis: await start() }
    const said: string[] = []
    const givenUp: string[] = []
    let starts = 0
    const restart = async () => {
      starts += 1
      if (starts <= failures) throw new Error('no room on its disk')
      pids.redis = await start()
    }
    const servers: ServerWatchOptions['servers'] = { pids, restart }
    const stop = watchServers({
      servers,
      report: line => void said.push(line),
      everyMs: EVERY_MS,
      giveUpAfterMs,
      signal: never,
      onGivenUp: (name, error) => void givenUp.push(`${name}: ${error.message}`),
    })
    return { servers, said, givenUp, starts: () => starts, stop }
  }

  it('used to end the platform: it starts what was killed again, each time', async () => {
    const { servers, said, givenUp, starts, stop } = await watch(0)
    for (let round = 1; round <= 2; round++) {
      const before = servers.pids.redis ?? 0
      kill(before)
      await eventually(() => starts() === round && servers.pids.redis !== before, 'a new process')
      await eventually(() => said.filter(line => line.includes('answers again')).length === round, 'a word')
    }
    await stop()
    expect(givenUp).to.deep.equal([])
    expect(said[0]).to.equal('redis has ended; starting it again')
  })

  it('tries again after a start that failed, and says why it did', async () => {
    const { servers, said, starts, stop } = await watch(2)
    kill(servers.pids.redis ?? 0)
    await eventually(() => starts() === 3, 'the third start')
    await stop()
    expect(said.filter(line => line.startsWith('no room on its disk'))).to.have.length(2)
  })

  it('gives a server up that does not come back, once', async () => {
    const { servers, givenUp, stop } = await watch(Number.POSITIVE_INFINITY, 100)
    kill(servers.pids.redis ?? 0)
    await eventually(() => givenUp.length > 0, 'the end of patience')
    await stop()
    expect(givenUp).to.deep.equal(['redis: no room on its disk'])
  })
})
