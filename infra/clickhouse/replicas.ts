/**
 * Connections to the replicas of an address: to the one that answered last, else to the next.
 *
 * Certificates are read at each connection. What has been sent is never sent to another replica from here: a request that breaks is its
 * sender's to repeat, by the same token where it writes (batcher.ts).
 */
import { Agent, type AgentOptions } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ClickhouseAddress } from '../runtime/clickhouse-address.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'

const CONNECT_LIMIT_MS = 5_000

type Done = (error: Error | null, socket?: Socket) => void

/** An agent for requests to an address, as the client takes it. */
export function openAgent({ replicas, isTls, tls }: ClickhouseAddress, connections: number): Agent {
  const options: AgentOptions = { keepAlive: true, maxSockets: connections }
  const agent = isTls ? new TlsAgent(options) : new Agent(options)
  let chosen = 0
  const open = (): Socket => {
    const { host, port } = replicas[chosen % replicas.length] as ClickhouseAddress['replicas'][number]
    if (!isTls) return connectPlain({ host, port })
    return connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }), ...readTlsFiles(tls) })
  }
  const tryEach = (left: number, done: Done): void => {
    const turn = chosen
    const next = (error: Error): void => {
      if (turn === chosen) chosen += 1
      if (left > 1) tryEach(left - 1, done)
      else done(error)
    }
    connected(open, isTls ? 'secureConnect' : 'connect', (error, socket) => (error ? next(error) : done(null, socket)))
  }
  // The agent's own function keeps the host and the certificates that it was made with.
  agent.createConnection = (_, done) => {
    tryEach(replicas.length, done as Done)
    return undefined
  }
  return agent
}

/** Opens a connection and waits for it within a limit; a file that cannot be read is its error too. */
function connected(open: () => Socket, event: 'connect' | 'secureConnect', done: Done): void {
  let socket: Socket
  try {
    socket = open()
  } catch (error) {
    done(error as Error)
    return
  }
  const limit = setTimeout(
    () => fail(Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' })),
    CONNECT_LIMIT_MS,
  )
  const fail = (error: Error): void => {
    clearTimeout(limit)
    socket.removeAllListeners(event)
    // A socket that is destroyed may report its error once more.
    socket.off('error', fail).on('error', () => undefined)
    socket.destroy()
    done(error)
  }
  socket.once('error', fail).once(event, () => {
    clearTimeout(limit)
    socket.off('error', fail)
    done(null, socket)
  })
}
