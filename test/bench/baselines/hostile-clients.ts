/**
 * Clients that mean harm, each of the kinds below without pause, until the process ends. Plain sockets, because no client library does what
 * these do. Each client has an address of its own on loopback, so that limits by address hold each apart; one whose connection is ended comes
 * back within a second.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { answerAsBaseline } from '../baseline.ts'

export interface HostileCrowd {
  apiPort: number
  feedPort: number
  clients: number
  free: readonly string[]
  quant: readonly string[]
  portfolios: readonly string[]
  /** Keys that do not exist, a second, of all together. */
  badKeysPerSecond: number
}

/** By kind, answers by kind and status. */
export interface HostileSeen {
  connections: Record<string, number>
  requests: Record<string, number>
  answers: Record<string, number>
}

interface Client {
  kind: string
  apiPort: number
  feedPort: number
  address: string
  free: string
  quant: string
  portfolio: string
}

const seen: HostileSeen = { connections: {}, requests: {}, answers: {} }
function count(of: Record<string, number>, name: string, more = 1): void {
  of[name] = (of[name] ?? 0) + more
}

const BEGIN = 'HTTP/1.1 '
const REQUESTS_PER_SECOND = 5
const EVERY_MS = 1_000 / REQUESTS_PER_SECOND
const COME_BACK_MS = 1_000
const DRIP_MS = 1_000
/** Answers that a reader leaves unread on one connection. */
const UNREAD = 20
const FLOOD = 50

const head = (line: string, key: string | undefined, more = ''): string =>
  `${line} HTTP/1.1\r\nHost: bench\r\n${key === undefined ? '' : `Authorization: Bearer ${key}\r\n`}${more}\r\n`

const withBody = (line: string, key: string | undefined, body: Buffer | string, more = ''): Buffer => {
  const length = `Content-Length: ${Buffer.byteLength(body)}\r\nContent-Type: application/json\r\n`
  return Buffer.concat([Buffer.from(head(line, key, length + more)), Buffer.from(body)])
}

/** A connection of a client; its answers are counted unless they are not read. */
function open(client: Client, port: number, isRead: boolean): Socket {
  const socket = connect({ port, host: '127.0.0.1', localAddress: client.address })
  count(seen.connections, client.kind)
  socket.on('error', () => undefined)
  if (isRead) {
    // By bytes: a text and a pattern take longer for an answer of 30 MB than the server does.
    socket.on('data', bytes => {
      for (let at = bytes.indexOf(BEGIN); at >= 0; at = bytes.indexOf(BEGIN, at + 1)) {
        const status = bytes.toString('latin1', at + BEGIN.length, at + BEGIN.length + 3)
        count(seen.answers, `${client.kind} ${status}`)
      }
    })
  } else socket.pause()
  return socket
}

const closed = (socket: Socket): Promise<void> =>
  new Promise(resolve => (socket.closed ? resolve() : socket.once('close', () => resolve())))

/** Sends requests at a pace over kept connections, without end. */
async function askAgain(client: Client, port: number, request: (turn: number) => Buffer | string): Promise<never> {
  for (let turn = 0; ; ) {
    const socket = open(client, port, true)
    while (!socket.closed) {
      socket.write(request(turn++))
      count(seen.requests, client.kind)
      await delay(EVERY_MS)
    }
    await delay(COME_BACK_MS)
  }
}

/** Sends a beginning, then a byte a second as long as it is let, without end. */
async function drip(client: Client, beginning: string): Promise<never> {
  for (;;) {
    const socket = open(client, client.apiPort, true)
    socket.write(beginning)
    count(seen.requests, client.kind)
    while (!socket.closed) {
      await delay(DRIP_MS)
      socket.write('x')
    }
    await delay(COME_BACK_MS)
  }
}

/** Asks and reads nothing, without end. */
async function leaveUnread(client: Client, port: number, request: Buffer | string, times: number): Promise<never> {
  for (;;) {
    const socket = open(client, port, false)
    for (let i = 0; i < times; i++) socket.write(request)
    count(seen.requests, client.kind, times)
    await closed(socket)
    await delay(COME_BACK_MS)
  }
}

const WRONG = JSON.stringify({ items: [], providers: Array.from({ length: 20_000 }, () => 1) })
const PACKED = gzipSync(JSON.stringify({ items: [], providers: Array.from({ length: 500_000 }, () => 1) }))
const ALERTS = JSON.stringify({
  alerts: Array.from({ length: 100 }, (_, at) => ({
    item_id: at + 1,
    kind: 'price_below',
    threshold_value: String(at + 1),
    is_enabled: false,
  })),
})
const FORM = 'Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 5000000\r\n'
const PART = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\ndate,type'

