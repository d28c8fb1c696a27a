/**
 * The limit of a GET: an Express route without anything around it that sends the same bytes.
 *
 * Asks the platform once for every answer and keeps it as bytes. Express' own ETag is off, which makes it faster
 * by a third and so the harder limit.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { answerAsYardstick } from '../yardstick.ts'

/** Which answers to serve: a route's path, and the query parameter that tells them apart. */
export interface ServeRequest {
  baseUrl: string
  headers: Record<string, string>
  path: string
  parameter: string
  values: readonly string[]
}

/** Where they are served. */
export interface Serving {
  baseUrl: string
  /** Bytes of an answer's body, in the middle. */
  bytes: number
}

async function serve({ baseUrl, headers, path, parameter, values }: ServeRequest): Promise<Serving> {
  const bodies = new Map<string, Buffer>()
  for (const value of values) {
    const answer = await fetch(`${baseUrl}${path}?${parameter}=${encodeURIComponent(value)}`, { headers })
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
    bodies.set(value, Buffer.from(await answer.arrayBuffer()))
  }
  const app = express()
  app.set('etag', false)
  app.get(path, (request, response) => {
    response.type('application/json').send(bodies.get(String(request.query[parameter])))
  })
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

answerAsYardstick({ serve, cpuSeconds })
