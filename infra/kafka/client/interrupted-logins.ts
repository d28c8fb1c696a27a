/**
 * kafkajs reports every failed login as refused credentials, which are not retried: also a connection that a stopping broker closed
 * in the midst of it, so that a rolling restart ended roles whose password was right. Here the connection's error is passed on and
 * retried.
 */
import { loadInternal } from './internals.ts'
import { isAway } from './reachable-brokers.ts'

type Ask = (request: object) => Promise<unknown>

interface Connection {
  send: Ask
  sendAuthRequest: Ask
}

export function correctLogins(): void {
  const { prototype } = loadInternal('broker/saslAuthenticator') as {
    prototype: { connection: Connection; authenticate(): Promise<void> }
  }
  const { authenticate } = prototype
  prototype.authenticate = async function () {
    let lost: unknown
    const noting =
      (ask: Ask): Ask =>
      request =>
        ask.call(connection, request).catch(error => {
          if (isAway(error)) lost = error
          throw error
        })
    const { connection } = this
    this.connection = Object.assign(Object.create(connection) as Connection, {
      send: noting(connection.send),
      sendAuthRequest: noting(connection.sendAuthRequest),
    })
    try {
      await authenticate.call(this)
    } catch (error) {
      throw lost ?? error
    }
  }
}
