/** One exchange with an HTTP server over a pair of streams: there is no socket. */
import type { Server } from 'node:http'
import { Duplex } from 'node:stream'
import { eventually } from './eventually.ts'

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
