import { runTool } from '#infra/stack/one-shot.ts'

const REPOSITORY = new URL('../../', import.meta.url).pathname
const LIMIT_MS = 120_000

/** Builds the console where its sources have changed: before an API starts, which reads it once. */
export async function buildConsole(): Promise<void> {
  const build = { args: ['services/console/build/build.ts'], directory: REPOSITORY, limitMs: LIMIT_MS }
  await runTool({ command: process.execPath, ...build, signal: AbortSignal.timeout(LIMIT_MS) })
}
