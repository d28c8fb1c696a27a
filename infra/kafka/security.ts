/**
 * TLS and SASL of every connection to a broker, as the client takes them.
 *
 * Certificates and the password are read when a connection is opened: new files are in force from the next connection on.
 */
import { connect as connectPlain, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { KafkaConfig } from 'kafkajs'
import type { KafkaSettings } from '../runtime/kafka-settings.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'

/** What a client is given to prove itself and to judge brokers by. */
export type ClientSecurity = Pick<KafkaConfig, 'ssl' | 'sasl' | 'socketFactory'>

const KEEP_ALIVE_MS = 60_000

/** The options of a client; each client is given options of its own. */
export function securityOf({ tls, sasl }: Pick<KafkaSettings, 'tls' | 'sasl'>): ClientSecurity {
  const security: ClientSecurity = {
    socketFactory: ({ host, port, onConnect }) => {
      const socket =
        tls === undefined
          ? connectPlain({ host, port }, onConnect)
          : connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }), ...readTlsFiles(tls) }, onConnect)
      return socket.setKeepAlive(true, KEEP_ALIVE_MS)
    },
  }
  if (tls !== undefined) security.ssl = true
  if (sasl !== undefined) {
    const { mechanism, user, password } = sasl
    security.sasl = {
      mechanism: mechanism as 'plain',
      username: user,
      get password() {
        return password()
      },
    }
  }
  return security
}
