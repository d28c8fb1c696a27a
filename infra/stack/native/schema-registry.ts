/**
 * Apicurio Registry, which implements the Confluent API, from its Maven archive.
 *
 * Reads the download cache, writes <dataDir>/schema-registry (an H2 database file). Invariant: schema ids live in that
 * file and stay what they were as long as the log that names them; the two are only ever wiped together.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pinnedVersion, provideArtifact } from '../downloads.ts'
import { FIRST_COMPILER_ONLY, provideJava, runMaven } from '../java.ts'
import { runTool } from '../one-shot.ts'
import { schemaRegistryAnswers } from '../readiness.ts'
import type { PrepareServer } from './native-server.ts'

const LOWEST_JAVA = 21
const UNPACK_LIMIT_MS = 120_000
const CONFLUENT_API = '/apis/ccompat/v7'

// The second compiler costs start-up time and the registry, asked once per schema, never earns it back.
const MEMORY = ['-Xms64m', '-Xmx384m', '-XX:+UseSerialGC', FIRST_COMPILER_ONLY]

export const prepareSchemaRegistry: PrepareServer = async context => {
  const java = await provideJava(context, LOWEST_JAVA)
  const application = await provideArtifact(
    'apicurio',
    context.cacheDir,
    async (files, work) => {
      const artifact = `io.apicurio:apicurio-registry-app:${pinnedVersion('apicurio')}:tar.gz:all`
      context.say('downloading 158 MB')
      await runMaven(context, java, work, 'copy', [`-Dartifact=${artifact}`, `-DoutputDirectory=${files}`])
    },
    async (files, target) => {
      const [archive] = readdirSync(files)
      await runTool({
        ...context,
        command: 'tar',
        args: ['-xzf', join(files, archive as string), '--no-same-owner', '-C', target],
        limitMs: UNPACK_LIMIT_MS,
      })
    },
  )
  const home = join(context.dataDir, 'schema-registry')
  mkdirSync(home, { recursive: true })
  const program = join(application, 'quarkus-run.jar')
  const [port, management] = [await context.port('schemaRegistry'), await context.port('schemaRegistry-management')]
  const base = `http://127.0.0.1:${port}${CONFLUENT_API}`
  return {
    launch: {
      command: java.launcher,
      args: [...MEMORY, '-jar', program],
      environment: {
        QUARKUS_HTTP_HOST: '127.0.0.1',
        QUARKUS_HTTP_PORT: String(port),
        QUARKUS_MANAGEMENT_HOST: '127.0.0.1',
        QUARKUS_MANAGEMENT_PORT: String(management),
        QUARKUS_HTTP_ACCESS_LOG_ENABLED: 'false',
        APICURIO_STORAGE_KIND: 'sql',
        APICURIO_STORAGE_SQL_KIND: 'h2',
        // H2 otherwise writes half a second after it has acknowledged, and kill -9 would lose a schema that the log uses.
        APICURIO_DATASOURCE_URL: `jdbc:h2:file:${join(home, 'registry')};WRITE_DELAY=0`,
      },
      directory: home,
    },
    isReady: () => schemaRegistryAnswers(base),
    addresses: { schemaRegistry: base },
  }
}
