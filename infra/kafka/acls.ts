/**
 * Rights on a cluster's topics, groups and transactions, as its authorizer keeps them.
 *
 * Gives rights and takes none away.
 */
import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } from './client/kafkajs.ts'
import type { KafkaConnection } from './connection.ts'
import { withAdmin } from './with-admin.ts'

/** What may be done. */
export type AclOperation = 'READ' | 'WRITE' | 'CREATE' | 'DESCRIBE' | 'DESCRIBE_CONFIGS' | 'ALTER_CONFIGS'

/** A right to be given; a prefix means every name that begins with it. */
export interface Acl {
  principal: string
  resource: 'TOPIC' | 'GROUP' | 'TRANSACTIONAL_ID' | 'CLUSTER'
  name: string
  isPrefix: boolean
  operation: AclOperation
}

/** Gives rights; those that are there already stay as they are. */
export async function applyAcls(kafka: KafkaConnection, acls: readonly Acl[]): Promise<void> {
  return withAdmin(
    kafka,
    async admin => {
      await admin.createAcls({
        acl: acls.map(({ principal, resource, name, isPrefix, operation }) => ({
          principal,
          host: '*',
          resourceName: name,
          resourceType: AclResourceTypes[resource],
          resourcePatternType: isPrefix ? ResourcePatternTypes.PREFIXED : ResourcePatternTypes.LITERAL,
          operation: AclOperationTypes[operation],
          permissionType: AclPermissionTypes.ALLOW,
        })),
      })
    },
    { name: 'acls' },
  )
}
