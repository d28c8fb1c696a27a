/**
 * The limit of a read: an Express route without anything around it that sends the same bytes, kept of one answer of the platform to each
 * question; and of a bulk stream: Express' own file server. Express' ETag is off, which makes it faster by a third and so the harder limit.
 */
import { createServer } from 'node:http'
import express, { type Express, type RequestHandler } from 'express'
import { listen } from '#test/harness/listen.ts'
import { answerAsBaseline } from '../baseline.ts'
import type { HttpTarget } from '../http-load.ts'

const KEPT_AT_ONCE = 8

/** Serves the answers to questions to one route, distinguished by the query parameter `asked`; resolves with the base URL. */
async function serve({ baseUrl, headers, questions }: HttpTarget): Promise<string> {
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
  return open(app)
}

const open = async (app: Express): Promise<string> => `http://127.0.0.1:${(await listen(createServer(app))).port}`

answerAsBaseline({ serve, serveFolder: (folder: string) => open(express().use(express.static(folder))) })
