import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

export interface Listening {
  readonly port: number
  close(): Promise<void>
}

export async function listen(server: Server, host = '127.0.0.1'): Promise<Listening> {
  server.listen(0, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      if ('closeAllConnections' in server) (server.closeAllConnections as () => void)()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A port of this machine that was free a moment ago. */
export async function freePort(): Promise<number> {
  const { port, close } = await listen(createServer())
  await close()
  return port
}
