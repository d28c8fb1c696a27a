import type { Admin } from 'kafkajs'
import type { KafkaConnection } from './connection.ts'

/** How the client is named to brokers, and its settings beside those of the connection. */
type AdminOptions = Parameters<KafkaConnection['newClient']>[1] & { name?: string }

/** Works with an administrator's client that is opened for it, and closed after it. */
export async function withAdmin<T>(
  kafka: Pick<KafkaConnection, 'newClient'>,
  work: (admin: Admin) => Promise<T>,
  { name = 'admin', ...settings }: AdminOptions = {},
): Promise<T> {
  const admin = kafka.newClient(name, settings).admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}
