/** A Chromium without a window, driven by playwright-core, pages whose requests and complaints are noted, and what can be asked of their looks. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { runTool } from '#infra/stack/one-shot.ts'
import { installPackages } from '#infra/stack/system-packages.ts'

const PROGRAM = '/usr/bin/chromium'
const INSTALL_LIMIT_MS = 300_000
const REPOSITORY = new URL('../../', import.meta.url).pathname
const BUILD_LIMIT_MS = 120_000

/** Opens Debian's browser, which is installed where it is missing; the caller closes it. */
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

/** Builds the console where its sources have changed: before an API starts, which reads it once. */
export async function buildConsole(): Promise<void> {
  const build = { args: ['services/console/build/build.ts'], directory: REPOSITORY, limitMs: BUILD_LIMIT_MS }
  await runTool({ command: process.execPath, ...build, signal: AbortSignal.timeout(BUILD_LIMIT_MS) })
}

export interface WatchedPage {
  page: Page
  addresses: string[]
  complaints: string[]
}

export async function openWatchedPage(
  browser: Pick<Browser, 'newPage'>,
  address: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const page = await browser.newPage(options)
  const addresses: string[] = []
  const complaints: string[] = []
  page.on('request', request => addresses.push(request.url()))
  page.on('pageerror', error => complaints.push(error.message))
  page.on(
    'console',
    message => message.type() === 'error' && complaints.push(`${message.text()} ${message.location().url}`),
  )
  await page.goto(address)
  return { page, addresses, complaints }
}

/** In the page: texts whose contrast to what is behind them is below WCAG's AA, and how low. */
export const FAINT_TEXTS = `(() => {
  const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true })
  const rgbaOf = colour => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    return [...canvas.getImageData(0, 0, 1, 1).data]
  }
  const luminance = rgba => {
    const [r, g, b] = rgba.slice(0, 3).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const rgba = rgbaOf(getComputedStyle(at).backgroundColor)
      if (rgba[3] === 255) return rgba
    }
    return [255, 255, 255, 255]
  }
  const texts = [...document.body.querySelectorAll('*')].filter(one =>
    one.checkVisibility() && [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== ''))
  return texts.flatMap(one => {
    const { color, fontSize, fontWeight } = getComputedStyle(one)
    const [light, dark] = [luminance(rgbaOf(color)), luminance(behind(one))].sort((a, b) => b - a)
    const ratio = (light + 0.05) / (dark + 0.05)
    const isLarge = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && fontWeight >= 700)
    return ratio < (isLarge ? 3 : 4.5) ? [one.textContent.slice(0, 40) + ' ' + ratio.toFixed(2)] : []
  })
})()`
