/**
 * kafkajs 2.2.4 with its known faults corrected and its slow spots replaced: the only place that loads it.
 *
 * Each correction is a file of this folder that says what it corrects; all are installed here, before the client is first loaded. They
 * are tested in test/unit, in test/integration/kafkajs*.test.ts and, on three brokers, in test/fault/three-brokers.test.ts. The version is pinned: its files are addressed by name.
 */
import { correctAdmin } from './admin-retries.ts'
import { correctConnections } from './connections.ts'
import { rememberCoordinators, searchCoordinatorsAgain } from './coordinators.ts'
import { correctFetches } from './fetch-decoding.ts'
import { loadClient } from './internals.ts'
import { correctLogins } from './interrupted-logins.ts'
import { correctOtherTopics } from './other-topics.ts'
import { correctReachableBrokers } from './reachable-brokers.ts'
import { replaceRecordEncoding } from './record-encoding.ts'
import { correctSends } from './send-messages.ts'

// Files that others load come first: what is loaded keeps what it found.
replaceRecordEncoding()
correctFetches()
correctSends()
rememberCoordinators()
correctAdmin()
correctConnections()
correctLogins()
searchCoordinatorsAgain()
correctReachableBrokers()
correctOtherTopics()

/** The corrected client: its class, log levels, compression codes with their codecs, and kinds of things that settings belong to. */
export const { Kafka, logLevel, CompressionTypes, CompressionCodecs, ConfigResourceTypes } = loadClient()
/** Named where a producer is made: the default is Kafka's own too, but the client warns of one that was not chosen. */
export const { DefaultPartitioner: createPartitioner } = loadClient().Partitioners
export const { AssignerProtocol } = loadClient()
export const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = loadClient()
