/**
 * Files of forms on a real server. Eight uploads that trickled used to hold the places of all others, since a place was taken
 * before a file had come.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { openFormFiles } from '#infra/http/form-file.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { eventually } from '#test/harness/eventually.ts'

const LIMITS = {
  field: 'file',
  maxBytes: 100_000,
  atOnce: 2,
  receivingBytes: 300_000,
  leastBytes: 1,
  paceMs: 60_000,
  large: { maxBytes: 400_000, isAllowed: (start: Buffer) => start.includes('large') },
}
const BEGIN = '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\ncontent-type: text/csv\r\n\r\n'
const END = '\r\n--b--\r\n'

describe('a file of a form', () => {
  let server: Server
  let sockets: Socket[] = []
  /** The server's side of these, once a request has come over them. */
  let asking: Socket[] = []
  let work: (file: Buffer) => Promise<number>

  async function open(limits: Partial<typeof LIMITS> = {}): Promise<void> {
    const withFile = openFormFiles({ ...LIMITS, ...limits })
    server = createServer((request, response) => {
      asking.push(request.socket)
      withFile({ request, response, accountId: request.url ?? '' }, file => work(file)).then(
        size => response.end(`read ${size}`),
        error => response.end(error instanceof HttpError ? error.code : String(error)),
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
  }
  beforeEach(() => {
    sockets = []
    asking = []
    work = async file => file.length
  })
  afterEach(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  })

  async function begin(account: string, part: string, length = BEGIN.length + part.length + END.length) {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    sockets.push(socket)
    let text = ''
    socket.on('error', () => undefined)
    socket.setEncoding('utf8').on('data', chunk => {
      text += chunk
    })
    await once(socket, 'connect')
    const head = ['Host: t', 'Content-Type: multipart/form-data; boundary=b', `Content-Length: ${length}`]
    socket.write(`POST /${account} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${BEGIN}${part}`)
    const said = (what: string): Promise<unknown> =>
      eventually(() => text.includes(what), `${what} for ${account}, not ${text.slice(-100)}`)
    return { said, end: () => socket.write(END) }
  }
  const arrived = (requests: number, bytes = 0): Promise<unknown> =>
    eventually(
      () => asking.length >= requests && asking.reduce((sum, { bytesRead }) => sum + bytesRead, 0) >= bytes,
      `${requests} requests of ${bytes} bytes`,
    )
  const upload = async (account: string, file = 'abc') => {
    const asked = await begin(account, file)
    asked.end()
    return asked
  }

  it('is read while any number of others trickle', async () => {
    await open()
    for (let i = 0; i < 20; i += 1) await begin(`slow-${i}`, 'a')
    await arrived(20)
    await (await upload('good')).said('read 3')
  })

  it('waits for those of its account before it, of which there are eight at most', async () => {
    await open()
    const first = await begin('one', 'abc')
    await arrived(1)
    await (await upload('other')).said('read 3')
    const read: number[] = []
    work = async file => read.push(file.length)
    const waiting = []
    for (let i = 1; i < 8; i += 1) {
      waiting.push(await upload('one', 'x'.repeat(i)))
      await arrived(i + 2)
    }
    await (await upload('one')).said('RATE_LIMIT_EXCEEDED')
    await (await upload('other')).said('read 1')
    first.end()
    await first.said('read 2')
    for (const [i, each] of waiting.entries()) await each.said(`read ${i + 3}`)
    expect(read).to.deep.equal([3, 3, 1, 2, 3, 4, 5, 6, 7])
  })

  it('is worked on with so many others, and not beside more', async () => {
    await open()
    const done = Promise.withResolvers<number>()
    let begun = 0
    work = () => {
      begun += 1
      return done.promise
    }
    const busy = [await upload('a'), await upload('b')]
    await eventually(() => begun === 2, 'both to be worked on')
    await (await upload('c')).said('SERVICE_UNAVAILABLE')
    done.resolve(7)
    for (const each of busy) await each.said('read 7')
    work = async file => file.length
    await (await upload('c')).said('read 3')
  })

  it('is larger than others where its start allows that, up to a limit, and beside no other such', async () => {
    await open()
    const large = (bytes: number) => 'large'.padEnd(bytes, 'x')
    const first = await begin('a', large(350_000))
    await arrived(1, 350_000)
    await (await upload('b', large(100_001))).said('SERVICE_UNAVAILABLE')
    await (await upload('b', 'x'.repeat(90_000))).said('read 90000')
    first.end()
    await first.said('read 350000')
    await (await upload('b', large(400_000))).said('read 400000')
    await (await upload('b', large(400_001))).said('PAYLOAD_TOO_LARGE')
    await (await upload('b', 'x'.repeat(100_001))).said('PAYLOAD_TOO_LARGE')
  })

  it('is refused when it comes too slowly, and leaves its account free', async () => {
    await open({ leastBytes: 1_000, paceMs: 500 })
    await (await begin('slow', 'abc')).said('REQUEST_TIMEOUT')
    await (await upload('slow', 'x'.repeat(2_000))).said('read 2000')
  })

  it('is refused where too much of others has come, and not once that is gone', async () => {
    await open()
    const part = 'x'.repeat(90_000)
    const waiting = [await begin('a', part), await begin('b', part), await begin('c', part)]
    await arrived(3, 3 * part.length)
    await (await upload('d', part)).said('SERVICE_UNAVAILABLE')
    for (const each of waiting) each.end()
    for (const each of waiting) await each.said('read 90000')
    await (await upload('d', part)).said('read 90000')
  })
})
