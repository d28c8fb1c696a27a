/**
 * Redis from the system package, with an append-only file.
 *
 * Writes <dataDir>/redis. Invariant: nothing is ever evicted - the views in it are truth for their readers until
 * rebuilt - and at most one second of writes is lost by a power cut, none by kill -9.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { onPath } from '../one-shot.ts'
import { redisAnswers } from '../readiness.ts'
import { installPackages } from '../system-packages.ts'
import type { PrepareServer, ToolContext } from './native-server.ts'

export const prepareRedis: PrepareServer = async context => {
  const command = await provideRedis(context)
  const home = join(context.dataDir, 'redis')
  mkdirSync(home, { recursive: true })
  const port = await context.port('redis')
  return {
    launch: {
      command,
      args: [
        ...['--port', String(port), '--bind', '127.0.0.1', '--dir', home, '--daemonize', 'no', '--save', ''],
        ...['--appendonly', 'yes', '--appendfsync', 'everysec', '--maxmemory-policy', 'noeviction'],
        ...['--aof-load-truncated', 'yes', '--tcp-backlog', '128'],
      ],
    },
    isReady: () => redisAnswers(port),
    addresses: { redis: `redis://127.0.0.1:${port}` },
  }
}

export async function provideRedis(context: ToolContext): Promise<string> {
  const PATH = `${context.environment.PATH ?? ''}:/usr/bin:/usr/local/bin`
  const find = () => [...onPath({ PATH }, 'redis-server'), ...onPath({ PATH }, 'valkey-server')][0]
  return find() ?? installPackages(context, ['redis-server'], 'The program redis-server is needed', find)
}
