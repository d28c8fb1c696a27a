/** A Chromium without a window, driven by playwright-core: Debian's package, installed where it is missing. */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { installPackages } from '#infra/stack/system-packages.ts'

const PROGRAM = '/usr/bin/chromium'
const INSTALL_LIMIT_MS = 300_000

/** Opens a browser; the caller closes it. */
export async function openChromium(): Promise<Browser> {
  const find = () => (existsSync(PROGRAM) ? PROGRAM : undefined)
  const context = {
    cacheDir: cacheDirectory(process.env),
    environment: process.env,
    say: (line: string) => console.error(`  ${line}`),
    signal: AbortSignal.timeout(INSTALL_LIMIT_MS),
  }
  const executablePath =
    find() ?? (await installPackages(context, ['chromium'], 'Chromium is needed to test pages', find))
  return chromium.launch({ executablePath, args: ['--no-sandbox'] })
}
