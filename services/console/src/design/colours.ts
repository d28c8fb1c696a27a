/** Colours of the design for what is drawn on a canvas, which knows no variables. */
import { useSyncExternalStore } from 'react'
import { THEME_EVENT } from './theme.tsx'

/** Of a variable, as the browser has it now. */
export function colourOf(variable: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${variable})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

const dark = matchMedia('(prefers-color-scheme: dark)')

function subscribe(read: () => void): () => void {
  addEventListener(THEME_EVENT, read)
  dark.addEventListener('change', read)
  return () => {
    removeEventListener(THEME_EVENT, read)
    dark.removeEventListener('change', read)
  }
}

/** Another value for each theme, chosen or the system's. */
export const useThemeChange = (): string =>
  useSyncExternalStore(subscribe, () => `${document.documentElement.dataset.theme} ${dark.matches}`)
