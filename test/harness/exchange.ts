/** One exchange with an HTTP server, of bytes as they are: over a pair of streams without a socket, or with a port. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { eventually, within } from './eventually.ts'

/** Sends the bytes of a request that closes its connection; gives the text of the answer. */
export async function exchange(server: Server, request: Buffer): Promise<string> {
  const [near, far] = streamPair()
  let text = ''
  near.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  server.emit('connection', far)
  near.write(request)
  await eventually(() => near.readableEnded, 'the end of the answer')
  return text
}

/** The same with a server on this machine, which ends the connection. */
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

/** An answer, read from its text. */
export function answerOf(text: string): { status: number; headers: Headers; text: string } {
  const [head = '', content = ''] = text.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = new Headers(lines.map(line => line.split(/: ?(.*)/).slice(0, 2) as [string, string]))
  return { status: Number(first.split(' ')[1]), headers, text: content }
}

/** Two streams, each of which reads what the other writes. */
function streamPair(): [Duplex, Duplex] {
  const pair: Duplex[] = [0, 1].map(at => {
    const other = () => pair[1 - at] as Duplex
    return new Duplex({
      read: () => undefined,
      write(chunk, _encoding, done) {
        other().push(chunk)
        done()
      },
      final(done) {
        other().push(null)
        done()
      },
    })
  })
  return pair as [Duplex, Duplex]
}
