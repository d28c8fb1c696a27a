import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { takeSocketOver } from '#infra/runtime/raw-socket.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { dial } from '#test/harness/exchange.ts'
import { listen } from '#test/harness/listen.ts'

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`

describe('a connection that is taken over', () => {
  let server: Server
  let port: number
  /** Those of the server's side. */
  let taken: Socket[] = []
  const dialed: Socket[] = []

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.removeHeader('transfer-encoding')
    response.writeHead(200, { 'x-mark': 'kept', connection: 'close' }).flushHeaders()
    await Promise.resolve()
    const socket = takeSocketOver(request, response)
    if (!socket) return
    taken.push(socket)
    socket.write('first\n')
  }

  beforeEach(async () => {
    taken = []
    server = createServer((request, response) => void answer(request, response))
    ;({ port } = await listen(server))
  })
  afterEach(async () => {
    for (const socket of [...dialed.splice(0), ...taken]) socket.destroy()
    server.close()
  })

  const open = async () => {
    const { socket, text } = await dial(port)
    dialed.push(socket)
    const before = taken.length
    socket.write(GET('/'))
    await eventually(() => text().endsWith('first\n'), 'the head and what follows')
    return { socket, text, own: taken[before] as Socket }
  }
  const connections = (): Promise<number> => promisify(server.getConnections.bind(server))()

  it('goes on behind the head that was written, and nothing of the request is kept', async () => {
    const { text, own } = await open()
    expect(text()).to.match(/^HTTP\/1\.1 200 OK\r\nx-mark: kept\r\n(.+\r\n)*\r\nfirst\n$/)
    own.write('second\n')
    await eventually(() => text().endsWith('\r\n\r\nfirst\nsecond\n'), 'what was written')
    expect(own).to.include({ parser: null, _httpMessage: null })
    expect(await connections()).to.equal(1)
  })

  for (const [how, leave] of [
    ['ends its side', (socket: Socket) => socket.end()],
    ['is gone', (socket: Socket) => socket.destroy()],
    ['breaks off', (socket: Socket) => socket.resetAndDestroy()],
  ] as const)
    it(`closes when the client ${how}`, async () => {
      const { socket, own } = await open()
      const closed = new Promise(resolve => void own.once('close', resolve))
      leave(socket)
      await within(closed, 'the end of the connection')
      expect(await connections()).to.equal(0)
    })

  it('drops whatever the client sends, requests included', async () => {
    const { socket, text, own } = await open()
    socket.write(GET('/again').repeat(1_000) + 'x'.repeat(1_000_000))
    await eventually(() => own.bytesRead > 1_000_000, 'all that was sent')
    own.write('second\n')
    await eventually(() => text().endsWith('first\nsecond\n'), 'what was written')
    expect(taken).to.have.length(1)
  })

  it('leaves the requests of all others to the server', async () => {
    const some = await Promise.all(Array.from({ length: 50 }, open))
    some.forEach(({ socket }, at) => {
      if (at % 2 === 0) socket.destroy()
    })
    await eventually(async () => (await connections()) === 25, 'half of them')
    const more = await Promise.all(Array.from({ length: 50 }, open))
    for (const { text } of more) expect(text()).to.match(/^HTTP\/1\.1 200 OK\r\n/)
    expect(await connections()).to.equal(75)
  })
})
