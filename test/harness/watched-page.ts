/** A page whose requests and complaints are noted, and what can be asked of how it looks. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'

export interface WatchedPage {
  page: Page
  /** What it has asked for. */
  addresses: string[]
  /** Errors of its console and scripts. */
  complaints: string[]
}

/** Opens a page; the caller closes it. */
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
