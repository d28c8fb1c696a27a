import type { KafkaConnection } from '#infra/kafka/connection.ts'

type Admin = ReturnType<ReturnType<KafkaConnection['newClient']>['admin']>

/** Works with an administrator's client of its own. */
export async function withAdmin<T>(
  kafka: Pick<KafkaConnection, 'newClient'>,
  work: (admin: Admin) => Promise<T>,
  options?: Parameters<KafkaConnection['newClient']>[1],
): Promise<T> {
  const admin = kafka.newClient('admin', options).admin()
  await admin.connect()
  return work(admin).finally(() => admin.disconnect())
}
