/** One exchange with an HTTP server, of bytes as they are. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import { within } from './eventually.ts'
import { listen } from './listen.ts'

/** Sends the bytes of a request that closes its connection to a server that does not listen yet; gives the text of the answer. */
export async function exchange(server: Server, request: Buffer): Promise<string> {
  const { port, close } = await listen(server)
  return exchangeAt(port, request).finally(close)
}

/** The same with a server that listens on this machine. */
export async function exchangeAt(port: number, request: Buffer): Promise<string> {
  const { socket, text, ended } = await dial(port, 'utf8')
  socket.write(request)
  await within(ended, 'the server to end the connection')
  return text()
}

/** A connection to a server on this machine, and the text that it has sent. */
export async function dial(port: number, encoding: BufferEncoding = 'latin1') {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.setEncoding(encoding).on('data', chunk => {
    text += chunk
  })
  socket.on('error', () => undefined)
  const ended = once(socket, 'close')
  await once(socket, 'connect')
  return { socket, text: () => text, ended }
}

export function answerOf(text: string): { status: number; headers: Headers; text: string } {
  const [head = '', content = ''] = text.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = new Headers(lines.map(line => line.split(/: ?(.*)/).slice(0, 2) as [string, string]))
  return { status: Number(first.split(' ')[1]), headers, text: content }
}
