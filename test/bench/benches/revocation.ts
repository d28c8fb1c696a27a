/**
 * From the acknowledged revocation of a key to its refusal in another process, and to the end of its streams in a third.
 *
 * The key is in use: another query service is asked by it all the time, and it holds as many streams as it may. Each round
 * revokes at another moment of what the processes do regularly. The worst counts: a limit of a revocation is one of every one.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { within } from '#test/harness/eventually.ts'
import { openSse } from '#test/harness/sse-client.ts'
import type { Bench } from '../bench.ts'
import { askAs } from '../bench-platform.ts'
import { entryOf, worst } from '../entry.ts'

const ROUNDS = { full: 20, quick: 3 }
const IN_USE_MS = 500
const LATER_MS = 37
/** Adds at most so much. */
const POLL_MS = 5
const LIMIT_MS = 10_000

export const revocation: Bench = {
  name: 'revocation',
  about: 'seconds until a revoked key is refused in another process, and its streams have ended',
  async run(context) {
    const platform = await context.platform()
    const revoking = await platform.start('api', ['api'])
    const other = await platform.start('api-other', ['api'])
    const feed = await platform.start('feed', ['feed'])
    for (const process of [revoking, other, feed]) await process.ready()
    const [url, root] = [`${revoking.url}/v1/account/sub-keys`, await platform.newKey()]
    const rounds = ROUNDS[context.isQuick ? 'quick' : 'full']
    const [refusals, ends]: [number[], number[]] = [[], []]
    for (let round = 1; round <= rounds; round++) {
      context.signal.throwIfAborted()
      context.say(`round ${round} of ${rounds}`)
      const made = await askAs(root, url, { method: 'POST', body: JSON.stringify({ name: `round ${round}` }) })
      const { key, key_info } = JSON.parse(made) as { key: string; key_info: { id: string } }
      const refused = untilRefused(`${other.url}/v1/portfolio`, key)
      // It is waited for below.
      refused.catch(() => undefined)
      const streams = await Promise.all(['prices', 'bids'].map(side => openSse(`${feed.url}/feed/${side}`, { key })))
      for (const { status } of streams) if (status !== 200) throw new Error(`a stream was answered ${status}`)
      const ended = streams.map(stream => stream.ended.then(() => performance.now()))
      await pause(IN_USE_MS + round * LATER_MS)
      const startedAt = performance.now()
      await askAs(root, `${url}/${key_info.id}`, { method: 'DELETE' })
      const revokedAt = performance.now()
      const [refusedAt, ...endedAt] = await within(Promise.all([refused, ...ended]), 'the revocation', LIMIT_MS)
      if (Math.min(refusedAt, ...endedAt) < startedAt) throw new Error(`round ${round} ended before the revocation`)
      refusals.push((refusedAt - revokedAt) / 1_000)
      ends.push((Math.max(...endedAt) - revokedAt) / 1_000)
    }
    return [
      entryOf('revocation to refusal in another process', 's', refusals, worst),
      entryOf('revocation to the end of its streams', 's', ends, worst),
    ]
  },
}

async function untilRefused(url: string, key: string): Promise<number> {
  for (;;) {
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
    const text = await answer.text()
    if (text.includes('AUTH_API_KEY_REVOKED')) return performance.now()
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text}`)
    await pause(POLL_MS)
  }
}
