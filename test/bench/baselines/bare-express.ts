/**
 * The limit of a read: an Express route without anything around it that sends the same bytes.
 *
 * Asks the platform once for every answer and keeps it as bytes; what is POSTed is parsed as JSON. Express' own ETag is off, which makes it faster
 * by a third and so the harder limit.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type RequestHandler } from 'express'
import { answerAsBaseline } from '../baseline.ts'
import type { HttpQuestion } from '../http-load.ts'

/** Which answers to serve: questions to one route, distinguished by the query parameter `asked`. */
export interface ServeRequest {
  baseUrl: string
  headers: Record<string, string>
  questions: readonly HttpQuestion[]
}

/** Where they are served. */
export interface Serving {
  baseUrl: string
  /** Bytes of an answer's body, in the middle. */
  bytes: number
}

const KEPT_AT_ONCE = 8

async function serve({ baseUrl, headers, questions }: ServeRequest): Promise<Serving> {
  const bodies = new Map<string, Buffer>()
  const waiting = questions.values()
  const keep = async (): Promise<void> => {
    for (const { path, body } of waiting) {
      const sent = body === undefined ? {} : { method: 'POST', body }
      const type = body === undefined ? undefined : { 'content-type': 'application/json' }
      const answer = await fetch(baseUrl + path, { ...sent, headers: { ...headers, ...type } })
      if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
      bodies.set(new URL(path, baseUrl).searchParams.get('asked') ?? '', Buffer.from(await answer.arrayBuffer()))
    }
  }
  await Promise.all(Array.from({ length: KEPT_AT_ONCE }, keep))
  const app = express()
  app.set('etag', false)
  const [first] = questions
  const route = new URL(first?.path ?? '/', baseUrl).pathname
  const send: RequestHandler = (request, response) => {
    response.type('application/json').send(bodies.get(String(request.query.asked)))
  }
  if (first?.body === undefined) app.get(route, send)
  else app.post(route, express.json(), send)
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sizes = [...bodies.values()].map(body => body.length).sort((a, b) => a - b)
  const bytes = sizes[Math.floor(sizes.length / 2)] ?? 0
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bytes }
}

/** CPU seconds of this process so far. */
async function cpuSeconds(): Promise<number> {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

answerAsBaseline({ serve, cpuSeconds })
