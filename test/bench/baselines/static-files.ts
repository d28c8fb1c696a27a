/**
 * The limit of a bulk stream: Express' own file server with the same bytes in a file.
 *
 * Serves one folder and does nothing else.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { answerAsBaseline } from '../baseline.ts'

/** Serves the files of a folder; answers its base URL. */
async function serve(folder: string): Promise<string> {
  const server = createServer(express().use(express.static(folder))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

answerAsBaseline({ serve })
