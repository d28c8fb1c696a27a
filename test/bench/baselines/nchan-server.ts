/**
 * nchan, nginx's module for event streams, as a server of the same events at the same pace.
 *
 * One worker, memory store, nothing kept, no log. This process publishes over HTTP; what counts is the worker's CPU time.
 * nginx runs in a folder of its own and ends with this process.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import { freePort } from '#test/harness/listen.ts'
import { cpuSecondsOf } from '#test/harness/process-figures.ts'
import { answerAsBaseline, type Measured } from '../baseline.ts'
import type { FeedPace } from './feed-server.ts'

export interface NchanPrograms {
  program: string
  module: string
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

let port = 0
let nginx: ChildProcess | undefined

const configOf = (folder: string, module: string): string => `
load_module ${module};
daemon off; worker_processes 1; worker_rlimit_nofile 16384; pid ${folder}/pid; error_log stderr emerg; user root;
events { worker_connections 8192; }
http {
  access_log off; tcp_nodelay on;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location = /publish { nchan_publisher; nchan_channel_id feed; nchan_message_timeout 5s; nchan_message_buffer_length 10; }
    location = /feed/prices { nchan_subscriber eventsource; nchan_channel_id feed; nchan_subscriber_first_message newest; }
  }
}
`

function workerSeconds(): number {
  const master = nginx?.pid
  const [worker] = readFileSync(`/proc/${master}/task/${master}/children`, 'utf8').trim().split(' ')
  return cpuSecondsOf(Number(worker))
}

async function publish(body: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const options = { agent, method: 'POST', port, host: '127.0.0.1', path: '/publish' }
  const post = request(options, answer => void answer.resume().once('end', resolve)).once('error', reject)
  post.end(body)
  await promise
}

/** The same data as the other servers deliver, for one item. */
const dataNow = (): string => {
  const made = process.hrtime.bigint() / 1_000n
  const item = `{"item_id":1,"market_hash_name":"AK-47 | Redline 0 (Field-Tested)","phase":null,"price":100,"qty":${made},"change":"added"}`
  return `{"provider":"p","seen_at":"${new Date().toISOString()}","items":[${item}]}`
}

answerAsBaseline({
  async open({ program, module }: NchanPrograms): Promise<number> {
    port = await freePort()
    const folder = mkdtempSync(join(tmpdir(), 'marketlog-nchan-'))
    writeFileSync(join(folder, 'nginx.conf'), configOf(folder, module))
    nginx = spawn(program, ['-p', folder, '-c', join(folder, 'nginx.conf')], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    process.on('exit', () => {
      nginx?.kill('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    })
    await eventually(() => publish(dataNow()).then(() => true), 'nginx to answer')
    return port
  },
  async run({ events, perSecond }: FeedPace): Promise<Measured> {
    const [startedAt, before] = [performance.now(), workerSeconds()]
    for (let at = 0; at < events; at++) {
      const early = startedAt + (at * 1_000) / perSecond - performance.now()
      if (early > 0) await delay(early)
      await publish(dataNow())
    }
    const ms = performance.now() - startedAt
    // What was published last may not be delivered yet.
    await delay(500)
    return { count: events, ms, cpuSeconds: workerSeconds() - before }
  },
})
