/**
 * Takes the connection of an answer over from Node's HTTP server, when the answer's head has been written.
 *
 * For answers that last for hours. What Node keeps beside a socket while it answers (parser, request, answer, their
 * listeners) is 10 kB a connection, of which a stream of events needs nothing. Done as Node itself does it when it hands a
 * socket to another process, with its own `freeParser`. Invariant: afterwards nothing but the socket is kept, the server
 * still counts the connection until it closes, and what the client sends is dropped, as an answer under way makes it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

/** Node's own, which types do not know. */
const { freeParser } = createRequire(import.meta.url)('node:_http_common') as {
  freeParser(parser: object, request: IncomingMessage, socket: Socket): void
}

/**
 * Takes the socket of an answer over; undefined when the client is gone. Not within the event that brought the request:
 * its parser is at work then. The answer must say that the connection ends with it, and must be the one that is
 * being answered.
 */
export function takeSocketOver(request: IncomingMessage, response: ServerResponse): Socket | undefined {
  const socket = response.socket as (Socket & { parser?: object | null }) | null
  if (!socket || socket.destroyed) return undefined
  const { parser } = socket
  response.detachSocket(socket)
  if (parser) freeParser(parser, request, socket)
  // Those of the HTTP server hold all that shall go.
  socket.removeAllListeners()
  // `close` follows an error.
  socket.on('error', () => undefined)
  socket.on('end', destroy).resume()
  return socket
}

/** A client that sends no more is gone, as the HTTP server has it. */
function destroy(this: Socket): void {
  this.destroy()
}
