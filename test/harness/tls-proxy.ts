/** A way by TLS to a server that cannot speak it. */
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createServer } from 'node:tls'
import { listen } from './listen.ts'

export type TlsProxy = Awaited<ReturnType<typeof openTlsProxy>>

/** Opens a proxy before the server of a URL; with an authority, clients need a certificate that it has signed. */
export async function openTlsProxy(
  target: string,
  pem: { key: string; certificate: string },
  clientAuthority?: string,
) {
  const { hostname, port: targetPort } = new URL(target)
  const open = new Set<{ destroy(): unknown }>()
  let secured = 0
  const options = {
    key: readFileSync(pem.key),
    cert: readFileSync(pem.certificate),
    ...(clientAuthority && { ca: readFileSync(clientAuthority), requestCert: true, rejectUnauthorized: true }),
  }
  const server = createServer(options, near => {
    secured += 1
    const far = connect(Number(targetPort), hostname)
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        open.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far)
    far.pipe(near)
  })
  // A client that does not accept the certificate ends its handshake.
  server.on('tlsClientError', () => undefined)
  const { port, close } = await listen(server)
  return {
    port,
    /** The server's URL by way of the proxy, `http:` as `https:`. */
    urlOf(given: string): string {
      const url = new URL(given.replace(/^http:/, 'https:'))
      url.host = `127.0.0.1:${port}`
      return url.href
    },
    secured: () => secured,
    async close(): Promise<void> {
      for (const socket of open) socket.destroy()
      await close()
    },
  }
}
