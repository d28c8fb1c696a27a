/**
 * The PROXY protocol, versions 1 and 2: what a proxy sends before the first byte of a connection to say whose it is.
 *
 * The reading is pure; `expectProxyHeaders` puts it before an HTTP server. Invariant: a connection of a trusted proxy is
 * handed on with its client's address, once its header was read whole, or is ended; any other peer's bytes are not looked at.
 * Source: HAProxy, "The PROXY protocol", versions 1 and 2.
 */
import type { Server } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { type IsTrusted, plainAddress } from './trusted-proxies.ts'

/** A header that was read: its length, and the client's address; none where the proxy speaks for itself. */
interface ProxyHeader {
  bytes: number
  source: string | undefined
}

const V1_BYTES_MAX = 107
const V1_START = Buffer.from('PROXY ')
const V2_START = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const V2_FIXED_BYTES = 16
/** Addresses and what a proxy adds: TLS, names, checksums. */
const V2_BYTES_MAX = 2_048
const CLIENTS = new WeakMap<Socket, string>()

/** The address of a connection's client, as its proxy or the network has it. */
export const peerOf = (socket: Socket): string | undefined => CLIENTS.get(socket) ?? socket.remoteAddress

/** Reads the header at the beginning of some bytes: `more` where it goes on, `none` where there is none. */
export function readProxyHeader(bytes: Buffer): ProxyHeader | 'more' | 'none' {
  if (startsWith(bytes, V2_START)) return bytes.length < V2_FIXED_BYTES ? 'more' : readV2(bytes)
  if (startsWith(bytes, V1_START)) return readV1(bytes)
  return 'none'
}

const startsWith = (bytes: Buffer, start: Buffer): boolean =>
  bytes.subarray(0, start.length).equals(start.subarray(0, bytes.length))

function readV1(bytes: Buffer): ProxyHeader | 'more' | 'none' {
  const end = bytes.subarray(0, V1_BYTES_MAX).indexOf('\r\n')
  if (end < 0) return bytes.length < V1_BYTES_MAX ? 'more' : 'none'
  const [, family, source = '', target = '', ...ports] = bytes.toString('latin1', 0, end).split(' ')
  const header = { bytes: end + 2, source: undefined }
  if (family === 'UNKNOWN') return header
  const version = family === 'TCP4' ? 4 : family === 'TCP6' ? 6 : undefined
  const isSound = isIP(source) === version && isIP(target) === version && ports.length === 2
  return isSound ? { ...header, source: plainAddress(source) } : 'none'
}

function readV2(bytes: Buffer): ProxyHeader | 'more' | 'none' {
  const [command = 0, family = 0] = bytes.subarray(V2_START.length)
  const length = V2_FIXED_BYTES + bytes.readUInt16BE(V2_FIXED_BYTES - 2)
  if (command >> 4 !== 2 || (command & 0xf) > 1 || length > V2_BYTES_MAX) return 'none'
  if (bytes.length < length) return 'more'
  const addresses = bytes.subarray(V2_FIXED_BYTES, length)
  // LOCAL: the proxy asks for itself, as its health checks do.
  if ((command & 0xf) === 0) return { bytes: length, source: undefined }
  if (family === 0x11 && addresses.length >= 12) return { bytes: length, source: addresses.subarray(0, 4).join('.') }
  if (family === 0x21 && addresses.length >= 36) return { bytes: length, source: plainAddress(v6Of(addresses)) }
  return family === 0 ? { bytes: length, source: undefined } : 'none'
}

/** A mapped address is written as such, so that it counts with the IPv4 address that it maps. */
function v6Of(bytes: Buffer): string {
  const isMapped = bytes.subarray(0, 10).every(byte => byte === 0) && bytes.readUInt16BE(10) === 0xffff
  if (isMapped) return `::ffff:${bytes.subarray(12, 16).join('.')}`
  return Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(i * 2).toString(16)).join(':')
}

/** Lets a server take connections of trusted peers only behind a header, which it reads within a limit. */
export function expectProxyHeaders(server: Server, isTrusted: IsTrusted, limitMs: number): void {
  const accept = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  const handOn = (socket: Socket): void => {
    for (const listener of accept) if (!socket.destroyed) listener.call(server, socket)
  }
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    if (socket.remoteAddress !== undefined && isTrusted(socket.remoteAddress)) awaitHeader(socket, limitMs, handOn)
    else handOn(socket)
  })
}

function awaitHeader(socket: Socket, limitMs: number, handOn: (socket: Socket) => void): void {
  let bytes: Buffer = Buffer.alloc(0)
  const cut = setTimeout(() => socket.destroy(), limitMs)
  const ignore = (): void => undefined
  const stop = (): void => {
    clearTimeout(cut)
    socket.off('readable', read).off('close', stop)
  }
  function read(): void {
    const chunk = socket.read() as Buffer | null
    if (chunk === null) return
    bytes = Buffer.concat([bytes, chunk])
    const header = readProxyHeader(bytes)
    if (header === 'more') return
    stop()
    if (header === 'none') return void socket.destroy()
    if (header.source !== undefined) CLIENTS.set(socket, header.source)
    if (bytes.length > header.bytes) socket.unshift(bytes.subarray(header.bytes))
    // The stream leaves its paused reading in the next tick; the server's own reading begins after that.
    setImmediate(() => {
      socket.off('error', ignore)
      if (socket.destroyed) return
      handOn(socket)
      if (!socket.destroyed) socket.resume()
    })
  }
  socket.on('readable', read).on('close', stop).on('error', ignore)
}