/** Found by the bench `cost` to cost most of all without a budget of their own. */
const COSTLY = [
  `GET /items?q=${'a+'.repeat(99)}a`,
  'GET /items?is_souvenir=false',
  'GET /prices?phase=Phase+2&limit=1000',
  'GET /prices?limit=1000&offset=500000&currency=EUR',
  'GET /market/arbitrage?limit=1000&min_spread_pct=5&providers_buy=provider_02&providers_sell=provider_03',
]
const HUNDRED = JSON.stringify({ item_ids: Array.from({ length: 100 }, (_, at) => at + 1) })

/** Each kind by its name; the numbers are those of the ways in that services/README.md lists. */
const KINDS: Record<string, (client: Client) => Promise<never>> = {
  'bodies that break every rule': client =>
    askAgain(client, client.apiPort, turn => {
      const line = 'POST /portfolio/value'
      return turn % 2 === 0
        ? withBody(line, client.free, WRONG)
        : withBody(line, client.free, PACKED, 'Content-Encoding: gzip\r\n')
    }),
  'answers left unread': client =>
    leaveUnread(client, client.apiPort, head('GET /items?q=a&limit=1000', client.free), UNREAD),
  'requests without a key': client =>
    askAgain(client, client.apiPort, turn => {
      const paths = ['/prices', '/r/provider_01/1', '/openapi.json', '/account/login']
      return head(`GET ${paths[turn % paths.length]}`, undefined)
    }),
  replays: client =>
    askAgain(client, client.feedPort, turn =>
      head(`GET /feed/replay/prices?from=2020-01-01&speed=${turn % 2 === 0 ? '0.1' : '0.001'}`, client.quant),
    ),
  'alerts and searches': client =>
    askAgain(client, client.apiPort, turn => {
      if (turn % 3 === 0) return withBody('POST /account/alerts/batch', client.free, ALERTS)
      if (turn % 3 === 1) return head('GET /account/alerts?search=a', client.free)
      return head(`GET /portfolio/${client.portfolio}/performance`, client.free)
    }),
  'slow files': client =>
    drip(client, head(`POST /portfolio/${client.portfolio}/import/csv`, client.free, FORM) + PART),
  'slow headers': client => drip(client, `GET /prices HTTP/1.1\r\nHost: bench\r\nX-Slow: `),
  'slow bodies': client =>
    drip(
      client,
      head('POST /portfolio/value', client.free, 'Content-Type: application/json\r\nContent-Length: 60000\r\n'),
    ),
  'idle connections': async client => {
    const own = new Set<Socket>()
    for (;;) {
      while (own.size < FLOOD) {
        const socket = open(client, client.apiPort, true)
        own.add(socket)
        socket.once('close', () => own.delete(socket))
      }
      await delay(COME_BACK_MS)
      for (const socket of own) if (Math.random() < 0.1) socket.destroy()
    }
  },
  'bulk streams left unread': client =>
    leaveUnread(client, client.apiPort, withBody('POST /prices', client.quant, '{}'), 1),
  'costly requests': client =>
    askAgain(client, client.apiPort, turn => {
      const costly = COSTLY[turn % (COSTLY.length + 1)]
      return costly ? head(costly, client.quant) : withBody('POST /prices/batch', client.quant, HUNDRED)
    }),
}
const BAD_KEYS = 'keys that do not exist'

/** Tries keys at a rate, from the addresses of all. */
async function tryKeys(clients: readonly Client[], perSecond: number): Promise<never> {
  const sockets = new Map<Client, Socket>()
  const startedAt = performance.now()
  for (let tried = 0; ; tried++) {
    const early = startedAt + (tried * 1_000) / perSecond - performance.now()
    if (early > 1) await delay(early)
    const client = { ...(clients[tried % clients.length] as Client), kind: BAD_KEYS }
    const at = clients[tried % clients.length] as Client
    const known = sockets.get(at)
    const socket = known && !known.closed && known.writable ? known : open(client, client.apiPort, true)
    sockets.set(at, socket)
    socket.write(head('GET /prices?item_id=1', `sk_live_root_${String(tried).padStart(43, '0')}`))
    count(seen.requests, BAD_KEYS)
  }
}

answerAsBaseline({
  async begin({ clients, badKeysPerSecond, free, quant, portfolios, ...ports }: HostileCrowd) {
    const kinds = Object.keys(KINDS)
    const all = Array.from({ length: clients }, (_, at): Client => {
      const kind = kinds[at % kinds.length] as string
      const [key, portfolio] = [free[at] as string, portfolios[at] as string]
      return { ...ports, kind, address: `127.0.1.${at + 1}`, free: key, quant: quant[at] as string, portfolio }
    })
    for (const client of all) void KINDS[client.kind]?.(client)
    void tryKeys(all, badKeysPerSecond)
    return [...kinds, BAD_KEYS]
  },
  seen: async (): Promise<HostileSeen> => seen,
})
